"""What tasks of a stream report to its planner: counts in the metrics (F3, F26), and the end of partitions (F4)."""

from __future__ import annotations

import logging
import os
import uuid

import pyarrow.parquet as pq
import pytest

from chaos.sink import logged_files
from fixtures.cluster import cluster_of
from fixtures.produce import Rec
from penstock.model.topic_partition import TopicPartition
from penstock.reader import worker_counters
from penstock.reader.worker_counters import counters_of
from penstock.spark import PenstockDataSource, await_end
from penstock.spark.listener import source_metrics

OWN = """
class Numbers:
    def schema(self):
        return "number BIGINT"

    def deserialize_record(self, record):
        if record.value == b"skip":
            return None
        return {"number": -1 if record.value == b"end" else int(record.value)}


class NumbersWithAnEnd(Numbers):
    def is_end_of_stream(self, row):
        return row == {"number": -1}
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A module with deserializers: its file and name. Other names in other test processes would do as well."""
    name = f"own_deserializers_{uuid.uuid4().hex}"
    path = tmp_path_factory.mktemp("own") / f"{name}.py"
    path.write_text(OWN)
    return path


@pytest.fixture
def numbers(own, monkeypatch):
    """`valueFormat` of a class in this very process."""
    monkeypatch.syspath_prepend(str(own.parent))
    return f"{own.stem}:Numbers"


def values(*texts, partition=0):
    return [Rec(str(text).encode(), partition=partition) for text in texts]


# --- without Spark: the reader is called as Spark does, and its tasks run here ----------------------------------------


class Running:
    def __init__(self, options):
        source = PenstockDataSource(options)
        self.reader = source.streamReader(source.schema())
        self.state = self.reader.initialOffset()
        self.limit = self.reader.getDefaultReadLimit()

    def trigger(self, attempts=1):
        """Plan a batch, run its tasks; the offsets it has read up to."""
        end = self.reader.latestOffset(self.state, self.limit)
        if end == self.state:
            return None
        for partition in self.reader.partitions(self.state, end):
            for _ in range(attempts):
                for _batch in self.reader.read(partition):
                    pass
        self.state = end
        return end

    def report(self):
        self.reader.latestOffset(self.state, self.limit)
        return self.reader.reportLatestOffset()["#penstock"]


@pytest.fixture
def running(kafka):
    made = []

    def make(**options):
        made.append(Running(kafka.client_options() | {"startingOffsets": "earliest"} | options))
        return made[-1]

    yield make
    for each in made:
        each.reader.stop()


def test_F3_F26_what_tasks_met_is_counted_once_per_range_however_often_they_run(running, topic, produce, numbers):
    name = topic(partitions=2)
    produce(name, values(1, "skip", "x") + values("y", 2, partition=1))
    stream = running(subscribe=name, valueFormat=numbers, mode="DROPMALFORMED")
    assert stream.report()["malformedRecords"] == 0
    stream.trigger(attempts=2)
    produce(name, values("skip", "skip", "z"))
    stream.trigger()
    assert {key: stream.report()[key] for key in ("malformedRecords", "droppedRecords", "skippedRecords")} == {
        "malformedRecords": 3,
        "droppedRecords": 3,
        "skippedRecords": 3,
    }
    assert stream.report()["finished"] is None


def test_F26_a_stream_of_bytes_without_metrics_has_no_listener(running, topic, produce):
    name = topic()
    produce(name, values(1))
    stream = running(subscribe=name, reportMetrics="false")
    end = stream.reader.latestOffset(stream.state, stream.limit)
    assert [each.reports for each in stream.reader.partitions(stream.state, end)] == [None]


