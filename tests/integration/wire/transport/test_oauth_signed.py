"""OAUTHBEARER as in production: a broker that checks signatures, issuer and audience by its own code, tokens of a token
server, and tokens of the user's own function."""

from __future__ import annotations

import sys
from base64 import b64encode
from types import ModuleType
from urllib.parse import parse_qs

import pytest

from penstock.config.source import parse_options
from penstock.errors import AuthenticationFailed, BrokerUnavailable
from penstock.planner.batch import plan_batch
from penstock.testing import EmbeddedKafka
from penstock.wire.api.topic_admin import Admin
from penstock.wire.transport.oauth import TOKENS
from penstock.wire.transport.pool import POOL
from support.http_server import Server, answer
from support.reading import range_reader
from support.signed_tokens import AUDIENCE, MODULE, checking_broker, new_key, signed

KEY, OTHER_KEY = new_key(), new_key()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    settings, option = checking_broker(KEY, tmp_path_factory.mktemp("jwks"))
    with EmbeddedKafka(
        listener="SASL_PLAINTEXT", users={"writer": None}, settings=settings, jvm_options=(option,)
    ) as kafka:
        kafka.create_topic("t")
        yield kafka


@pytest.fixture(autouse=True)
def no_tokens():
    TOKENS.forget_all()
    POOL.close()
    yield
    TOKENS.forget_all()
    POOL.close()


@pytest.fixture
def endpoint():
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def module(monkeypatch):
    made = ModuleType("own_tokens")
    made.token = signed(KEY)
    made.calls = 0

    def get(entries):
        made.calls += 1
        assert entries == {"region": "eu"}
        if isinstance(made.token, Exception):
            raise made.token
        return made.token

    made.get = get
    monkeypatch.setitem(sys.modules, "own_tokens", made)
    return made


BY_FUNCTION = {"kafka.sasl.login.callback.handler.class": "own_tokens:get"}


def given(kafka: EmbeddedKafka, entries: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.jaas.config": f"{MODULE} {entries};",
        "subscribe": "t",
    }


def read(kafka: EmbeddedKafka, entries: str, **more: str) -> int:
    options = parse_options(given(kafka, entries) | {f"kafka.{name}": value for name, value in more.items()})
    ranges = plan_batch(options)
    return sum(batch.num_rows for r in ranges for batch in range_reader(r, ["value"], options.client).prefetched())


def by_endpoint(kafka: EmbeddedKafka, endpoint: Server, **claims: object) -> int:
    key = claims.pop("key", KEY)
    endpoint.answers["/token"] = answer({"access_token": signed(key, **claims), "expires_in": 3600})
    entries = (
        'clientId="me" clientSecret="hush" scope="read" audience="kafka.example.org" extension_logicalCluster="lkc-1"'
    )
    return read(kafka, entries, **{"sasl.oauthbearer.token.endpoint.url": f"{endpoint.url}/token"})


def by_function(kafka: EmbeddedKafka, **more: str) -> int:
    return read(kafka, 'region="eu"', **{"sasl.login.callback.handler.class": "own_tokens:get"} | more)


def test_a_signed_token_of_the_token_server_with_scope_audience_and_extension(kafka, endpoint):
    assert by_endpoint(kafka, endpoint) == 0
    (request,) = endpoint.requests
    form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
    assert form == {"grant_type": "client_credentials", "scope": "read", "audience": AUDIENCE}


def test_client_id_secret_and_scope_by_kafkas_own_names(kafka, endpoint):
    endpoint.answers["/token"] = answer({"access_token": signed(KEY), "expires_in": 3600})
    credentials = "sasl.oauthbearer.client.credentials.client."
    more = {f"{credentials}id": "me", f"{credentials}secret": "hush", "sasl.oauthbearer.scope": "read"}
    pool = 'extension_logicalCluster="lkc-1" extension_identityPoolId="pool-1"'
    assert read(kafka, pool, **more, **{"sasl.oauthbearer.token.endpoint.url": f"{endpoint.url}/token"}) == 0
    (request,) = endpoint.requests
    assert parse_qs(request.body.decode())["scope"] == ["read"]
    assert request.headers["authorization"] == f"Basic {b64encode(b'me:hush').decode()}"


def test_a_token_in_a_file(kafka, tmp_path):
    by_file = {"sasl.oauthbearer.token.endpoint.url": f"file:{tmp_path / 'token'}"}
    (tmp_path / "token").write_text(signed(KEY))
    assert read(kafka, "", **by_file) == 0
    (tmp_path / "token").write_text(signed(KEY, exp=1))
    POOL.close()
    with pytest.raises(AuthenticationFailed, match="refused the login of this client by OAUTHBEARER"):
        read(kafka, "", **by_file)


@pytest.mark.parametrize(
    "claims",
    [{"key": OTHER_KEY}, {"aud": "another"}, {"iss": "another"}, {"exp": 1}],
    ids=lambda claim: next(iter(claim)),
)
def test_a_token_that_the_broker_cannot_check_is_refused_with_the_step_that_failed(kafka, endpoint, claims):
    with pytest.raises(AuthenticationFailed, match=r"refused the login of this client by OAUTHBEARER.*invalid_token"):
        by_endpoint(kafka, endpoint, **claims)


def test_a_function_of_the_user_is_called_once_for_many_connections(kafka, module):
    assert by_function(kafka) == 0
    POOL.close()
    assert by_function(kafka) == 0
    assert module.calls == 1


def test_administration_logs_in_by_the_same_token(kafka, module):
    options = parse_options(given(kafka, 'region="eu"') | BY_FUNCTION)
    assert "t" in Admin(kafka.bootstrap_servers, options.client.security).topics()
    assert by_function(kafka) == 0
    assert module.calls == 1
    module.token = ValueError("no such key")
    TOKENS.forget_all()
    with pytest.raises(AuthenticationFailed, match="own_tokens:get failed: ValueError: no such key"):
        Admin(kafka.bootstrap_servers, options.client.security, seconds=5.0).topics()


def test_a_function_that_fails_is_final_and_named(kafka, module):
    module.token = ValueError("no such key")
    words = r"no access token for the login: own_tokens:get failed: ValueError: no such key\. Check kafka\.sasl\.login"
    with pytest.raises(AuthenticationFailed, match=words):
        by_function(kafka)
    assert module.calls == 1


def test_a_function_without_a_network_is_called_again_until_the_deadline(kafka, module):
    module.token = ConnectionError("the token service is away")
    quick = {"default.api.timeout.ms": "1500", "retry.backoff.ms": "50"}
    with pytest.raises(BrokerUnavailable, match="own_tokens:get failed: ConnectionError: the token service is away"):
        by_function(kafka, **quick)
    assert module.calls > 1
