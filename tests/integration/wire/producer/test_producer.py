"""The producer against a real broker: order, retries, limits, and refused records."""

from __future__ import annotations

import random
import socket
import threading
import time
import uuid

import pyarrow as pa
import pytest
from kafka.protocol.admin import AlterClientQuotasRequest as ClientQuotas

from fixtures.cluster import await_nodes, elect_preferred
from penstock._kernel import Encoder
from penstock.errors import BrokerUnavailable, TopicRecreated, UnknownTopic, UnwritableRecord
from penstock.model.topic_partition import TopicPartition
from penstock.testing import EmbeddedKafka
from penstock.wire.producer import delivery
from penstock.wire.producer.identity import NO_IDENTITY
from penstock.wire.producer.producer import Producer
from support.configs import producer_settings
from support.producing import Writing, client_of, values_in, writing


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%08d" % number for number in range(start, start + count)]


@pytest.fixture
def client(kafka):
    return client_of(kafka)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_W9_rows_arrive_once_in_order_and_are_counted(kafka, client, topic, compression):
    name = topic(3)
    with writing(client, encoder={"compression": compression, "batch_size": 1000}) as sink:
        for partition in range(3):
            sink.deliver(name, numbered(5000, partition * 10_000), partition)
        written, metrics = sink.producer.written, sink.producer.metrics
    assert values_in(kafka, name) == {number: numbered(5000, number * 10_000) for number in range(3)}
    ranges = {tp.partition: (each.first_offset, each.end_offset, each.rows) for tp, each in written.items()}
    assert ranges == dict.fromkeys(range(3), (0, 5000, 5000))
    assert metrics.rows == 15_000
    assert metrics.bytes == sum(each.bytes for each in written.values())


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_W4_without_idempotence_batches_arrive_in_order(kafka, client, topic, acks):
    name = topic()
    with writing(client, encoder={"batch_size": 500}, acks=acks, idempotent=False) as sink:
        assert sink.producer.identity == NO_IDENTITY
        sink.deliver(name, numbered(2000))
        (written,) = sink.producer.written.values()
        assert written.end_offset == (-1 if acks == 0 else 2000)
    if acks == 0:  # nothing tells when the broker has the last one
        wait_for(lambda: len(values_in(kafka, name).get(0, ())) == 2000)
    assert values_in(kafka, name) == {0: numbered(2000)}


