"""Penstock returns what Spark's own Kafka source returns: the same queries on the same topics, row for row.

Moving is one word, `.format("kafka")` to `.format("penstock")`. So Spark's own source decides here what a query should
return: all of them run in Spark's own source first, in one process, and Penstock is held against that.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as RdTopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException

from fixtures.produce import DELIVERY_SECONDS, Rec, rdkafka, send

if TYPE_CHECKING:
    from fixtures.jvm_source import Outcome

# The first test of all may have to fetch PySpark 4.2.0, which is large.
pytestmark = [pytest.mark.jvm, pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(1500)]

# As fixtures/jvm_source.py has it: the default, INT96, is read back in nanoseconds and without a zone.
TIMESTAMPS_AS = ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BASE = 1_700_000_000_000
PARTITIONS = 3
SHAPES = 300
DELETED = 40
"""Offsets that are gone from the front of a topic."""

HEADERS: tuple[tuple[tuple[str, bytes | None], ...], ...] = (
    (),
    (("trace", b"abc"),),
    (("twice", b"1"), ("twice", b"2")),
    (("null", None), ("empty", b"")),
    (("grüße \N{SNOWMAN}", b"\x00\xff"), ("", b"no name")),
)


def shapes() -> list[Rec]:
    """Every kind of key, value and header that a record can have, over three partitions, a second apart."""
    return [
        Rec(
            value=(None, b"", b"value %d" % i, b"\x00\xff" * (i + 1), b"x" * 20_000)[i % 5],
            key=(None, b"", b"key %d" % (i % 13), b"\x80")[i % 4],
            headers=HEADERS[i % 7] if i % 7 < len(HEADERS) else (),
            timestamp=BASE + (i // PARTITIONS) * 1000,
            partition=i % PARTITIONS,
        )
        for i in range(SHAPES)
    ]


# --- the topics -----------------------------------------------------------------------------------------------------


class Topics:
    """Topics of this module's own, by short names; what a short name is called in Kafka is `self[name]`."""

    def __init__(self, kafka: Any) -> None:
        self._kafka = kafka
        self._tag = uuid.uuid4().hex[:8]

    def __getitem__(self, name: str) -> str:
        return f"jvm-{self._tag}-{name}"

    def make(self, name: str, records: list[Rec] | None = None, partitions: int = 1, **configs: Any) -> str:
        """A topic with these records; keywords are topic settings, `codec` is the producer's."""
        codec = configs.pop("codec", "none")
        topic = self[name]
        self._kafka.create_topic(topic, partitions, configs={key.replace("_", "."): v for key, v in configs.items()})
        producer = self.producer(**{"compression.type": codec})
        send(producer, topic, records or [])
        assert producer.flush(DELIVERY_SECONDS) == 0
        return topic

    def producer(self, **config: Any) -> Producer:
        return Producer(rdkafka(self._kafka.client_options(prefix=""), **config))

    def transactional(self, name: str) -> Producer:
        # The longest that brokers allow: the open one must stay open for as long as both sources read.
        producer = self.producer(**{"transactional.id": self[name], "transaction.timeout.ms": 900_000})
        producer.init_transactions(DELIVERY_SECONDS)
        producer.begin_transaction()
        return producer

    def delete_before(self, topic: str, offset: int) -> None:
        admin = AdminClient(rdkafka(self._kafka.client_options(prefix="")))
        for future in admin.delete_records([RdTopicPartition(topic, 0, offset)]).values():
            future.result(DELIVERY_SECONDS)