def test_F26_workers_report_their_requests_and_the_planner_shows_the_last_figures(running, topic, produce, monkeypatch):
    name = topic(partitions=2)
    produce(name, values(1) + values(2, partition=1))
    stream = running(subscribe=name)
    assert "workers" not in stream.report()
    stream.trigger()
    report = stream.report()
    assert "malformedRecords" not in report
    [(worker, first)] = report["workers"].items()
    assert worker.endswith(f":{os.getpid()}")
    assert first["fetches"] == first["awaited"] == 1, "the second task's report is less than a second later"
    assert 0 < first["slowest_fetch"] == first["fetch_seconds"] < 60
    assert first["connections"] >= 1
    assert (first["retries"], first["throttle_seconds"]) == (0, 0)
    monkeypatch.setattr(worker_counters, "REPORT_SECONDS", 0.0)
    counters_of(stream.reader._driver._server.address.token)._due = 0.0
    produce(name, values(3) + values(4, partition=1))
    stream.trigger()
    assert stream.report()["workers"][worker]["fetches"] == 4


def test_F26_a_planner_that_cannot_be_reached_delays_a_task_of_bytes_for_a_moment_only(running, topic, produce, caplog):
    name = topic()
    produce(name, values(1))
    stream = running(subscribe=name)
    end = stream.reader.latestOffset(stream.state, stream.limit)
    [partition] = stream.reader.partitions(stream.state, end)
    stream.reader._driver._server.close()
    with caplog.at_level("INFO"):
        assert sum(batch.num_rows for batch in stream.reader.read(partition)) == 1
    assert "the query's metrics lack this worker" in caplog.text
    assert not [each for each in caplog.records if each.levelname == "WARNING"]


@pytest.mark.parametrize(
    "split", [{}, {"maxRecordsPerPartition": "20"}, {"valueFormat": "string"}, {"eventTime.maxDrift": "1h"}], ids=str
)
def test_F27_a_loss_that_only_a_task_finds_is_counted_once(running, topic, produce, operator, caplog, split):
    name = topic(partitions=2)
    produce(name, values(*range(100)) + values(*range(50), partition=1))
    stream = running(subscribe=name, failOnDataLoss="false", **split)
    assert stream.report()["lostRanges"] == 0
    end = stream.reader.latestOffset(stream.state, stream.limit)
    planned = stream.reader.partitions(stream.state, end)
    operator.delete_records(name, {0: 70})  # between planning and reading, where only tasks can find it
    read = []
    with caplog.at_level(logging.WARNING, "penstock"):
        for partition in (*planned, *planned):  # retried, or read twice by foreachBatch
            read.append(sum(batch.num_rows for batch in stream.reader.read(partition)))
            stream.reader.partitions(stream.state, end)  # and planned once more by Spark
    assert sum(read) == 2 * (30 + 50)
    stream.state = end
    assert stream.report()["lostRanges"] == 1, "one stretch of one log is gone, however many tasks read it"
    assert "a task found that" in caplog.text
    produce(name, values(1))
    stream.trigger()
    assert stream.report()["lostRanges"] == 1


def test_a_reader_that_was_stopped_does_not_listen(running, topic, produce, numbers):
    name = topic()
    produce(name, values("x"))
    stream = running(subscribe=name, valueFormat=numbers)
    stream.trigger()
    server = stream.reader._stream_driver._server
    stream.reader.stop()
    assert not server._thread.is_alive()


def test_after_the_last_batch_of_a_run_the_log_has_the_counts(running, topic, produce, numbers, caplog):
    name = topic()
    produce(name, values(1, "x", "skip", "skip"))
    stream = running(subscribe=name, valueFormat=numbers)
    stream.reader.prepareForTriggerAvailableNow()
    with caplog.at_level(logging.WARNING, "penstock"):
        while stream.trigger():
            pass
    line = "did not parse: 1 (dropped: 0, sent to deadLetterTopic: 0); skipped by its deserializer: 2"
    assert line in caplog.text


def test_F27_after_the_last_batch_of_a_run_the_log_has_its_losses(running, topic, produce, operator, caplog):
    name = topic()
    produce(name, values(*range(10)))
    stream = running(subscribe=name, failOnDataLoss="false")
    stream.reader.prepareForTriggerAvailableNow()
    end = stream.reader.latestOffset(stream.state, stream.limit)
    [planned] = stream.reader.partitions(stream.state, end)
    operator.delete_records(name, {0: 7})
    assert sum(batch.num_rows for batch in stream.reader.read(planned)) == 3
    with caplog.at_level(logging.WARNING, "penstock"):
        stream.reader.latestOffset(end, stream.limit)
    assert "lost ranges of this run: 1" in caplog.text
    assert "did not parse" not in caplog.text


