"""Every listener a broker can have: the right credentials read, the wrong ones fail at once and say why."""

import time
import uuid

import pytest

from penstock import ConsumerConnector
from penstock.config.source import parse_options
from penstock.errors import AuthenticationFailed, AuthorizationFailed, BrokerError
from penstock.planner.batch import plan_batch
from penstock.testing import EmbeddedKafka
from penstock.wire.cluster import Cluster
from penstock.wire.transport.connection import Connection
from penstock.wire.transport.pool import POOL
from support.configs import oauth_login
from support.reading import range_reader


def read(options):
    found = []
    for r in plan_batch(options):
        for batch in range_reader(r, ["value"], options.client).prefetched():
            found += batch.column("value").to_pylist()
    return found


def fill(kafka, topic, make=True):
    """Write with kafka-python, whose SSL and SASL share no line with ours."""
    from kafka import KafkaProducer

    config = kafka.client_options(prefix="")
    arguments = {"bootstrap_servers": config["bootstrap.servers"], "security_protocol": config["security.protocol"]}
    if "ssl.truststore.location" in config:
        arguments["ssl_cafile"] = config["ssl.truststore.location"]
    if "ssl.keystore.location" in config:
        arguments["ssl_certfile"] = arguments["ssl_keyfile"] = config["ssl.keystore.location"]
        arguments["ssl_password"] = config.get("ssl.key.password")
    if "sasl.jaas.config" in config:
        from penstock.wire.transport.security import parse_jaas

        login = parse_jaas(config["sasl.jaas.config"])
        arguments |= {
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": login["username"],
            "sasl_plain_password": login["password"],
        }
    if make:
        kafka.create_topic(topic)
    producer = KafkaProducer(**arguments)
    try:
        producer.send(topic, b"secret value").get(60)
    finally:
        producer.close()


@pytest.fixture(scope="module")
def ssl_kafka():
    with EmbeddedKafka(listener="SSL", client_auth=True) as kafka:
        fill(kafka, "t")
        yield kafka


@pytest.fixture(scope="module")
def sasl_kafka():
    # Sessions of three seconds: a read that outlives one must log in again.
    settings = {"connections.max.reauth.ms": 3000}
    with EmbeddedKafka(listener="SASL_SSL", users={"reader": None, "other": None}, settings=settings) as kafka:
        fill(kafka, "t")
        yield kafka


def test_mutual_tls(ssl_kafka):
    assert read(parse_options(ssl_kafka.client_options() | {"subscribe": "t"})) == [b"secret value"]


def test_tls_without_the_brokers_ca_is_refused_and_says_what_to_set(ssl_kafka):
    options = {k: v for k, v in ssl_kafka.client_options().items() if "truststore" not in k}
    with pytest.raises(AuthenticationFailed, match=r"ssl\.truststore\.location"):
        read(parse_options(options | {"subscribe": "t"}))


def test_tls_without_the_clients_certificate_is_refused(ssl_kafka):
    options = {k: v for k, v in ssl_kafka.client_options().items() if "keystore" not in k and "key.password" not in k}
    with pytest.raises(AuthenticationFailed, match=r"ssl\.keystore\.location"):
        read(parse_options(options | {"subscribe": "t"}))


