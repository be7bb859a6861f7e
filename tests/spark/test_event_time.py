"""Event time in Spark: what `withWatermark` drops of a skewed topic, and what it does not where partitions are aligned.

Spark's watermark is the highest event time of all that was read, less a delay. Penstock without event-time options
plans as Spark's own source does (each partition gets its share of the limit), so it mostly stands in for that one here;
once that one is run itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 (as PySpark's own documentation has it)

from fixtures.produce import Rec

PARTITIONS = 8
EACH = 240
RECORDS = PARTITIONS * EACH
HOUR = 3_600_000
SPAN = 12 * HOUR
APART = 24 * HOUR // (PARTITIONS - 1)
FIRST = (int(time.time()) * 1000 - 48 * HOUR) // HOUR * HOUR
DRIFT = {"eventTime.maxDrift": "6h"}
SOON = 180.0


def event_time(partition: int, offset: int) -> int:
    """Of skewed topics, in ms: each partition holds half a day, and the last one begins 24 hours after the first."""
    return FIRST + partition * APART + offset * SPAN // EACH


def text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def skewed(partitions: int = PARTITIONS) -> list[Rec]:
    """Event times are the records' own timestamps."""
    return [Rec(b"", timestamp=event_time(p, n), partition=p) for n in range(EACH) for p in range(partitions)]


def skewed_values() -> list[Rec]:
    """Event times are in a field of the value, and the records' own say nothing."""
    return [
        Rec(json.dumps({"created": text(record.timestamp)}).encode(), timestamp=FIRST, partition=record.partition)
        for record in skewed()
    ]


@dataclass(frozen=True)
class Outcome:
    """What came of a replay: rows read, rows in the counts of the windows, rows that Spark says it has dropped (as many
    as were left of them when its tasks had counted); of its batches in their order, the combined event-time watermarks,
    and the partitions that each has read of."""

    read: int
    counted: int
    dropped: int
    watermarks: list[datetime]
    moved: list[set[int]]


class Replay:
    """Everything there is, counted by windows of half an hour behind Spark's own watermark."""

    def __init__(self, spark: Any, options: dict[str, str], folder: Path) -> None:
        self._spark, self._options, self._folder = spark, options, folder
        self._counted: dict[Any, int] = {}
        self._progress: list[Any] = []

    def run(self, column: str = "timestamp", fail_at: int | None = None, once: bool = False, **options: str) -> Outcome:
        """`fail_at`: the batch whose sink fails, and with it the query. `options`: more of them, for this run."""
        frame = self._spark.readStream.format("penstock").options(**self._options, **options).load()
        if "_watermark" in frame.columns:
            frame = frame.observe("seen", F.min("_watermark").alias("low"), F.max("_watermark").alias("high"))
        counts = (
            frame.withColumn("at", F.col(column))
            .withWatermark("at", "6 hours")
            .groupBy(F.window("at", "30 minutes"))
            .count()
        )

        def keep(batch: Any, number: int) -> None:
            if number == fail_at:
                raise RuntimeError("the sink is full")
            self._counted.update((row["window"]["start"], row["count"]) for row in batch.collect())

        writer = counts.writeStream.outputMode("update").foreachBatch(keep)
        writer = writer.option("checkpointLocation", str(self._folder))
        query = (writer.trigger(once=True) if once else writer.trigger(availableNow=True)).start()
        try:
            assert query.awaitTermination(SOON), "the stream did not end"
        finally:
            self._progress += [each for each in query.recentProgress if each.numInputRows]
            query.stop()
        return self.outcome()

    def outcome(self) -> Outcome:
        seen = [each.observedMetrics["seen"] for each in self._progress if "seen" in each.observedMetrics]
        assert all(one["low"] == one["high"] for one in seen), "one combined watermark for all rows of a batch"
        operators = [operator for each in self._progress for operator in each.stateOperators]
        return Outcome(
            read=sum(each.numInputRows for each in self._progress),
            counted=sum(self._counted.values()),
            dropped=sum(operator.numRowsDroppedByWatermark for operator in operators),
            watermarks=[one["low"] for one in seen if one["low"] is not None],
            moved=[moved(each.sources[0]) for each in self._progress],
        )


def moved(source: Any) -> set[int]:
    """The partitions of a source with one topic that a batch has read of."""
    start, end = (
        {int(partition): at for offsets in (json.loads(text) or {}).values() for partition, at in offsets.items()}
        for text in (source.startOffset, source.endOffset)
    )
    return {partition for partition, at in end.items() if at > start.get(partition, 0)}


