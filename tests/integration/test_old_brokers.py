"""The essentials on brokers of older Kafka versions. The fixtures are those of all other tests: `kafka` is another one.

.venv/bin/python -m pytest -m old_brokers tests/integration/test_old_brokers.py
"""

from __future__ import annotations

import uuid
from collections import Counter

import pyarrow as pa
import pytest

import penstock
from fixtures.cluster import cluster_of
from fixtures.consumer import ends, eventually
from fixtures.produce import Rec
from fixtures.stream import HOUR, NOW, records, tp
from penstock.config.source import parse_options
from penstock.dead_letters.scope import LetterScope
from penstock.dead_letters.task_letters import RangeLetters
from penstock.model.columns import TYPES
from penstock.model.offset_range import OffsetRange
from penstock.model.topic_partition import TopicPartition
from penstock.wire.producer.transactions import end_transactions
from support.old_brokers import OLD_VERSIONS, old_broker
from support.producing import client_of, values_in, writing

pytestmark = [pytest.mark.old_brokers, pytest.mark.broker]


@pytest.fixture(scope="module", params=OLD_VERSIONS)
def kafka(request):
    with old_broker(request.param) as cluster:
        said = f"Kafka version: {request.param}\n"
        eventually(lambda: said in cluster.logs(1), "the broker says its version")
        yield cluster


def values(kafka, **options):
    table = penstock.read_batches(kafka.client_options(), columns=["value"], **options).read_all()
    return Counter(table.column("value").to_pylist())


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_has_every_record_with_all_columns(kafka, topic, produce, codec):
    name = topic(partitions=3)
    written = [
        Rec(b"value %d" % i, b"key %d" % i, [("n", b"%d" % i)], timestamp=NOW + i, partition=i % 3) for i in range(3000)
    ]
    produce(name, written, **{"compression.type": codec})
    batches = penstock.read_batches(kafka.client_options(), subscribe=name, includeHeaders=True)
    rows = batches.read_all().sort_by("timestamp").to_pylist()
    assert [(row["key"], row["value"], row["partition"]) for row in rows] == [
        (each.key, each.value, each.partition) for each in written
    ]
    assert [row["headers"] for row in rows] == [
        [{"key": key, "value": value} for key, value in each.headers] for each in written
    ]
    assert [int(row["timestamp"].timestamp() * 1000) for row in rows] == [each.timestamp for each in written]
    assert {row["partition"]: row["offset"] for row in rows} == {0: 999, 1: 999, 2: 999}


def test_a_batch_starts_and_ends_by_time(kafka, topic, produce):
    name = topic(partitions=2)
    for hours in range(6, 0, -1):
        produce(name, [Rec(b"%d h" % hours, timestamp=NOW - hours * HOUR, partition=p) for p in (0, 1)])
    found = values(kafka, subscribe=name, startingTimestamp=NOW - 3 * HOUR)
    assert found == {b"3 h": 2, b"2 h": 2, b"1 h": 2}
    found = values(kafka, subscribe=name, startingTimestamp=NOW - 5 * HOUR, endingTimestamp=NOW - 3 * HOUR)
    assert found == {b"5 h": 2, b"4 h": 2}