def make_transactions(topics: Topics) -> Producer:
    """Committed, aborted and plain records, two transactions interleaved, one still open at the end."""
    topic = topics.make("transactions", [Rec(b"plain %d" % i) for i in range(10)])
    for commit in (True, False, True, False):
        producer = topics.transactional(f"one-{commit}")
        send(producer, topic, [Rec(b"%s %d" % (b"good" if commit else b"bad", i)) for i in range(25)])
        assert producer.flush(DELIVERY_SECONDS) == 0
        (producer.commit_transaction if commit else producer.abort_transaction)(DELIVERY_SECONDS)
    good, bad = topics.transactional("good"), topics.transactional("bad")
    for i in range(6):
        for producer, word in ((good, b"good"), (bad, b"bad")):
            send(producer, topic, [Rec(b"interleaved %s %d" % (word, i))])
            assert producer.flush(DELIVERY_SECONDS) == 0
    bad.abort_transaction(DELIVERY_SECONDS)
    good.commit_transaction(DELIVERY_SECONDS)

    # This one ends with a transaction's marker, the other with a transaction that is still open.
    still_open = topics.transactional("open")
    topic = topics.make("open-transaction", [Rec(b"before %d" % i) for i in range(20)])
    send(still_open, topic, [Rec(b"undecided %d" % i) for i in range(20)])
    assert still_open.flush(DELIVERY_SECONDS) == 0
    return still_open


def make_compacted(topics: Topics) -> None:
    """Ten keys written thirty times in three segments; the last one is never compacted."""
    configs = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.001, "segment_bytes": 1 << 20}
    topic = topics.make("compacted", [], **configs, max_compaction_lag_ms=1, delete_retention_ms=3_600_000)
    producer = topics.producer(**{"linger.ms": 0, "batch.num.messages": 10})
    for i in range(600):
        # Every key's last value but two is a tombstone; random bytes would be the same to the broker.
        value = None if i >= 590 and i % 10 > 1 else b"%06d" % i * 1000
        send(producer, topic, [Rec(value, b"key %d" % (i % 10), timestamp=BASE + i)])
    assert producer.flush(DELIVERY_SECONDS) == 0


def wait_for_compaction(kafka: Any, topic: str, written: int, seconds: float = 60.0) -> None:
    from penstock.config.source import parse_options
    from penstock.planner.batch import plan_batch
    from support.reading import range_reader

    options = parse_options({**kafka.client_options(), "subscribe": topic})
    end = time.monotonic() + seconds
    while True:
        (range_,) = plan_batch(options)
        left = sum(batch.num_rows for batch in range_reader(range_, ["offset"], options.client))
        if left < written:
            return
        assert time.monotonic() < end, f"{topic} was not compacted within {seconds:g} s"
        time.sleep(0.2)


# --- the queries ----------------------------------------------------------------------------------------------------


