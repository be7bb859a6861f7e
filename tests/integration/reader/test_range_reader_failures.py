"""What happens when the network, a broker or a topic goes away under a read."""

import dataclasses
import logging
import threading
import time

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient, TopicPartition

from fixtures.cluster import elect_preferred
from fixtures.produce import Rec, rdkafka, send
from penstock.config.source import parse_options
from penstock.dead_letters.scope import LetterScope, letter_names
from penstock.dead_letters.task_letters import RangeLetters
from penstock.errors import BrokerUnavailable, CorruptBatch, DataLoss
from penstock.model.columns import TYPES
from penstock.model.offset_range import OffsetRange
from penstock.planner.batch import plan_batch
from penstock.testing import EmbeddedKafka, get_distribution
from penstock.wire.cluster import Cluster
from penstock.wire.producer.transaction_client import TransactionClient
from penstock.wire.transport.connection import Connection
from support.reading import range_reader

COUNT = 20_000
RECORDS = [Rec(b"%d " % i + bytes(80)) for i in range(COUNT)]


def planned(cluster, topic, **more):
    options = parse_options(cluster.client_options() | {"subscribe": topic} | more)
    return options, plan_batch(options)


def offsets(reader):
    return [offset for batch in reader for offset in batch.column("offset").to_pylist()]


def through(r, port):
    return dataclasses.replace(r, host="127.0.0.1", port=port)


def test_F16_a_cut_connection_heals(topic, produce, kafka, proxy):
    name = topic()
    produce(name, RECORDS)
    seen = []

    def cut_once(piece):
        seen.append(len(piece))
        return None if sum(seen) > 500_000 else piece

    options, (r,) = planned(kafka, name)
    reader = range_reader(through(r, proxy(cut_once).port), ["offset"], options.client)
    assert offsets(reader.prefetched()) == list(range(COUNT))
    assert sum(seen) > 500_000, "the read never went through the proxy"


def test_a_bit_flipped_on_the_way_heals_by_fetching_again(topic, produce, kafka, proxy, caplog):
    name = topic()
    produce(name, RECORDS)
    flipped = []

    def flip_one(piece):
        if not flipped and len(piece) > 10_000:
            flipped.append(1)
            return piece[:5000] + bytes([piece[5000] ^ 0x10]) + piece[5001:]
        return piece

    options, (r,) = planned(kafka, name)
    reader = range_reader(through(r, proxy(flip_one).port), ["offset"], options.client)
    with caplog.at_level(logging.WARNING):
        assert offsets(reader) == list(range(COUNT))
    assert flipped
    assert "fetching it again" in caplog.text


def test_bytes_that_stay_damaged_are_a_corrupt_batch_with_its_place(topic, produce, kafka, monkeypatch):
    name = topic()
    produce(name, RECORDS[:100])
    import penstock.wire.api.fetch_client as wire_fetch

    def damage(frame, version, correlation_id, broker):
        response = honest(frame, version, correlation_id, broker)
        for fetched in response.partitions:
            if len(fetched.records) > 100:
                fetched.records[90] ^= 1
        return response

    honest = wire_fetch.read_fetch_response
    monkeypatch.setattr(wire_fetch, "read_fetch_response", damage)
    options, (r,) = planned(kafka, name)
    with pytest.raises(CorruptBatch, match="CRC") as caught:
        offsets(range_reader(r, ["offset"], options.client))
    assert (caught.value.topic, caught.value.partition, caught.value.base_offset) == (name, 0, 0)


def test_damage_before_a_giant_record_does_not_pin_the_buffer_that_must_grow(topic, produce, kafka, monkeypatch):
    name = topic(max_message_bytes=3_000_000)
    produce(name, [*RECORDS[:10], Rec(bytes(2_000_000))], **{"message.max.bytes": 3_000_000})
    import penstock.wire.api.fetch_client as wire_fetch

    damaged = []

    def damage_once(frame, version, correlation_id, broker):
        response = honest(frame, version, correlation_id, broker)
        if not damaged:
            damaged.append(1)
            response.partitions[0].records[90] ^= 1
        return response

    honest = wire_fetch.read_fetch_response
    monkeypatch.setattr(wire_fetch, "read_fetch_response", damage_once)
    options, (r,) = planned(kafka, name, **{"kafka.max.partition.fetch.bytes": "1000"})
    assert offsets(range_reader(r, ["offset"], options.client)) == list(range(11))
    assert damaged