def test_committed_readers_get_committed_records_alone(kafka, topic, produce, transaction):
    name = topic()
    produce(name, [Rec(b"plain")])
    with transaction(f"{name}-a", commit=False) as send:
        send(name, [Rec(b"aborted")] * 5)
    with transaction(f"{name}-b") as send:
        send(name, [Rec(b"committed")] * 5)
    committed = {"kafka.isolation.level": "read_committed"}
    assert values(kafka, subscribe=name, **committed) == {b"plain": 1, b"committed": 5}
    assert values(kafka, subscribe=name)[b"aborted"] == 5
    with transaction(f"{name}-c") as send:
        send(name, [Rec(b"open")])
        assert values(kafka, subscribe=name, **committed) == {b"plain": 1, b"committed": 5}
    assert values(kafka, subscribe=name, **committed) == {b"plain": 1, b"committed": 5, b"open": 1}


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_group_shares_partitions_commits_and_goes_on(kafka, consumers, topic, produce, assignor):
    name = topic(partitions=4)
    strategy = {"partition.assignment.strategy": assignor}
    cluster, places = cluster_of(kafka), [TopicPartition(name, partition) for partition in range(4)]

    def write():
        produce(name, [Rec(b"v", partition=i % 4) for i in range(400)])

    def read(count):
        eventually(lambda: consumers.records().total() >= count, lambda: f"{count}, not {consumers.records().total()}")
        eventually(
            lambda: cluster.committed(consumers.group, places) == ends(name, dict.fromkeys(range(4), count // 4)),
            lambda: f"the group has {cluster.committed(consumers.group, places)}",
        )

    write()
    first = consumers.reading(name, **strategy)
    read(400)
    second = consumers.reading(name, by="batches", **strategy)
    eventually(lambda: len(second.connector.assignment()) == len(first.connector.assignment()) == 2, "half each")
    write()
    read(800)
    assert second.count()
    first.connector.shutdown()
    eventually(lambda: len(second.connector.assignment()) == 4, "all partitions for who is left")
    write()
    read(1200)
    assert set(consumers.records().values()) == {1}
    assert not [*first.errors, *second.errors]


def test_a_dead_letter_is_written_once_however_often_its_task_runs(kafka, topic):
    source, dead = topic(), topic()
    client = parse_options(kafka.client_options() | {"subscribe": source}).client
    scope = LetterScope("query", uuid.uuid4().hex)
    range_ = OffsetRange(source, 0, 0, 10)
    row = {"key": None, "value": b"{", "topic": source, "partition": 0, "timestamp": 0, "timestampType": 0}
    batch = pa.RecordBatch.from_pylist(
        [row | {"offset": offset} for offset in range(10)], schema=pa.schema(list(TYPES.items()))
    )

    def attempt(finish=True):
        with RangeLetters(client, dead, range_, scope) as letters:
            letters.add(batch, [(at, "value", "not JSON") for at in (2, 5, 7)])
            return letters.finish() if finish else None

    assert [attempt(finish=False), attempt(), attempt()] == [None, 3, 0]
    read = penstock.read_batches(
        kafka.client_options(), subscribe=dead, includeHeaders=True, **{"kafka.isolation.level": "read_committed"}
    ).read_all()
    headers = [{each["key"]: each["value"] for each in row["headers"]} for row in read.to_pylist()]
    assert [each["penstock.offset"] for each in headers] == [b"2", b"5", b"7"]


def test_W5_records_are_written_idempotently_and_in_transactions(kafka, topic):
    name, client = topic(2), client_of(kafka)
    with writing(client, encoder={"compression": "zstd", "batch_size": 500}) as sink:
        sink.deliver(name, [b"%d" % number for number in range(500)], 0)
    with writing(client, f"id-{name}") as sink:
        for number in range(2):
            sink.deliver(name, [b"committed %d" % number], 1)
            sink.producer.commit_offsets(f"g-{name}", {TopicPartition(name, 0): (number, "note")})
            opened = sink.producer.open_transaction()
            sink.producer.commit_transaction()
            if sink.producer.identity != opened.identity:
                sink.adopt()
        sink.deliver(name, [b"aborted"], 1)
        sink.producer.abort_transaction()
        sink.begin()
        sink.deliver(name, [b"by the driver"], 1)
        opened = sink.producer.open_transaction()
        assert end_transactions(client, [opened], True, 60.0) == {opened: None}
        assert end_transactions(client, [opened], True, 60.0) == {opened: None}
        sink.begin()  # waits until it is complete
        found = sink.producer.cluster.commits(f"g-{name}", [TopicPartition(name, 0)])
    assert [(each.offset, each.metadata) for each in found.values()] == [(1, "note")]
    committed = [b"committed 0", b"committed 1", b"by the driver"]
    assert values_in(kafka, name) == {0: [b"%d" % number for number in range(500)], 1: committed}


def test_a_stream_is_planned_from_its_group_grows_and_commits(kafka, stream, topic, produce, operator):
    name, group = topic(partitions=2), uuid.uuid4().hex
    produce(name, records(10) + records(5, partition=1))
    operator.commit(group, name, {0: 4, 1: 5})
    options = {
        "subscribe": name,
        "kafka.group.id": group,
        "partition.discovery.interval.ms": "0",
        "maxOffsetsPerTrigger": "4",
    }
    running = stream(**options)
    assert running.run() == {tp(name): list(range(4, 10))}
    operator.grow(name, 3)
    produce(name, records(3) + records(2, partition=2))
    assert running.run() == {tp(name): [10, 11, 12], tp(name, 2): [0, 1]}
    again = stream(**options, state=running.state)
    produce(name, records(1, partition=1))
    assert again.run() == {tp(name, 1): [5]}


def test_a_stream_finds_that_records_were_deleted(kafka, stream, topic, produce, operator):
    name = topic()
    produce(name, records(10))
    running = stream(subscribe=name, startingOffsets="earliest", **{"partition.discovery.interval.ms": "0"})
    running.trigger()
    produce(name, records(10))
    operator.delete_records(name, {0: 15})
    with pytest.raises(penstock.DataLoss, match=name):
        running.trigger()
    lenient = stream(subscribe=name, state={tp(name): 10}, failOnDataLoss="false")
    assert lenient.run() == {tp(name): list(range(15, 20))}
