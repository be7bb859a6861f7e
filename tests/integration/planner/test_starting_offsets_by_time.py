"""Starts, ends and filters by time, on logs where the broker's answer hides records. Held against reading all of it."""

from __future__ import annotations

import json
import logging
import os
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Producer

import penstock
from fixtures.cluster import cluster_of
from fixtures.consumer import eventually
from fixtures.produce import TOGETHER, Rec, rdkafka, send
from fixtures.stream import Operator
from penstock import cli
from penstock.config.source import parse_options
from penstock.model.narrowing import Narrowing
from penstock.model.offset_range import OffsetRange
from penstock.model.topic_partition import TopicPartition
from penstock.planner.batch import plan_batch
from penstock.wire.lookup import offsets_for_times
from support.producing import batch_by_batch

START = 1_700_000_000_000
MINUTE = 60_000
HOUR = 60 * MINUTE
COMMITTED = ("-o", "kafka.isolation.level=read_committed")


@dataclass(frozen=True)
class Log:
    """A topic of one partition, a time whose first record the broker does not name, and all that can be read."""

    kafka: object
    topic: str
    time: int
    records: dict[int, int]
    """Timestamps by offset."""

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)

    @property
    def first(self) -> int:
        """The first record that is not older than the time."""
        return min(offset for offset, at in self.records.items() if at >= self.time)

    @property
    def late(self) -> list[int]:
        return [offset for offset, at in self.records.items() if at >= self.time]

    def options(self, **more: str) -> dict[str, str]:
        return self.kafka.client_options() | {"subscribe": self.topic, "kafka.isolation.level": "read_committed"} | more

    def offsets(self, narrowing: Narrowing | None = None, **more: str) -> list[int]:
        """What a batch reads with these options: the offsets of its records."""
        ranges = plan_batch(parse_options(self.options(**more)), narrowing or Narrowing())
        return sorted(offset for each in ranges for offset in self.within(each))

    def within(self, part: OffsetRange) -> list[int]:
        return [offset for offset in self.records if part.start <= offset < part.stop]


def read(kafka, topic):
    options = kafka.client_options() | {"subscribe": topic, "kafka.isolation.level": "read_committed"}
    table = penstock.read_batches(options, columns=["offset", "timestamp"]).read_all()
    return {row["offset"]: round(row["timestamp"].timestamp() * 1000) for row in table.to_pylist()}


def write(kafka, topic, records, **config):
    """By a producer of its own, and idempotent: the broker remembers its last batch."""
    producer = Producer(rdkafka(kafka.client_options(prefix=""), **TOGETHER, **config))
    send(producer, topic, records)
    assert producer.flush(60) == 0


def deleted(kafka, topic):
    """Two segments, and the log begins with the second: the first is still there."""
    kafka.create_topic(topic, 1, configs={"segment.ms": HOUR})
    write(kafka, topic, [Rec(b"v", timestamp=START + i) for i in range(100)])
    write(kafka, topic, [Rec(b"v", timestamp=START + 2 * HOUR + i) for i in range(100)])
    Operator(kafka).delete_records(topic, {0: 100})
    return START + 50


def deleted_within_a_segment(kafka, topic):
    """What was latest in the first segment is deleted, the rest of that segment is older than the time."""
    kafka.create_topic(topic, 1, configs={"segment.ms": HOUR})
    write(kafka, topic, [Rec(b"v", timestamp=START + 50 * MINUTE)])
    write(kafka, topic, [Rec(b"v", timestamp=START + i) for i in range(99)])
    write(kafka, topic, [Rec(b"v", timestamp=START + 2 * HOUR + i) for i in range(100)])
    Operator(kafka).delete_records(topic, {0: 40})
    return START + 30 * MINUTE