def test_a_throttled_client_waits_and_loses_nothing(topic, produce, kafka, caplog):
    name = topic()
    produce(name, RECORDS)
    quota = ["--alter", "--add-config", "consumer_byte_rate=150000", "--entity-type", "clients"]
    tool = get_distribution().run_tool(
        "kafka.admin.ConfigCommand", "--bootstrap-server", kafka.bootstrap_servers, *quota, "--entity-name", name
    )
    assert tool.returncode == 0, tool.stdout + tool.stderr
    options, (r,) = planned(kafka, name, **{"kafka.client.id": name, "kafka.max.partition.fetch.bytes": "500000"})
    with caplog.at_level(logging.INFO, logger="penstock"):
        for _ in range(8):  # the quota takes a moment to reach the broker, and allows a window's worth at once
            assert offsets(range_reader(r, ["offset"], options.client)) == list(range(COUNT))
            if "throttled for" in caplog.text:
                return
    raise AssertionError("eight reads of twice the quota, and no throttling")


def test_a_silent_broker_is_an_error_with_its_history_within_the_time_out(topic, produce, kafka, proxy):
    name = topic()
    produce(name, RECORDS[:10])
    options, (r,) = planned(kafka, name, **{"kafka.request.timeout.ms": "300", "kafka.fetch.max.wait.ms": "1"})
    silent = proxy(lambda piece: b"").port
    client = dataclasses.replace(options.client, bootstrap=(("127.0.0.1", silent),), api_timeout=1.0)
    with pytest.raises(BrokerUnavailable, match="timed out") as caught:
        offsets(range_reader(through(r, silent), ["offset"], client, poll_timeout=2.0))
    assert caught.value.history


def test_F17_close_wakes_a_read_that_waits_for_a_silent_broker(topic, produce, kafka, proxy):
    name = topic()
    produce(name, RECORDS[:10])
    options, (r,) = planned(kafka, name)
    blocked = threading.Event()
    swallow = []

    def swallow_fetches(piece):
        # Let ApiVersions pass; whatever comes after it disappears.
        swallow.append(piece)
        if len(swallow) > 1:
            blocked.set()
            return b""
        return piece

    reader = range_reader(through(r, proxy(swallow_fetches).port), ["offset"], options.client)
    found = []
    thread = threading.Thread(target=lambda: found.extend(offsets(reader)), name="test-read")
    thread.start()
    assert blocked.wait(60)
    reader.close()
    thread.join(60)
    assert not thread.is_alive()
    assert found == []


def test_a_broker_that_is_killed_and_comes_back_costs_no_record():
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t")
        producer = Producer(rdkafka(kafka.client_options(prefix="")))
        send(producer, "t", RECORDS)
        assert producer.flush(60) == 0
        # A broker that was killed takes its time to come back, on a busy machine above all.
        patience = {"kafka.default.api.timeout.ms": "200000"}
        options, (r,) = planned(kafka, "t", **{"kafka.max.partition.fetch.bytes": "20000"} | patience)
        reader = range_reader(r, ["offset"], options.client)
        batches = iter(reader)
        first = next(batches).column("offset").to_pylist()
        kafka.kill_node(1)
        revival = threading.Thread(target=kafka.restart_node, args=(1,))
        revival.start()
        try:
            rest = offsets(batches)
        finally:
            revival.join(120)
        assert first + rest == list(range(COUNT))


def test_a_broker_that_sends_less_than_was_asked_for_cuts_batches_and_costs_no_record():
    with EmbeddedKafka(settings={"fetch.max.bytes": 30_000}) as kafka:
        kafka.create_topic("t")
        producer = Producer(rdkafka(kafka.client_options(prefix="")))
        send(producer, "t", RECORDS)
        assert producer.flush(60) == 0
        options, (r,) = planned(kafka, "t")
        assert offsets(range_reader(r, ["offset"], options.client)) == list(range(COUNT))


def test_a_leader_that_moves_costs_no_record(kafka_cluster, produce):
    name = f"moves-{time.time_ns()}"
    kafka_cluster.create_topic(name, 1, 3)
    produce(name, RECORDS, cluster=kafka_cluster)
    options, (r,) = planned(kafka_cluster, name, **{"kafka.max.partition.fetch.bytes": "20000"})
    reader = range_reader(r, ["offset"], options.client)
    batches = iter(reader)
    first = next(batches).column("offset").to_pylist()
    ports = dict(
        zip(kafka_cluster.node_ids, (s.split(":")[1] for s in kafka_cluster.bootstrap_servers.split(",")), strict=True)
    )
    leader = next(node for node, port in ports.items() if int(port) == r.port)
    kafka_cluster.kill_node(leader)
    try:
        rest = offsets(batches)
    finally:
        kafka_cluster.restart_node(leader)
    assert first + rest == list(range(COUNT))


def coordinator(client, scope, dead, source):
    """The port of the broker that coordinates the transactions of letters about a partition."""
    cluster = TransactionClient(client)
    cluster.check_transactional_id(letter_names(scope.name, dead, source).transactional_id)
    ((_, broker),) = cluster._coordinators.items()
    return broker.port


