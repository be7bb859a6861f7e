"""OAUTHBEARER as in production: a broker that checks signatures, issuer and audience by its own code, tokens of a token
server, and tokens of the user's own function."""

from __future__ import annotations

import base64
import json
import sys
import time
from types import ModuleType
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from penstock.config.source import parse_options
from penstock.errors import AuthenticationFailed, BrokerUnavailable
from penstock.planner.batch import plan_batch
from penstock.testing import EmbeddedKafka
from penstock.testing.listeners import MECHANISMS
from penstock.wire.api.topic_admin import Admin
from penstock.wire.transport.oauth import TOKENS
from penstock.wire.transport.pool import POOL
from support.http_server import Server, answer
from support.reading import range_reader

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
MODULE = f"{PACKAGE}.OAuthBearerLoginModule required"
ISSUER, AUDIENCE = "https://tokens.example.org", "kafka.example.org"
KEY, OTHER_KEY = (rsa.generate_private_key(65537, 2048) for _ in range(2))


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed(key: rsa.RSAPrivateKey = KEY, **claims: object) -> str:
    now = int(time.time())
    body = {"iss": ISSUER, "aud": AUDIENCE, "sub": "reader", "scope": "read", "iat": now, "exp": now + 3600} | claims
    parts = ({"alg": "RS256", "typ": "JWT", "kid": "k1"}, body)
    text = ".".join(encoded(json.dumps(part).encode()) for part in parts)
    return f"{text}.{encoded(key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    public = KEY.public_key().public_numbers()
    numbers = {name: encoded(value.to_bytes(-(-value.bit_length() // 8), "big")) for name, value in vars_of(public)}
    keys = tmp_path_factory.mktemp("jwks") / "keys.json"
    keys.write_text(json.dumps({"keys": [{"kty": "RSA", "kid": "k1", "use": "sig", "alg": "RS256"} | numbers]}))
    url, prefix = keys.as_uri(), "listener.name.client.oauthbearer.sasl."
    settings = {
        "sasl.enabled.mechanisms": ",".join([*MECHANISMS, "OAUTHBEARER"]),
        f"{prefix}jaas.config": f"{MODULE};",
        f"{prefix}server.callback.handler.class": f"{PACKAGE}.OAuthBearerValidatorCallbackHandler",
        f"{prefix}oauthbearer.jwks.endpoint.url": url,
        f"{prefix}oauthbearer.expected.audience": AUDIENCE,
        f"{prefix}oauthbearer.expected.issuer": ISSUER,
    }
    options = (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}",)
    with EmbeddedKafka(
        listener="SASL_PLAINTEXT", users={"writer": None}, settings=settings, jvm_options=options
    ) as kafka:
        kafka.create_topic("t")
        yield kafka


def vars_of(public):
    return (("n", public.n), ("e", public.e))


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
    made.token = signed()
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