def compacted(kafka, topic):
    """A cleaned segment whose latest batch was emptied, and kept for its producer's sequence number."""
    configs = {"cleanup.policy": "compact", "segment.ms": HOUR, "min.cleanable.dirty.ratio": 0.01}
    # The cleaner makes one segment of neighbours that fit into one: these do not.
    kafka.create_topic(topic, 1, configs=configs | {"max.compaction.lag.ms": 100, "segment.bytes": 1 << 20})
    keys = [b"%d" % i for i in range(50)]
    write(kafka, topic, [Rec(b"v" * 20_000, b"kept %d" % i, timestamp=START + i) for i in range(30)])
    write(kafka, topic, [Rec(b"old", key, timestamp=START + 50 * MINUTE) for key in keys])
    write(kafka, topic, [Rec(b"new" * 4_000, key, timestamp=START + 2 * HOUR) for key in keys])
    write(kafka, topic, [Rec(b"v", b"rolls", timestamp=START + 4 * HOUR)])
    eventually(lambda: len(read(kafka, topic)) == 81, "the log is compacted")
    return START + 30 * MINUTE


def transactions(kafka, topic):
    """Old records written now, as a replay does: the markers bear the time of today, and some are aborted."""
    kafka.create_topic(topic, 1)
    producer = Producer(rdkafka(kafka.client_options(prefix=""), **TOGETHER, **{"transactional.id": topic}))
    producer.init_transactions(60)
    for number in range(8):
        producer.begin_transaction()
        late = 10 * HOUR if number % 2 else 0
        send(producer, topic, [Rec(b"v", timestamp=START + late + number * MINUTE + i) for i in range(5)])
        producer.flush(60)
        if number % 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    write(kafka, topic, [Rec(b"v", timestamp=START)])
    eventually(lambda: len(read(kafka, topic)) == 21, "the markers are written")
    return START + 4 * MINUTE + 3


def untimed(kafka, topic):
    """A segment whose records have no timestamp: the broker takes the time of its file instead, which is now."""
    kafka.create_topic(topic, 1, configs={"segment.ms": 50})
    cluster_of(kafka).end([TopicPartition(topic, 0)])  # waits for its leader
    with batch_by_batch(cluster_of(kafka).config) as append:
        while len(list(kafka._work_dir.glob(f"*/data/{topic}-0/*.log"))) < 3:
            append(topic, 0, [b"v"], -1)
    write(kafka, topic, [Rec(b"v", timestamp=START + i) for i in range(10)])
    return START + 5


LOGS = [deleted, deleted_within_a_segment, compacted, transactions, untimed]


@pytest.fixture(scope="module", params=LOGS, ids=lambda make: make.__name__)
def log(kafka, request):
    for _ in range(3):  # every five minutes the broker removes segments that are deleted, perhaps just now
        topic = f"times-{request.param.__name__}-{uuid.uuid4().hex[:8]}"
        time = request.param(kafka, topic)
        made = Log(kafka, topic, time, read(kafka, topic))
        (answer,) = cluster_of(kafka).times_at({made.tp: time}).values()
        if answer is None or answer[0] != made.first:
            return made
    pytest.fail("the broker tells the truth: nothing is tested")


def test_F6_a_start_by_time_is_the_first_record_at_or_after_it(log):
    expected = [offset for offset in log.records if offset >= log.first]
    assert log.offsets(startingTimestamp=str(log.time)) == expected
    by_partition = json.dumps({log.topic: {"0": log.time}})
    assert log.offsets(startingOffsetsByTimestamp=by_partition) == expected


def test_an_end_by_time_is_the_first_record_at_or_after_it(log):
    expected = [offset for offset in log.records if offset < log.first]
    assert log.offsets(endingTimestamp=str(log.time)) == expected
    by_partition = json.dumps({log.topic: {"0": log.time}})
    assert log.offsets(endingOffsetsByTimestamp=by_partition) == expected


def test_a_filter_by_time_loses_no_record(log):
    assert set(log.offsets(Narrowing(min_timestamp=log.time))) >= set(log.late)


def test_F6_a_stream_starts_and_ends_by_time_at_the_same_records(log, stream):
    running = stream(**log.options(startingTimestamp=str(log.time)))
    assert running.planner.initial() == {log.tp: log.first}
    ending = stream(**log.options(startingOffsets="earliest", endingTimestamp=str(log.time)))
    seen = ending.run().get(log.tp, [])
    assert [offset for offset in log.records if offset in seen] == [o for o in log.records if o < log.first]
    assert ending.planner.finished is True


def test_F6_a_connector_starts_by_time_at_the_same_record(kafka, log, consumers):
    moment = datetime.fromtimestamp(log.time / 1000, UTC)
    connector = consumers.connector(moment, **{"isolation.level": "read_committed"})
    connector.create_message_streams({log.topic: 1})
    assert eventually(connector.position, "a start") == {log.tp: log.first}
    assert cluster_of(kafka).committed(consumers.group, [log.tp]) == {log.tp: log.first}