def test_a_broker_that_dies_under_dead_letters_costs_none_and_doubles_none(kafka_cluster, monkeypatch):
    """It leads their topic and coordinates the transaction."""
    source, dead = (f"{name}-{time.time_ns()}" for name in ("source", "dead"))
    for name in (source, dead):
        kafka_cluster.create_topic(name, 1, 3)
    client = parse_options(kafka_cluster.client_options() | {"subscribe": source}).client
    ports = [int(server.split(":")[1]) for server in kafka_cluster.bootstrap_servers.split(",")]
    nodes = dict(zip(ports, kafka_cluster.node_ids, strict=True))
    range_ = OffsetRange(source, 0, 0, 50)
    coordinator(client, LetterScope("query", "any"), dead, range_.topic_partition)  # makes the topic of transactions
    elect_preferred(kafka_cluster, "__transaction_state")  # a broker that was down coordinates none
    leader = Cluster(client).metadata((dead,)).topics[dead].partitions[0].broker.port
    scopes = (LetterScope("query", str(number)) for number in range(100))
    scope = next(each for each in scopes if leader == coordinator(client, each, dead, range_.topic_partition))
    honest = Connection.send
    killed = []

    def send(self, request, timeout):
        if request.name == "ProduceRequest" and not killed:
            killed.append(nodes[self.port])
            kafka_cluster.kill_node(killed[0])
        return honest(self, request, timeout)

    monkeypatch.setattr(Connection, "send", send)
    rows = [{"offset": offset, "value": b"{", "headers": []} for offset in range(50)]
    batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema(list(TYPES.items())))
    try:
        for written in (50, 0):
            with RangeLetters(client, dead, range_, scope) as letters:
                letters.add(batch, [(row, "value", "bad") for row in range(50)])
                assert letters.finish() == written
    finally:
        for node in killed:
            kafka_cluster.restart_node(node)
    assert killed
    options, (r,) = planned(kafka_cluster, dead, **{"kafka.isolation.level": "read_committed"})
    assert len(offsets(range_reader(r, ["offset"], options.client))) == 50


def test_a_replica_in_the_same_rack_is_read_when_the_brokers_say_so(caplog):
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with EmbeddedKafka(2, racks=("r1", "r2"), settings={"replica.selector.class": selector}) as kafka:
        kafka.create_topic("t", 4, 2)
        producer = Producer(rdkafka(kafka.client_options(prefix="")))
        for p in range(4):
            send(producer, "t", [dataclasses.replace(record, partition=p) for record in RECORDS[:100]])
        assert producer.flush(60) == 0
        r2_port = int(kafka.bootstrap_servers.split(",")[1].split(":")[1])
        options, ranges = planned(kafka, "t", **{"kafka.client.rack": "r2"})
        assert {r.port for r in ranges} > {r2_port}, "every leader is in r2 already: nothing to prefer"
        for r in ranges:
            reader = range_reader(r, ["offset"], options.client)
            used = set()
            original = reader._leader.broker
            reader._leader.broker = lambda original=original, used=used: used.add(original().port) or original()
            assert offsets(reader) == list(range(100))
            assert r2_port in used


def delete_before(kafka, topic, offset):
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    try:
        admin.delete_records({TopicPartition(topic, 0): offset})
    finally:
        admin.close()


def test_F27_records_deleted_after_planning_are_data_loss(topic, produce, kafka):
    name = topic()
    produce(name, RECORDS[:1000])
    options, (r,) = planned(kafka, name)
    delete_before(kafka, name, 400)
    with pytest.raises(DataLoss, match=f"{name}-0: wanted from offset 0, the broker has offsets 400 to 1000"):
        offsets(range_reader(r, ["offset"], options.client))


def test_F27_without_failing_the_rest_is_read_and_the_loss_is_said(topic, produce, kafka, caplog):
    name = topic()
    produce(name, RECORDS[:1000])
    options, (r,) = planned(kafka, name)
    delete_before(kafka, name, 400)
    found = offsets(range_reader(r, ["offset"], options.client, fail_on_data_loss=False))
    assert found == list(range(400, 1000))
    assert "wanted from offset 0" in caplog.text


def test_F27_a_topic_deleted_after_planning_is_data_loss(topic, produce, kafka, caplog):
    name = topic()
    produce(name, RECORDS[:10])
    options, (r,) = planned(kafka, name)
    kafka.delete_topic(name)
    with pytest.raises(DataLoss, match="does not exist"):
        offsets(range_reader(r, ["offset"], options.client))
    assert offsets(range_reader(r, ["offset"], options.client, fail_on_data_loss=False)) == []
    assert "Reading on" in caplog.text


def test_F27_a_topic_created_anew_is_not_taken_for_the_old_one(topic, produce, kafka):
    name = topic()
    produce(name, RECORDS[:10])
    options, (r,) = planned(kafka, name)
    kafka.delete_topic(name)
    kafka.create_topic(name)
    produce(name, RECORDS[:10])
    with pytest.raises(DataLoss, match="another topic of the same name"):
        offsets(range_reader(r, ["offset"], options.client))