@pytest.fixture
def replay(spark: Any, kafka: Any, tmp_path: Path) -> Callable[..., Replay]:
    def make(topic: str, **options: str) -> Replay:
        limit = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(RECORDS // 8)}
        return Replay(spark, kafka.client_options() | limit | {"subscribe": topic} | options, tmp_path / "checkpoint")

    return make


@pytest.fixture
def skewed_topic(topic: Callable[..., str], produce: Callable[..., int]) -> str:
    name = topic(partitions=PARTITIONS)
    produce(name, skewed())
    return name


@pytest.mark.extended
def test_without_alignment_spark_drops_what_slow_partitions_hold(replay, skewed_topic):
    outcome = replay(skewed_topic).run()
    assert outcome.read == RECORDS
    assert outcome.dropped > 0
    assert outcome.counted < RECORDS * 3 // 4


def test_E4_a_replay_of_a_skewed_topic_loses_nothing(replay, skewed_topic):
    outcome = replay(skewed_topic, **DRIFT).run()
    assert outcome.dropped == 0
    assert (outcome.read, outcome.counted) == (RECORDS, RECORDS)


@pytest.mark.extended
@pytest.mark.jvm
@pytest.mark.timeout(1500)  # PySpark 4.2.0 may have to be fetched, which is large
def test_E4_where_sparks_own_source_drops_penstock_keeps_everything(both_sources, kafka, skewed_topic, tmp_path):
    options = kafka.client_options() | {"subscribe": skewed_topic, "startingOffsets": "earliest"}
    step = {"do": "windows", "window": "30 minutes", "delay": "6 hours"}
    sources = {"kafka": {}, "penstock": DRIFT}
    limit = {"maxOffsetsPerTrigger": str(RECORDS // 4)}
    steps = [
        step | {"format": source, "options": options | limit | more, "checkpoint": str(tmp_path / source)}
        for source, more in sources.items()
    ]
    with both_sources(steps, tmp_path / "driver") as driver:
        by_spark, by_penstock = driver.answers()
    assert by_spark["read"] == RECORDS
    assert by_spark["dropped"] > 0
    assert by_spark["counted"] < RECORDS
    assert by_penstock == {"read": RECORDS, "counted": RECORDS, "dropped": 0}


@pytest.mark.extended
def test_E4_trigger_once_reads_everything_in_one_batch_and_loses_nothing(replay, skewed_topic):
    outcome = replay(skewed_topic, **DRIFT).run(once=True)
    assert outcome.moved == [set(range(PARTITIONS))]
    assert outcome.dropped == 0
    assert (outcome.read, outcome.counted) == (RECORDS, RECORDS)


@pytest.mark.extended
def test_E4_F20_event_time_is_switched_on_and_off_with_one_checkpoint(replay, skewed_topic):
    running = replay(skewed_topic)
    everybody = set(range(PARTITIONS))
    with pytest.raises(StreamingQueryException, match="the sink is full"):
        running.run(fail_at=2)
    assert running.outcome().moved == [everybody] * 2
    with pytest.raises(StreamingQueryException, match="the sink is full"):
        running.run(fail_at=5, **DRIFT, includeWatermarks="true")
    # Batch 2 was planned without a drift. From then on a partition that is more than 6 hours ahead waits: the first is
    # at half past four, and the third starts at seven and is at half past eleven.
    switched_on = running.outcome()
    assert switched_on.moved[2] == everybody
    assert len(switched_on.moved) == 5
    assert switched_on.moved[3] == {0, 1}
    assert 7 not in switched_on.moved[4]
    assert len(switched_on.watermarks) >= 2, "what was read before it was switched on counts"
    assert switched_on.watermarks == sorted(switched_on.watermarks)
    # Batch 5 had been planned with it.
    after = running.run()
    assert 7 not in after.moved[5]
    assert 7 in after.moved[6]
    assert after.read == RECORDS
    assert after.watermarks == switched_on.watermarks, "no more of them"


@pytest.mark.extended
def test_E4_a_replay_by_a_field_of_the_value_loses_nothing(replay, topic, produce):
    name = topic(partitions=PARTITIONS)
    produce(name, skewed_values())
    typed = {"valueFormat": "json", "valueSchema": "created TIMESTAMP", "eventTime.column": "value.created"}
    outcome = replay(name, **DRIFT, **typed).run(column="value.created")
    assert outcome.dropped == 0
    assert (outcome.read, outcome.counted) == (RECORDS, RECORDS)


@pytest.mark.extended
def test_E2_a_query_that_is_started_again_goes_on_with_its_watermark(replay, topic, produce):
    name = topic(partitions=2)
    records = produce(name, skewed(partitions=2))
    running = replay(name, **DRIFT, includeWatermarks="true", maxOffsetsPerTrigger=str(records // 6))
    with pytest.raises(StreamingQueryException, match="the sink is full"):
        running.run(fail_at=3)
    before = running.outcome()
    assert len(before.watermarks) == 2, "the first batch has none yet"
    after = running.run()
    assert len(after.watermarks) >= 5
    assert after.watermarks == sorted(after.watermarks)
    assert after.dropped == 0
    assert (after.read, after.counted) == (records, records)


# --- a live topic -----------------------------------------------------------------------------------------------------


class Live:
    """A running query, and the rows of its batches."""

    def __init__(self, spark: Any, options: dict[str, str], folder: Path) -> None:
        self.rows: dict[int, list[Any]] = {}
        frame = spark.readStream.format("penstock").options(**options).load()
        frame = frame.select("partition", "offset", "timestamp", "_watermark")
        self.query = (
            frame.writeStream.foreachBatch(self._keep).option("checkpointLocation", str(folder / "checkpoint")).start()
        )

    def _keep(self, batch: Any, number: int) -> None:
        self.rows[number] = batch.collect()

    def offsets(self, partition: int) -> list[int]:
        batches = list(self.rows.values())  # at once: Spark's thread adds to them
        return [row["offset"] for rows in batches for row in rows if row["partition"] == partition]

    def watermarks(self) -> list[datetime]:
        """Of all batches with rows, in their order."""
        seen = [rows[0]["_watermark"] for _, rows in sorted(self.rows.items()) if rows]
        return [mark for mark in seen if mark is not None]

    def until(self, come_true: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + SOON
        while not (found := come_true()):
            if failure := self.query.exception():
                raise failure
            assert time.monotonic() < deadline, f"not seen in {SOON} s: {self.rows}"
            time.sleep(0.05)
        return found

    def final_report(self) -> dict[str, Any] | None:
        """What the source tells when the query has come to rest: that of a batch tells nothing of the batch itself."""
        progress = self.query.lastProgress
        if progress is None or progress.numInputRows or progress.batchId <= max(self.rows):
            return None
        report: dict[str, Any] = json.loads(progress.sources[0].latestOffset)["#penstock"]
        return report


@pytest.fixture
def live(spark: Any, kafka: Any, tmp_path: Path) -> Iterator[Callable[..., Live]]:
    started: list[Live] = []
    often = "spark.sql.streaming.noDataProgressEventInterval"
    spark.conf.set(often, "200")  # an idle query says so five times a second, not once in ten seconds

    def start(topic: str, **options: str) -> Live:
        options = kafka.client_options() | {"subscribe": topic, "startingOffsets": "earliest"} | options
        started.append(Live(spark, options | {"includeWatermarks": "true"}, tmp_path))
        return started[-1]

    yield start
    for each in started:
        each.query.stop()
    spark.conf.unset(often)


def test_E3_a_dead_partition_holds_the_others_for_a_while_and_is_read_when_it_comes_back(live, topic, produce):
    name = topic(partitions=2)
    hours = 12
    produce(name, [Rec(b"", timestamp=FIRST + number * HOUR, partition=0) for number in range(hours)])
    produce(name, [Rec(b"", timestamp=FIRST + HOUR, partition=1)])
    query = live(name, **{"eventTime.maxDrift": "3h", "eventTime.idleness": "3s"})
    # Partition 1 ends at one o'clock, so the other one is held at four until it is idle.
    query.until(lambda: query.offsets(0) == list(range(hours)) and query.offsets(1) == [0])
    first = next(rows for _, rows in sorted(query.rows.items()) if rows)
    assert max(row["timestamp"] for row in first).timestamp() * 1000 == FIRST + 4 * HOUR
    # Records that are older than all that was read come from the dead one, and as many new ones from the other.
    produce(name, [Rec(b"", timestamp=FIRST + 2 * HOUR + number, partition=1) for number in range(5)])
    query.until(lambda: query.offsets(1) == list(range(6)))
    # One after the other, and later by the clock: whichever of the two is idle meanwhile, none of these is late.
    produce(name, [Rec(b"", timestamp=FIRST + (hours + number) * HOUR, partition=1) for number in range(3)])
    query.until(lambda: len(query.offsets(1)) == 9)
    produce(name, [Rec(b"", timestamp=FIRST + (hours + 3 + number) * HOUR, partition=0) for number in range(3)])
    query.until(lambda: len(query.offsets(0)) == hours + 3)
    assert query.watermarks() == sorted(query.watermarks())
    assert query.until(query.final_report)["lateRecords"] == 5