def wait_for(condition, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def cut_network(kafka, proxy, monkeypatch):
    """Batches go through a proxy that cuts its connection before some answers."""
    chance = random.Random(7)
    through = proxy(lambda piece: None if chance.random() < 0.15 else piece)
    honest = delivery.POOL.acquire

    def acquire(config, host, port, *more):
        return honest(config, "127.0.0.1", through.port, *more)

    class PoolThroughProxy:
        release = staticmethod(delivery.POOL.release)

    PoolThroughProxy.acquire = staticmethod(acquire)
    monkeypatch.setattr(delivery, "POOL", PoolThroughProxy)


def test_W4_W9_lost_answers_write_nothing_twice_and_keep_the_order(kafka, topic, cut_network):
    name = topic(2)
    client = client_of(kafka, retry_backoff_ms="1", retry_backoff_max_ms="5")
    with writing(client, encoder={"batch_size": 400}, max_request_size=1500) as sink:
        for round_ in range(20):
            for partition in range(2):
                sink.deliver(name, numbered(200, round_ * 200), partition)
        metrics = sink.producer.metrics
    assert metrics.retries > 10
    assert metrics.rows == 8000
    assert values_in(kafka, name) == dict.fromkeys(range(2), numbered(4000))


def test_W8_a_batch_that_is_too_large_is_split_in_order(kafka, client, topic):
    name = topic(1, max_message_bytes=2000)
    with writing(client, encoder={"batch_size": 100_000}) as sink:
        sink.write(name, numbered(10))
        sink.write(name, numbered(3000, 10))
        sink.deliver(name, numbered(500, 3010))
        assert sink.producer.metrics.batches_split > 10
    assert values_in(kafka, name) == {0: numbered(3510)}


def test_W8_a_record_that_is_too_large_is_named(client, topic):
    name = topic(1, max_message_bytes=2000)
    with writing(client) as sink:
        sink.deliver(name, numbered(10))
        with pytest.raises(UnwritableRecord, match=r"max\.message\.bytes") as caught:
            sink.deliver(name, [b"x" * 5000])
        assert (caught.value.topic, caught.value.partition, caught.value.row) == (name, 0, 10)
        with pytest.raises(UnwritableRecord):
            sink.producer.flush()
        sink.encoder = Encoder(batch_size=1000, max_record_size=1000, buffer_size=1000)
        sink.begin()
        sink.deliver(name, numbered(1))


def test_W8_a_record_without_a_key_for_a_compacted_topic_is_named(client, topic):
    name = topic(1, cleanup_policy="compact")
    with writing(client) as sink:
        with pytest.raises(UnwritableRecord, match=r"INVALID_RECORD: .*needs a key") as caught:
            sink.deliver(name, numbered(5))
        assert caught.value.row == 0


def test_W8_a_timestamp_that_the_topic_does_not_accept_is_named(client, topic):
    name = topic(1, message_timestamp_before_max_ms=1000)
    message = r"INVALID_TIMESTAMP.*message\.timestamp\.before\.max\.ms"
    with writing(client) as sink, pytest.raises(UnwritableRecord, match=message):
        sink.deliver(name, numbered(5))


def test_W8_unknown_topics_and_partitions_are_named(kafka, client, topic):
    name = topic(2)
    with writing(client) as sink:
        with pytest.raises(UnknownTopic, match=name[:-1]):
            sink.producer.partition_count(name[:-1])
        sink.encoder.add_topic(name, 5)
        sink.producer.send_all(batches(sink, name, 4))
        with pytest.raises(UnknownTopic, match=f"{name}-4 does not exist: the topic has partitions 0 to 1"):
            sink.producer.flush()
    with writing(client) as sink:
        sink.producer.send_all(batches(sink, "no-such-topic", 0))
        with pytest.raises(UnknownTopic, match="no-such-topic"):
            sink.producer.flush()


def batches(sink: Writing, topic: str, partition: int) -> list:
    sink.encoder.add_topic(topic, partition + 1)
    rows = pa.record_batch({"value": [b"v"], "partition": pa.array([partition], pa.int32())})
    sink.encoder.append(rows, topic=topic, timestamp=0)
    return sink.encoder.flush()


def test_W8_a_recreated_topic_is_an_error_and_nothing_goes_to_the_new_one(kafka, client, topic):
    name = topic()
    with writing(client) as sink:
        sink.deliver(name, numbered(5))
        kafka.delete_topic(name)
        kafka.create_topic(name)
        sink.producer.send_all(batches(sink, name, 0))
        with pytest.raises(TopicRecreated, match=name):
            sink.producer.flush()
    assert values_in(kafka, name) == {}


def test_W8_brokers_that_do_not_come_back_are_an_error_after_the_delivery_timeout():
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t")
        with writing(client_of(kafka), delivery_timeout=1.5) as sink:
            sink.deliver("t", numbered(5))
            kafka.kill_node(1)
            sink.producer.send_all(batches(sink, "t", 0))
            with pytest.raises(BrokerUnavailable, match=r"writing to t-0: not done within 1\.5 s") as caught:
                sink.producer.flush()
            assert "delivery.timeout.ms" in str(caught.value)
            assert caught.value.history


def test_the_buffer_bounds_what_is_not_acknowledged(kafka, client, topic):
    name = topic(4)
    with writing(client, encoder={"batch_size": 10_000}, buffer_size=50_000) as sink:
        honest, largest = sink.producer._delivery._receive, 0

        def receive(wait):
            """Read answers only when the buffer is full: a quick broker would keep it empty."""
            nonlocal largest
            largest = max(largest, sink.producer._delivery._bytes)
            if wait:
                honest(wait)

        sink.producer._delivery._receive = receive
        for start in range(0, 20_000, 500):
            sink.write(name, numbered(500, start), start // 500 % 4)
            assert sink.producer._delivery._bytes <= 50_000
        sink.producer.flush()
    assert largest > 50_000
    assert sorted(value for values in values_in(kafka, name).values() for value in values) == numbered(20_000)


def test_a_quota_is_honoured_and_the_time_is_counted():
    with EmbeddedKafka(settings={"quota.window.num": 2}) as kafka:
        kafka.create_topic("t")
        set_producer_quota(kafka, 100_000)
        client = client_of(kafka)
        with writing(client, encoder={"batch_size": 50_000}) as sink:
            for _ in range(6):
                sink.deliver("t", [b"x" * 1000] * 50)
            assert sink.producer.metrics.throttle_seconds > 0.1
            assert sink.producer.metrics.rows == 300


def set_producer_quota(kafka, bytes_per_second: int) -> None:
    """For all clients, by a request of kafka-python, whose admin client has no method for it."""
    entity = ClientQuotas.EntryData(
        entity=[ClientQuotas.EntryData.EntityData(entity_type="client-id", entity_name=None)],
        ops=[ClientQuotas.EntryData.OpData(key="producer_byte_rate", value=bytes_per_second, remove=False)],
    )
    request = ClientQuotas(version=1, entries=[entity], validate_only=False)
    request.with_header(correlation_id=1, client_id="test")
    host, port = kafka.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port)), 60) as connection:
        connection.sendall(request.encode(framed=True, header=True))
        assert connection.recv(4)


