"""Mutual TLS with a real broker and the stores that users of Java have, written by Java's keytool."""

from __future__ import annotations

import uuid

import pytest

from penstock import ConsumerConnector
from penstock.config.source import parse_options
from penstock.errors import AuthenticationFailed
from penstock.planner.batch import plan_batch
from penstock.testing import EmbeddedKafka
from support.java_stores import TYPES, store_options
from support.reading import range_reader

PASSWORD = "hush-store"
KEY_PASSWORD = "hush-key"


@pytest.fixture(scope="module")
def kafka():
    with EmbeddedKafka(listener="SSL", client_auth=True) as kafka:
        kafka.create_topic("t")
        yield kafka


@pytest.fixture(scope="module")
def stores(kafka, tmp_path_factory):
    """`stores[type]` are the options of a key store and a trust store of that type."""
    return {
        name: store_options(
            kafka, name, tmp_path_factory.mktemp("stores"), PASSWORD, KEY_PASSWORD if name == "JKS" else None
        )
        for name in TYPES
    }


def read(given):
    options = parse_options(given | {"subscribe": "t"})
    ranges = plan_batch(options)
    return sum(batch.num_rows for r in ranges for batch in range_reader(r, ["value"], options.client).prefetched())


@pytest.mark.parametrize("kind", TYPES)
def test_mutual_tls_with_stores_of_java(stores, kind):
    assert read(stores[kind]) == 0


@pytest.mark.parametrize("kind", TYPES)
def test_a_declared_type_does_not_matter_between_javas_two(stores, kind):
    """Kafka's default is JKS, and Java opens PKCS12 under that name too."""
    declared = {"kafka.ssl.keystore.type": "JKS", "kafka.ssl.truststore.type": "JKS"}
    assert read(stores[kind] | declared) == 0


def test_the_key_store_is_what_lets_the_client_in(stores):
    without = {name: value for name, value in stores["JKS"].items() if "key" not in name}
    with pytest.raises(AuthenticationFailed, match=r"ssl\.keystore\.location"):
        read(without)


def test_the_trust_store_is_what_lets_the_broker_in(stores, tmp_path):
    """Trusting another certificate, the client refuses the broker."""
    other = {name: stores["JKS"][name.replace("trust", "key")] for name in stores["JKS"] if "truststore" in name}
    with pytest.raises(AuthenticationFailed, match=r"certificate verify failed.*ssl\.truststore\.location"):
        read(stores["JKS"] | other)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("store", ["keystore", "truststore"])
def test_a_wrong_password_fails_at_once_and_is_not_shown(stores, kind, store):
    with pytest.raises(AuthenticationFailed, match=rf"kafka\.ssl\.{store}\.password: it does not open") as caught:
        read(stores[kind] | {f"kafka.ssl.{store}.password": "hush-wrong"})
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("kind", TYPES)
def test_a_consumer_with_stores_of_java(stores, kind):
    settings = {name.removeprefix("kafka."): value for name, value in stores[kind].items()}
    connector = ConsumerConnector(settings | {"group.id": f"g-{uuid.uuid4().hex[:12]}"})
    try:
        connector.create_message_streams({"t": 1})
        connector.commit_offsets()
        assert "hush" not in repr(connector.config)
    finally:
        connector.shutdown()


def test_a_consumer_with_a_wrong_password_tells_its_reader(stores):
    settings = {name.removeprefix("kafka."): value for name, value in stores["JKS"].items()}
    group = {"group.id": "g", "ssl.key.password": "hush-wrong"}
    connector = ConsumerConnector(settings | group)
    try:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        with pytest.raises(
            AuthenticationFailed, match=r": ssl\.key\.password: it does not open the private key"
        ) as told:
            next(stream)
        assert "hush" not in str(told.value)
    finally:
        connector.shutdown()
