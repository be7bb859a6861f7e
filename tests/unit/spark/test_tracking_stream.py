"""How a stream is read where Spark passes no start: PySpark 4.0 and 4.1. The tests play Spark's part."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace

import pytest

from penstock.config.source import parse_options
from penstock.errors import UnsupportedSpark
from penstock.model.topic_partition import TopicPartition
from penstock.planner.checkpoint import OffsetTexts
from penstock.planner.stream import StreamPlanner
from penstock.spark.tracking_stream import TrackingStreamReader
from support.fake_cluster import FakeCluster

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
EARLIEST = {"startingOffsets": "earliest"}


@pytest.fixture
def cluster():
    """Topic `a` with ten records in its first partition and five in its second."""
    fake = FakeCluster()
    fake.create("a", 10, 5)
    return fake


class Spark:
    """Calls a reader as MicroBatchExecution of Spark 4.0 does. Keeps the logs of a checkpoint as texts."""

    def __init__(self, cluster: FakeCluster, **options: str) -> None:
        self._cluster, self._options = cluster, options
        self.offset_log: list[str] = []
        self.commit_log = 0
        """How many batches have finished."""
        self.group: list[dict[TopicPartition, int]] = []
        self.read: list[dict[TopicPartition, tuple[int, int]]] = []
        self.start()

    def start(self) -> None:
        options = parse_options({"kafka.bootstrap.servers": "broker:9092", "subscribe": "a"} | self._options)
        self.reader = TrackingStreamReader(options, ["value"])
        self.reader._stream_driver = SimpleNamespace(
            planner=StreamPlanner(options, self._cluster),
            texts=OffsetTexts(),
            commit=self.group.append,
            report_address=lambda: None,
        )
        if self.offset_log:
            last = self.offset_log[-1]
            self.reader.partitions(json.loads(last), json.loads(last))

    def trigger(self) -> dict[TopicPartition, tuple[int, int]]:
        """One trigger: the ranges of its batch; {} if there is nothing to do."""
        self.plan()
        return self.run() if self.commit_log < len(self.offset_log) else {}

    def plan(self) -> None:
        """Writes the next batch into the offset log, unless there is one that has not finished."""
        if self.commit_log == len(self.offset_log):
            end = json.dumps(self.reader.latestOffset())
            if end not in self.offset_log[-1:]:
                self.offset_log.append(end)

    def run(self) -> dict[TopicPartition, tuple[int, int]]:
        number = self.commit_log
        start = self.reader.initialOffset() if number == 0 else json.loads(self.offset_log[number - 1])
        work = [each.value for each in self.reader.partitions(start, json.loads(self.offset_log[number]))]
        self.commit_log += 1
        self.read.append({each.topic_partition: (each.start, each.stop) for each in work})
        return self.read[-1]


def test_F18_each_batch_starts_where_the_last_one_ended(cluster):
    spark = Spark(cluster, **EARLIEST)
    assert spark.trigger() == {A0: (0, 10), A1: (0, 5)}
    assert spark.trigger() == {}
    cluster.logs[A0].end = 13
    assert spark.trigger() == {A0: (10, 13)}


def test_the_planner_applies_limits_that_spark_does_not_pass(cluster):
    spark = Spark(cluster, **EARLIEST, maxOffsetsPerTrigger="6")
    batches = [spark.trigger() for _ in range(4)]
    assert [sum(stop - start for start, stop in batch.values()) for batch in batches] == [6, 6, 3, 0]


def test_F10_a_restarted_query_goes_on_at_the_offset_log(cluster):
    spark = Spark(cluster, **EARLIEST, maxOffsetsPerTrigger="6")
    first = spark.trigger()
    spark.start()
    second = spark.trigger()
    assert {tp: stop for tp, (_, stop) in first.items()} == {tp: start for tp, (start, _) in second.items()}


def test_F18_a_batch_that_did_not_finish_is_replayed_and_then_read_on_from(cluster):
    spark = Spark(cluster, **EARLIEST, maxOffsetsPerTrigger="6")
    spark.trigger()
    spark.plan()
    planned = spark.offset_log[-1]
    cluster.logs[A0].end = 100  # must not get into the batch that was planned before
    spark.start()
    replayed, after = spark.trigger(), spark.trigger()
    ends = {tp: stop for tp, (_, stop) in replayed.items()}
    assert ends == {TopicPartition("a", int(each)): offset for each, offset in json.loads(planned)["a"].items()}
    assert {tp: start for tp, (start, _) in after.items()}.items() <= ends.items()


def test_F10_a_start_that_moves_is_in_the_offset_log_before_anything_is_read(cluster):
    spark = Spark(cluster)
    assert spark.trigger() == {}
    assert len(spark.offset_log) == 1, "a batch without records"
    cluster.logs[A0].end = 12
    assert spark.trigger() == {A0: (10, 12)}


def test_F22_the_end_of_a_finished_batch_is_committed(cluster):
    spark = Spark(cluster, **EARLIEST)
    spark.plan()
    assert spark.group == [], "the start of a new query is not committed"
    spark.run()
    assert spark.group == []
    spark.trigger()
    assert spark.group == [{A0: 10, A1: 5}]
    spark.start()
    spark.trigger()
    assert spark.group[-1] == {A0: 10, A1: 5}


def test_F22_an_answer_that_was_not_planned_is_not_committed(cluster):
    """The wrapper of Trigger.AvailableNow asks twice before the first batch."""
    spark = Spark(cluster, **EARLIEST, maxOffsetsPerTrigger="6")
    spark.reader.latestOffset()
    spark.reader.latestOffset()
    assert spark.group == []


@pytest.mark.parametrize("batches", [1, 2], ids=["at the same answer", "elsewhere"])
@pytest.mark.parametrize("options", [EARLIEST | {"maxOffsetsPerTrigger": "6"}, {}], ids=["limited", "latest"])
def test_a_start_that_spark_tells_too_late_is_refused(cluster, options, batches):
    """The wrapper of Trigger.AvailableNow asks for the end of a restarted query before it tells its start."""
    spark = Spark(cluster, **options)
    for _ in range(batches):
        spark.trigger()
        cluster.logs[A0].end += 1
    place = json.loads(spark.offset_log[-1])
    spark.offset_log.clear()
    spark.start()
    spark.reader.latestOffset()
    with pytest.raises(UnsupportedSpark, match=r"triggerAvailableNowWrapper.enabled is true.*Set it to false"):
        spark.reader.partitions(place, place)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (EARLIEST | {"maxOffsetsPerTrigger": "6"}, "leaves 9 records for later ones"),
        (EARLIEST, None),
        ({}, None),
        ({"startingTimestamp": "0"}, "is empty, and records where the query starts"),
    ],
    ids=["limit", "everything", "latest", "pinned"],
)
def test_what_the_only_batch_of_a_bounded_run_leaves_is_a_warning(cluster, caplog, monkeypatch, options, said):
    monkeypatch.setattr(FakeCluster, "first_at", lambda self, times, ends, since=None: dict.fromkeys(times, 0), False)
    caplog.set_level(logging.WARNING)
    spark = Spark(cluster, **options)
    spark.trigger()
    spark.trigger()
    found = [record.getMessage() for record in caplog.records]
    assert len(found) == (said is not None)
    assert all(said in message and "Trigger.AvailableNow" in message for message in found)