def queries(topics: Topics) -> dict[str, dict[str, str]]:
    """Name -> options, less the way to the broker."""
    mixed, timed = topics["shapes-lz4"], topics["shapes-zstd"]
    per_partition = SHAPES // PARTITIONS

    def subscribe(name: str, **options: str) -> dict[str, str]:
        return {"subscribe": topics[name], **options}

    def offsets(topic: str, *each: int) -> str:
        return json.dumps({topic: {str(partition): offset for partition, offset in enumerate(each)}})

    return {
        # every record shape in every codec
        **{f"codec-{codec}": subscribe(f"shapes-{codec}", includeHeaders="true") for codec in CODECS},
        "without-headers": subscribe("shapes-none"),
        "log-append-time": subscribe("log-append-time", includeHeaders="true"),
        "empty-topic": subscribe("empty"),
        "empty-partitions": subscribe("one-of-many"),
        # transactions and compaction
        "read-uncommitted": subscribe("transactions"),
        "read-committed": {**subscribe("transactions"), "kafka.isolation.level": "read_committed"},
        "open-uncommitted": {**subscribe("open-transaction"), "kafka.isolation.level": "read_uncommitted"},
        "open-committed": {**subscribe("open-transaction"), "kafka.isolation.level": "read_committed"},
        "committed-in-parts": {
            **subscribe("transactions", minPartitions="9"),
            "kafka.isolation.level": "read_committed",
        },
        "compacted": subscribe("compacted"),
        "compacted-in-parts": subscribe("compacted", minPartitions="5"),
        # which
        "several-topics": {"subscribe": f"{mixed},{timed}"},
        "pattern": {"subscribePattern": f"{topics['shapes-']}(gzip|snappy)"},
        "pattern-in-the-name": {"subscribePattern": f"{topics['shapes-'][1:]}gzi"},
        "assign": {"assign": json.dumps({mixed: [0, 2], timed: [1]})},
        # from where, until where
        "offsets": subscribe(
            "shapes-lz4", startingOffsets=offsets(mixed, 10, -2, 99), endingOffsets=offsets(mixed, 20, 5, -1)
        ),
        "offsets-nothing": subscribe(
            "shapes-lz4", startingOffsets=offsets(mixed, 7, 7, 7), endingOffsets=offsets(mixed, 7, 7, 7)
        ),
        "starting-timestamp": subscribe("shapes-zstd", startingTimestamp=str(BASE + 30_000)),
        "starting-timestamp-between": subscribe("shapes-zstd", startingTimestamp=str(BASE + 30_001)),
        "ending-timestamp": subscribe("shapes-zstd", endingTimestamp=str(BASE + 30_500)),
        "both-timestamps": subscribe(
            "shapes-zstd", startingTimestamp=str(BASE + 10_000), endingTimestamp=str(BASE + 20_000)
        ),
        "timestamps-by-partition": subscribe(
            "shapes-zstd",
            startingOffsetsByTimestamp=offsets(timed, BASE, BASE + 5_000, BASE + 90_000),
            endingOffsetsByTimestamp=offsets(timed, BASE + 3_000, BASE + 50_000, BASE + 10**9),
        ),
        "timestamp-after-the-end": subscribe(
            "shapes-zstd",
            startingTimestamp=str(BASE + 10**9),
            startingOffsetsByTimestampStrategy="latest",
        ),
        "timestamp-wins-over-offsets": subscribe(
            "shapes-zstd", startingTimestamp=str(BASE + 50_000), startingOffsets=offsets(timed, 1, 2, 3)
        ),
        "front-deleted": subscribe("front-deleted"),
        "lost-offsets-allowed": subscribe(
            "front-deleted", startingOffsets=offsets(topics["front-deleted"], 0), failOnDataLoss="false"
        ),
        # how much
        "min-partitions": subscribe("shapes-lz4", minPartitions="8"),
        "max-records": subscribe("shapes-lz4", maxRecordsPerPartition="13"),
        "min-and-max": subscribe("shapes-lz4", minPartitions="10", maxRecordsPerPartition="45"),
        "cut-inside-batches": subscribe(
            "shapes-zstd",
            startingOffsets=offsets(timed, 33, 1, per_partition - 1),
            endingOffsets=offsets(timed, 34, 2, per_partition),
        ),
    }


def refused(topics: Topics) -> dict[str, dict[str, str]]:
    """What neither of them does."""
    name = topics["shapes-none"]
    lost = topics["front-deleted"]
    return {
        "no-subscription": {},
        "two-subscriptions": {"subscribe": name, "subscribePattern": "a.*"},
        "starting-latest": {"subscribe": name, "startingOffsets": "latest"},
        "ending-earliest": {"subscribe": name, "endingOffsets": "earliest"},
        "starting-at-minus-one": {"subscribe": name, "startingOffsets": json.dumps({name: {"0": -1, "1": 0, "2": 0}})},
        "offsets-of-another-topic": {"subscribe": name, "startingOffsets": json.dumps({"other": {"0": 0}})},
        "offsets-with-assign": {
            "assign": json.dumps({name: [0]}),
            "startingOffsets": json.dumps({name: {"0": 0, "1": 0}}),
        },
        "timestamp-after-the-end": {
            "subscribe": name,
            "startingTimestamp": str(BASE + 10**9),
            "startingOffsetsByTimestampStrategy": "error",
        },
        "lost-offsets": {"subscribe": lost, "startingOffsets": json.dumps({lost: {"0": 0}})},
        "min-partitions-of-none": {"subscribe": name, "minPartitions": "0"},
        "own-deserializer": {"subscribe": name, "kafka.key.deserializer": "org.example.Mine"},
        "auto-offset-reset": {"subscribe": name, "kafka.auto.offset.reset": "latest"},
    }


class _Names:
    """Stands in for `Topics` where only the names of queries are wanted: at collection, before there is a broker."""

    def __getitem__(self, name: str) -> str:
        return name