@pytest.fixture
def command(kafka, capsys, monkeypatch):
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", kafka.bootstrap_servers)

    def run(*arguments):
        assert cli.main(list(arguments)) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def test_a_reset_by_time_goes_to_the_same_record(log, command):
    group = f"g-{uuid.uuid4().hex[:8]}"
    (move,) = command("groups", "reset", group, "--topic", log.topic, "--to", str(log.time), "--json", *COMMITTED)
    assert move["new"] == log.first


def test_the_command_line_reads_from_and_until_the_same_record(log, command):
    moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=log.time)
    rows = command("read", log.topic, "--from", moment.isoformat(), "--until", "latest", "--json", *COMMITTED)
    assert [row["offset"] for row in rows] == [offset for offset in log.records if offset >= log.first]
    rows = command("read", log.topic, "--from", "earliest", "--until", moment.isoformat(), "--json", *COMMITTED)
    assert [row["offset"] for row in rows] == [offset for offset in log.records if offset < log.first]


def test_F8_a_good_answer_costs_one_request_more_and_a_filter_none(kafka, cluster, topic, produce, asked):
    name = topic(partitions=20)
    produce(name, [Rec(b"v", timestamp=START + i, partition=i % 20) for i in range(200)])
    partitions = [TopicPartition(name, p) for p in range(20)]
    ends = cluster.end(partitions)
    asked.clear()
    assert set(cluster.first_at(dict.fromkeys(partitions, START + 40), ends).values()) == {2}
    assert asked == ["ListOffsetsRequest", "FetchRequest"]
    asked.clear()
    assert set(cluster.first_at(dict.fromkeys(partitions, START + 200), ends).values()) == {None}
    assert asked == ["ListOffsetsRequest", "ListOffsetsRequest"]
    asked.clear()
    cluster.by_time(dict.fromkeys(partitions, START + 40))
    assert asked == ["ListOffsetsRequest"]


def test_F8_an_open_transaction_is_proof_that_nothing_committed_is_so_late(kafka, topic, produce, transaction, asked):
    name = topic()
    tp = TopicPartition(name, 0)
    produce(name, [Rec(b"v", timestamp=START + i) for i in range(5)])
    cluster = cluster_of(kafka, **{"kafka.isolation.level": "read_committed"})
    with transaction(name) as write_open:
        write_open(name, [Rec(b"v", timestamp=START + HOUR)])
        ends = cluster.end([tp])
        assert ends == {tp: 5}
        asked.clear()
        assert cluster.first_at({tp: START + HOUR}, ends) == {tp: None}
        assert asked == ["ListOffsetsRequest"]


def test_F8_a_long_log_is_scanned_piece_by_piece(kafka, cluster, topic, operator, monkeypatch):
    """Batches of many sizes, some larger than a piece: none is passed over, and none is looked at twice."""
    monkeypatch.setattr(offsets_for_times, "SCAN_BYTES", 32 << 10)
    monkeypatch.setattr(offsets_for_times, "FIRST_BYTES", 1 << 10)
    name = topic(partitions=3, segment_ms=HOUR)
    tps = [TopicPartition(name, p) for p in range(3)]
    cluster.end(tps)  # waits for their leaders
    with batch_by_batch(cluster.config) as append:
        for tp in tps:
            append(*tp, [b"v"], START + 50 * MINUTE)
            for size in (1, 100, 20_000, 100_000, 1, 50_000):
                append(*tp, [os.urandom(size) for _ in range(3)], START + tp.partition)
            append(*tp, [b"v"], START + 2 * HOUR)
            append(*tp, [b"v"], START)
    operator.delete_records(name, dict.fromkeys(range(3), 1))
    ends = cluster.end(tps)
    assert cluster.by_time(dict.fromkeys(tps, START + 40 * MINUTE)).unknown == set(tps)
    assert cluster.first_at(dict.fromkeys(tps, START + 40 * MINUTE), ends) == dict.fromkeys(tps, 19)
    assert cluster.first_at(dict.fromkeys(tps, START + 2 * HOUR + 1), ends) == dict.fromkeys(tps)