@pytest.mark.parametrize(
    ("given", "version", "cipher"),
    [
        ({"enabled.protocols": "TLSv1.3"}, "TLSv1.3", "TLS_"),
        ({"enabled.protocols": "TLSv1.2"}, "TLSv1.2", "ECDHE-"),
        ({"protocol": "TLSv1.2"}, "TLSv1.2", "ECDHE-"),
        ({"cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}, "TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ],
    ids=["only-1.3", "only-1.2", "at-most-1.2", "suite"],
)
def test_protocols_and_cipher_suites_have_their_effect(ssl_kafka, given, version, cipher):
    options = ssl_kafka.client_options() | {f"kafka.ssl.{name}": value for name, value in given.items()}
    client = parse_options(options | {"subscribe": "t"}).client
    connection = Connection(*client.bootstrap[0], client, 60.0)
    try:
        assert connection._socket.version() == version
        assert connection._socket.cipher()[0].startswith(cipher)
    finally:
        connection.close()


def test_a_cipher_suite_that_is_not_in_the_list_is_refused(ssl_kafka):
    """The broker prefers another one, and Python cannot leave that out of its offer."""
    options = ssl_kafka.client_options() | {"kafka.ssl.cipher.suites": "TLS_AES_128_CCM_SHA256"}
    with pytest.raises(AuthenticationFailed, match=r"it chose TLS_\w+, which is not among.*kafka\.ssl\.cipher\.suites"):
        read(parse_options(options | {"subscribe": "t"}))


def test_plaintext_on_a_tls_port_is_an_error_that_names_the_protocol(ssl_kafka):
    options = {
        "kafka.bootstrap.servers": ssl_kafka.bootstrap_servers,
        "subscribe": "t",
        "kafka.default.api.timeout.ms": "4000",
    }
    with pytest.raises(BrokerError, match=r"kafka\.security\.protocol"):
        read(parse_options(options))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_sasl_over_tls(sasl_kafka, mechanism):
    options = sasl_kafka.client_options(mechanism=mechanism) | {"subscribe": "t"}
    assert read(parse_options(options)) == [b"secret value"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_fails_at_once_and_prints_no_password(sasl_kafka, mechanism):
    options = sasl_kafka.client_options(mechanism=mechanism, user="reader", password="hush-wrong")
    with pytest.raises(AuthenticationFailed, match="refused the login of reader") as caught:
        read(parse_options(options | {"subscribe": "t"}))
    assert "hush" not in str(caught.value)


def test_a_mechanism_the_broker_does_not_offer_names_those_it_does(sasl_kafka):
    line = 'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="reader";'
    login = {"kafka.sasl.mechanism": "OAUTHBEARER", "kafka.sasl.jaas.config": line}
    options = sasl_kafka.client_options() | login | {"subscribe": "t"}
    with pytest.raises(AuthenticationFailed, match=r"offers .*PLAIN"):
        read(parse_options(options))


def test_a_session_that_ran_out_is_not_used_again(sasl_kafka):
    options = parse_options(sasl_kafka.client_options() | {"subscribe": "t"})
    POOL.close()
    assert read(options) == [b"secret value"]
    (kept,) = [c for connections in POOL._idle.values() for c in connections]
    deadline = time.monotonic() + 30
    while not kept.session_over:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert read(options) == [b"secret value"]
    assert kept._socket.fileno() == -1, "the old session's connection is still in the pool"


def test_unsecured_oauth_tokens_for_development():
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    jaas = f'{handler} unsecuredLoginStringClaim_sub="reader";'
    from penstock.wire.transport.oauth import TokenCache
    from penstock.wire.transport.security import parse_jaas

    token = TokenCache().get(oauth_login(claims=tuple(parse_jaas(jaas).items())), deadline=0.0).text
    import base64
    import json

    header, payload, signature = token.split(".")
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    assert claims["sub"] == "reader"
    assert claims["exp"] > claims["iat"]
    assert signature == ""


# --- a consumer in a group --------------------------------------------------------------------------------------------


@pytest.fixture
def consumer():
    """`consumer(kafka, options)` makes a connector in a group of its own; it is shut down at the end."""
    made = []

    def make(options, **settings):
        config = {"group.id": f"g-{uuid.uuid4().hex[:12]}", "auto.offset.reset": "earliest", **options}
        made.append(ConsumerConnector(config | settings))
        return made[-1]

    yield make
    for each in made:
        each.shutdown()


def test_a_consumer_over_mutual_tls(ssl_kafka, consumer):
    connector = consumer(ssl_kafka.client_options(prefix=""))
    assert next(connector.create_message_streams({"t": 1})["t"][0]).value == b"secret value"
    connector.commit_offsets()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_consumer_over_sasl_and_tls_outlives_its_logins(sasl_kafka, consumer, mechanism):
    """Those of this broker run out after three seconds: of fetchers, heartbeats and commits alike."""
    topic = f"outlived-{mechanism.lower()}"
    fill(sasl_kafka, topic)
    options = sasl_kafka.client_options(prefix="", mechanism=mechanism)
    settings = {"auto.commit.interval.ms": 100, "heartbeat.interval.ms": 300, "session.timeout.ms": 30_000}
    connector = consumer(options, **settings)
    stream = connector.create_message_streams({topic: 1})[topic][0]
    assert next(stream).offset == 0
    time.sleep(4)
    fill(sasl_kafka, topic, make=False)
    assert next(stream).offset == 1
    connector.commit_offsets()
    metrics = connector.metrics()
    assert (metrics.rebalances, metrics.commits_failed) == (1, 0)


def test_a_consumer_with_a_wrong_password_tells_its_reader(sasl_kafka, consumer):
    connector = consumer(sasl_kafka.client_options(prefix="", user="reader", password="hush-wrong"))
    stream = connector.create_message_streams({"t": 1})["t"][0]
    with pytest.raises(AuthenticationFailed, match="refused the login of reader") as caught:
        next(stream)
    assert "hush" not in str(caught.value)
    assert "hush" not in repr(connector.config)


def test_a_topic_without_permission_is_named(consumer):
    acls = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    with EmbeddedKafka(listener="SASL_PLAINTEXT", users={"nobody": None}, settings=acls) as kafka:
        kafka.create_topic("t")
        options = parse_options(kafka.client_options() | {"subscribe": "t"})
        with pytest.raises(AuthorizationFailed, match="'t'"):
            Cluster(options.client).metadata(("t",))
        connector = consumer(kafka.client_options(prefix=""))
        with pytest.raises(AuthorizationFailed, match=r"'t'|group"):
            next(connector.create_message_streams({"t": 1})["t"][0])
        connector.shutdown()