@pytest.fixture
def replicated(kafka_cluster):
    name = f"t-{uuid.uuid4().hex[:12]}"
    kafka_cluster.create_topic(name, 3)
    elect_preferred(kafka_cluster, name)
    return name


def leader_of(client, tp: TopicPartition) -> int:
    with Producer(client, producer_settings()) as producer:
        return producer.cluster.metadata((tp.topic,)).leader(tp).broker.node_id


def test_W9_the_order_is_kept_while_leaders_die(kafka_cluster, replicated):
    client = client_of(kafka_cluster)
    victim = leader_of(client, TopicPartition(replicated, 1))
    killer = threading.Thread(target=kafka_cluster.kill_node, args=(victim,))
    rows = 0
    with writing(client, encoder={"batch_size": 2000}) as sink:
        while killer.ident is None or killer.is_alive() or rows < 3000:
            for partition in range(3):
                sink.write(replicated, numbered(100, rows), partition)
            rows += 100
            if rows == 1000:
                killer.start()
        sink.deliver(replicated, numbered(100, rows), 1)
        assert sink.producer.cluster.known.leader(TopicPartition(replicated, 1)).broker.node_id != victim
    kafka_cluster.restart_node(victim)
    await_nodes(kafka_cluster)
    found = values_in(kafka_cluster, replicated)
    assert found == {0: numbered(rows), 1: numbered(rows + 100), 2: numbered(rows)}


def test_a_session_that_ends_is_renewed_between_requests_over_tls():
    settings = {"connections.max.reauth.ms": 1500}
    with EmbeddedKafka(listener="SASL_SSL", users={"writer": None}, settings=settings) as kafka:
        kafka.create_topic("t", 2)
        deadline, rows = time.monotonic() + 5, 0
        with writing(client_of(kafka), encoder={"batch_size": 2000}) as sink:
            while time.monotonic() < deadline:
                sink.write("t", numbered(200, rows), 0)
                rows += 200
            sink.producer.flush()
        assert values_in(kafka, "t") == {0: numbered(rows)}