# --- with Spark -------------------------------------------------------------------------------------------------------


@pytest.fixture
def table(spark, kafka, tmp_path, own):
    """A typed stream into a Parquet table: `table.start(subscribe=...)`, `table.numbers()`."""
    spark.sparkContext.addPyFile(str(own))

    class Table:
        path, checkpoint = tmp_path / "table", tmp_path / "checkpoint"

        def start(self, name="NumbersWithAnEnd", trigger=None, **options):
            options = (
                kafka.client_options() | {"startingOffsets": "earliest", "valueFormat": f"{own.stem}:{name}"} | options
            )
            frame = spark.readStream.format("penstock").options(**options).load().selectExpr("value.number")
            writer = frame.writeStream.format("parquet").option("path", str(self.path))
            writer = writer.option("checkpointLocation", str(self.checkpoint))
            query = (writer.trigger(**trigger) if trigger else writer).start()
            queries.append(query)
            return query

        def numbers(self):
            files = logged_files(self.path)
            return sorted(number for path in files for number in pq.ParquetFile(path).read(["number"])[0].to_pylist())

    queries = []
    yield Table()
    for query in queries:
        query.stop()


def test_F4_the_query_ends_cleanly_and_a_restart_emits_nothing_after_the_end(table, topic, produce, kafka):
    name = topic(partitions=2)
    group = uuid.uuid4().hex
    options = {"subscribe": name, "kafka.group.id": group}
    cluster, both = cluster_of(kafka), [TopicPartition(name, 0), TopicPartition(name, 1)]
    # Returns when a new broker has coordinators. The end of a query does not wait that long.
    cluster.committed(group, both)
    produce(name, values(0, 2, "end", 100, 102) + values(1, 3, partition=1))
    query = table.start(**options)
    query.processAllAvailable()
    assert table.numbers() == [0, 1, 2, 3]
    produce(name, values(104) + values(5, "end", 101, partition=1))
    assert await_end(query, timeout=180)
    assert query.exception() is None
    assert table.numbers() == [0, 1, 2, 3, 5]

    produce(name, values(106) + values(103, partition=1))
    assert await_end(table.start(**options), timeout=180)
    assert table.numbers() == [0, 1, 2, 3, 5]

    assert cluster.committed(group, both) == {both[0]: 2, both[1]: 3}


def test_F4_the_first_end_ends_the_whole_query_and_a_restart_reads_nothing(table, topic, produce):
    name = topic(partitions=2)
    options = {"subscribe": name, "endOfStream": "any"}
    produce(name, values(0, 2, "end", 100) + values(1, 3, partition=1))
    assert await_end(table.start(**options), timeout=180)
    assert table.numbers() == [0, 1, 2, 3]

    produce(name, values(104) + values(101, 102, partition=1))
    assert await_end(table.start(**options), timeout=180)
    assert table.numbers() == [0, 1, 2, 3], "the other partition is not read on either"


def test_F4_ending_with_any_partition_needs_a_deserializer_that_can_end(table, topic):
    with pytest.raises(Exception, match="option endOfStream = 'any': has no effect"):
        table.start("Numbers", subscribe=topic(), endOfStream="any").awaitTermination(180)


def test_F26_counts_are_in_the_progress_after_that_of_their_batch(table, topic, produce):
    name = topic()
    produce(name, values(1, "x", "skip", 2, "y", 3))
    query = table.start("Numbers", {"availableNow": True}, subscribe=name, mode="DROPMALFORMED", maxOffsetsPerTrigger=3)
    assert query.awaitTermination(180)
    assert table.numbers() == [1, 2, 3]
    (first,), (second,) = (source_metrics(each).values() for each in query.recentProgress if each.numInputRows)
    assert (first.malformed_records, first.dropped_records, first.skipped_records) == (0, 0, 0)
    assert (second.malformed_records, second.dropped_records, second.skipped_records) == (1, 1, 1)
    [worker] = second.workers
    assert worker.fetch_requests >= 1
    assert worker.open_connections >= 1
    assert worker.fetch_latency is not None
