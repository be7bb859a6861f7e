"""OAUTHBEARER against a real broker, with a token endpoint that fails on request."""

from __future__ import annotations

import base64
import json
import time
import uuid

import pytest

from fixtures.consumer import eventually
from penstock import ConsumerConnector
from penstock.config.source import parse_options
from penstock.errors import AuthenticationFailed, BrokerUnavailable
from penstock.planner.batch import plan_batch
from penstock.testing import EmbeddedKafka
from penstock.testing.listeners import MECHANISMS
from penstock.wire.transport.oauth import TOKENS
from penstock.wire.transport.pool import POOL
from support.http_server import Answer, Server, answer
from support.reading import range_reader

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
LINE = f'{MODULE} clientId="me" clientSecret="hush";'


def token(seconds: int = 3600, name: str = "reader") -> Answer:
    """Unsigned, which a broker without a key set takes."""
    now = int(time.time())
    parts = [{"alg": "none"}, {"sub": name, "iat": now, "exp": now + seconds}]
    text = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    return answer({"access_token": f"{text}.", "expires_in": seconds})


@pytest.fixture(scope="module")
def kafka():
    settings = {
        "sasl.enabled.mechanisms": ",".join([*MECHANISMS, "OAUTHBEARER"]),
        "listener.name.client.oauthbearer.sasl.jaas.config": f'{MODULE} unsecuredLoginStringClaim_sub="broker";',
    }
    with EmbeddedKafka(listener="SASL_PLAINTEXT", users={"writer": None}, settings=settings) as kafka:
        kafka.create_topic("t")
        yield kafka


@pytest.fixture
def endpoint():
    TOKENS.forget_all()
    POOL.close()
    server = Server()
    server.answers["/token"] = token()
    yield server
    server.stop()
    TOKENS.forget_all()


def settings(kafka: EmbeddedKafka, endpoint: Server) -> dict[str, str]:
    return {
        "bootstrap.servers": kafka.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": LINE,
        "sasl.oauthbearer.token.endpoint.url": f"{endpoint.url}/token",
        "sasl.login.retry.backoff.max.ms": "200",
    }


def read(kafka: EmbeddedKafka, endpoint: Server, **more: str) -> int:
    given = {f"kafka.{name}": value for name, value in settings(kafka, endpoint).items()}
    options = parse_options(given | {"subscribe": "t"} | {f"kafka.{name}": value for name, value in more.items()})
    ranges = plan_batch(options)
    return sum(batch.num_rows for r in ranges for batch in range_reader(r, ["value"], options.client).prefetched())


def test_a_read_outlives_an_endpoint_that_fails_for_a_while_and_asks_for_one_token(kafka, endpoint):
    endpoint.answers["/token"] = [Answer(b"", 503), Answer(b"", 503), token()]
    assert read(kafka, endpoint) == 0
    POOL.close()
    assert read(kafka, endpoint) == 0
    assert len(endpoint.requests) == 3


def test_an_endpoint_that_stays_away_is_told_with_its_answer_and_without_secrets(kafka, endpoint):
    endpoint.answers["/token"] = Answer(b"", 503)
    quick = {"default.api.timeout.ms": "1000", "socket.connection.setup.timeout.ms": "300"}
    with pytest.raises(BrokerUnavailable, match=r"no access token for the login: http://.*/token: HTTP 503") as gone:
        read(kafka, endpoint, **quick)
    assert "hush" not in str(gone.value)


def test_a_client_that_the_endpoint_refuses_fails_at_once_and_names_the_options(kafka, endpoint):
    endpoint.answers["/token"] = answer({"error": "invalid_client"}, 401)
    with pytest.raises(
        AuthenticationFailed, match=r"401: invalid_client.*kafka\.sasl\.oauthbearer\.token\.endpoint\.url"
    ):
        read(kafka, endpoint)
    assert len(endpoint.requests) == 1


def test_a_token_that_the_broker_refuses_is_replaced_once(kafka, endpoint):
    assert read(kafka, endpoint) == 0
    [kept] = TOKENS._kept.values()
    # As if it had been revoked: the broker refuses it, without notice.
    payload = json.loads(base64.urlsafe_b64decode(kept.token.text.split(".")[1] + "==")) | {"exp": 1}
    old = base64.urlsafe_b64encode(json.dumps(payload).encode()).rstrip(b"=").decode()
    object.__setattr__(kept.token, "text", f"{kept.token.text.split('.')[0]}.{old}.")
    POOL.close()
    assert read(kafka, endpoint) == 0
    assert len(endpoint.requests) == 2
    endpoint.answers["/token"] = token(-10)
    TOKENS.forget_all()
    POOL.close()
    with pytest.raises(AuthenticationFailed, match="refused the login"):
        read(kafka, endpoint)


def test_a_consumer_outlives_an_endpoint_that_fails_for_a_while(kafka, endpoint):
    endpoint.answers["/token"] = Answer(b"", 503)
    group = {"group.id": f"g-{uuid.uuid4().hex[:8]}", "socket.connection.setup.timeout.ms": "300"}
    connector = ConsumerConnector(settings(kafka, endpoint) | group)
    try:
        connector.create_message_streams({"t": 1})
        eventually(lambda: len(endpoint.requests) > 5, "the endpoint was asked again")
        endpoint.answers["/token"] = token()
        eventually(lambda: any(flow.owned for flow in connector.metrics().topics), "the group was joined")
    finally:
        connector.shutdown()