QUERIES = sorted(queries(_Names()))  # type: ignore[arg-type]
REFUSED = sorted(refused(_Names()))  # type: ignore[arg-type]


# --- both sources -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    options: dict[str, dict[str, str]]
    by_spark: dict[str, Outcome]


@pytest.fixture(scope="module")
def comparison(kafka: Any, jvm_source: Any) -> Iterator[Comparison]:
    """Everything is written, then Spark's own source answers all queries in one process."""
    topics = Topics(kafka)
    make_compacted(topics)
    for codec in CODECS:
        topics.make(f"shapes-{codec}", shapes(), PARTITIONS, codec=codec)
    topics.make("log-append-time", shapes(), PARTITIONS, message_timestamp_type="LogAppendTime", codec="zstd")
    topics.make("empty", partitions=2)
    topics.make("one-of-many", [Rec(b"%d" % i, partition=4) for i in range(50)], 6)
    topics.delete_before(topics.make("front-deleted", [Rec(b"%d" % i) for i in range(100)]), DELETED)
    still_open = make_transactions(topics)
    try:
        wait_for_compaction(kafka, topics["compacted"], written=600)
        asked = {f"rows-{name}": options for name, options in queries(topics).items()}
        asked |= {f"refused-{name}": options for name, options in refused(topics).items()}
        # Spark's own source asks beyond the end of what it needs and may wait for the answer. With Kafka's half second
        # instead of this, its queries took 56 s and not 39.
        quick = {**kafka.client_options(), "kafka.fetch.max.wait.ms": "20"}
        options = {name: {**quick, **chosen} for name, chosen in asked.items()}
        yield Comparison(options, jvm_source(options))
    finally:
        still_open.abort_transaction(DELIVERY_SECONDS)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder).to_pylist()
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


@pytest.mark.parametrize("name", QUERIES)
def test_penstock_returns_the_rows_of_sparks_own_source(spark: Any, comparison: Comparison, tmp_path: Path, name: str):
    expected = comparison.by_spark[f"rows-{name}"]
    assert expected.error is None, f"Spark's own source failed, so there is nothing to compare: {expected.error}"
    frame = spark.read.format("penstock").options(**comparison.options[f"rows-{name}"]).load()
    assert json.loads(frame.schema.json()) == json.loads(expected.schema or "")
    spark.conf.set(*TIMESTAMPS_AS)
    try:
        frame.write.parquet(str(tmp_path / "rows"))
    finally:
        spark.conf.unset(TIMESTAMPS_AS[0])
    ours, theirs = rows_of(tmp_path / "rows"), rows_of(expected.rows)
    assert [(row["topic"], row["partition"], row["offset"]) for row in ours] == [
        (row["topic"], row["partition"], row["offset"]) for row in theirs
    ]
    for our_row, their_row in zip(ours, theirs, strict=True):
        assert our_row == their_row


@pytest.mark.parametrize("name", REFUSED)
def test_penstock_refuses_what_sparks_own_source_refuses(spark: Any, comparison: Comparison, name: str):
    assert comparison.by_spark[f"refused-{name}"].error is not None, "Spark's own source does this"
    with pytest.raises(PySparkException):
        spark.read.format("penstock").options(**comparison.options[f"refused-{name}"]).load().collect()


def test_the_comparison_is_not_of_nothing_with_nothing(comparison: Comparison):
    """Queries meant to return rows do, and the special topics really are what they are there for."""
    counts = {name: len(rows_of(comparison.by_spark[f"rows-{name}"].rows)) for name in QUERIES}
    assert {name for name, count in counts.items() if count == 0} == {
        "empty-topic",
        "offsets-nothing",
        "timestamp-after-the-end",
    }
    assert counts["codec-zstd"] == SHAPES
    assert counts["read-committed"] < counts["read-uncommitted"]
    assert counts["open-committed"] == 20 < counts["open-uncommitted"]
    assert 10 <= counts["compacted"] < 600
    assert counts["front-deleted"] == counts["lost-offsets-allowed"] == 100 - DELETED
