"""`spark.readStream.format("penstock")`: Spark's triggers, checkpoints and sinks over a real broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import uuid
from collections import Counter

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer
from pyspark.errors import AnalysisException, StreamingQueryException

from chaos.sink import logged_files
from fixtures.produce import Rec
from penstock.config.source import parse_options
from penstock.model.topic_partition import TopicPartition
from penstock.wire.cluster import Cluster
from support.group_tool import described

SOON = 180.0
"""A deadline, not a measurement: a session's first query took 65 s where other work held the processors."""

EVERY_TRIGGER = {"partition.discovery.interval.ms": "0"}


def eventually(check, seconds=SOON):
    """Wait until `check()` is true, and return its result."""
    deadline = time.monotonic() + seconds
    while not (seen := check()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return seen


def numbered(count, partitions=2, first=0):
    return [Rec(b"%d" % n, partition=n % partitions) for n in range(first, first + count)]


@pytest.fixture
def table(spark, kafka, tmp_path):
    """A stream into a parquet table with a checkpoint: `table.start(subscribe=...)`, `table.rows()`."""

    class Table:
        path, checkpoint = tmp_path / "table", tmp_path / "checkpoint"

        def start(self, trigger=None, schema=None, **options):
            reader = spark.readStream.format("penstock").options(**(kafka.client_options() | options))
            frame = (reader.schema(schema) if schema else reader).load()
            writer = frame.writeStream.format("parquet").option("path", str(self.path))
            writer = writer.option("checkpointLocation", str(self.checkpoint)).trigger(
                **(trigger or {"availableNow": True})
            )
            query = writer.start()
            running.append(query)
            return query

        def run(self, trigger=None, **options):
            """Start and wait until the query has ended by itself."""
            query = self.start(trigger, **options)
            assert query.awaitTermination(180), "the query did not end"
            return query

        def values(self):
            """What the sink's log says was written: every value, in order. Without Spark, which is busy."""
            files = logged_files(self.path)
            return sorted(int(value) for path in files for value in pq.ParquetFile(path).read(["value"])[0].to_pylist())

        def undo_last_commit(self):
            """As if the driver had died after planning its last batch: neither query nor sink has finished it."""
            for log in (self.checkpoint / "commits", self.path / "_spark_metadata"):
                newest = max(path for path in log.iterdir() if path.name.isdecimal())
                for path in (newest, newest.with_name(f".{newest.name}.crc")):
                    path.unlink(missing_ok=True)

        def offsets(self):
            """What the newest entry of Spark's offset log says."""
            entries = [path for path in (self.checkpoint / "offsets").iterdir() if path.name.isdecimal()]
            return json.loads(max(entries, key=lambda path: int(path.name)).read_text().splitlines()[-1])

    running = []
    yield Table()
    for query in running:
        query.stop()


@pytest.fixture
def group_offsets(kafka):
    """`group_offsets(group, topic)`: what a group has committed, {partition: offset}."""

    def ask(group, topic, partitions=2):
        cluster = Cluster(parse_options(kafka.client_options() | {"subscribe": topic}).client)
        found = cluster.committed(group, [TopicPartition(topic, p) for p in range(partitions)])
        return {tp.partition: offset for tp, offset in found.items() if offset is not None}

    return ask


def test_a_restarted_query_goes_on_where_it_was(table, topic, produce):
    name = topic(partitions=2)
    produce(name, numbered(100))
    table.run(subscribe=name, startingOffsets="earliest")
    assert table.values() == list(range(100))
    produce(name, numbered(50, first=100))
    table.run(subscribe=name, startingOffsets="earliest")
    assert table.values() == list(range(150))
    table.run(subscribe=name, startingOffsets="earliest")
    assert table.values() == list(range(150))


def test_F10_restored_state_wins_over_every_start_option(table, topic, produce):
    name = topic(partitions=2)
    produce(name, numbered(10))
    table.run(subscribe=name, startingOffsets="earliest")
    produce(name, numbered(10, first=10))
    for start in ("latest", f'{{"{name}": 0}}'):
        table.run(subscribe=name, startingOffsets=start)
    assert table.values() == list(range(20))


def test_F12_a_query_that_was_started_once_on_another_topic_doubles_no_row(table, topic, produce):
    clicks, orders = topic(partitions=2), topic(partitions=2)
    produce(clicks, numbered(100))
    produce(orders, numbered(10, first=1000))
    table.run(subscribe=clicks, startingOffsets="earliest")
    wrong = table.start(subscribe=orders, startingOffsets="earliest")
    with pytest.raises(StreamingQueryException, match=f"offsets of '{clicks}'.*subscribe = {orders}"):
        wrong.awaitTermination(SOON)
    table.run(subscribe=orders, allowUnrelatedCheckpoint="true")
    produce(clicks, numbered(6, first=100))
    table.run(subscribe=clicks, startingOffsets="earliest")
    assert table.values() == [*range(106), *range(1000, 1010)]
    assert table.offsets() == {clicks: {"0": 53, "1": 53}, orders: {"0": 5, "1": 5}}


def test_F20_the_offset_log_is_that_of_sparks_own_source(table, topic, produce):
    name = topic(partitions=2)
    produce(name, numbered(5))
    table.run(subscribe=name, startingOffsets="earliest")
    assert table.offsets() == {name: {"0": 3, "1": 2}}


def test_a_running_query_gets_what_arrives_and_idles_in_between(table, topic, produce):
    name = topic(partitions=2)
    query = table.start({"processingTime": "0 seconds"}, subscribe=name)
    assert eventually(lambda: query.lastProgress is not None)
    for first in (0, 20, 40):
        produce(name, numbered(20, first=first))
        assert eventually(lambda upto=first + 20: table.values() == list(range(upto)))
    # The first one may be empty, it pins the start. How many there are is up to the moments at which records arrived.
    reported = [(progress.batchId, progress.numInputRows) for progress in query.recentProgress]
    batches = {number for number, rows in reported if rows}
    assert batches | {0} == set(range(max(batches) + 1)), f"an idle query made batches of nothing: {reported}"
    assert max(reported)[0] <= max(batches) + 1, f"an idle query made batches of nothing: {reported}"
    query.stop()
    assert query.exception() is None


def test_once_reads_all_there_is_in_one_batch(table, topic, produce):
    name = topic(partitions=2)
    produce(name, numbered(30))
    query = table.run({"once": True}, subscribe=name, startingTimestamp="0", maxOffsetsPerTrigger="4")
    assert table.values() == list(range(30))
    assert [progress.numInputRows for progress in query.recentProgress] == [30]


@pytest.mark.parametrize("option", ["startingTimestamp", "startingOffsets"])
def test_F10_a_relative_start_counts_for_a_new_query_only(table, topic, produce, option):
    name = topic(partitions=2, **{"retention.ms": "-1"})
    produce(name, [Rec(b"-1", timestamp=1, partition=n) for n in range(2)])
    produce(name, numbered(10))
    table.run(subscribe=name, **{option: "-1h"})
    assert table.values() == list(range(10))
    produce(name, numbered(10, first=10))
    # For the restarted query, -0s is after these records. Its checkpoint wins.
    table.run(subscribe=name, **{option: "-0s"})
    assert table.values() == list(range(20))


def test_a_limit_per_trigger_holds_for_every_trigger(table, topic, produce):
    name = topic(partitions=2)
    produce(name, numbered(100))
    query = table.run(subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger="30")
    assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [30, 30, 30, 10]
    assert table.values() == list(range(100))


def test_a_users_schema_names_the_columns_of_a_stream(table, topic, produce, spark):
    name = topic(partitions=2)
    produce(name, numbered(10))
    table.run(subscribe=name, startingOffsets="earliest", schema="offset LONG, value BINARY")
    assert spark.read.parquet(str(table.path)).columns == ["offset", "value"]
    assert table.values() == list(range(10))


def test_the_progress_has_the_newest_offsets(table, topic, produce):
    name = topic(partitions=2)
    produce(name, numbered(10))
    options = {"subscribe": name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "4"}
    query = table.run(**options, reportMetrics="false")
    first = next(progress for progress in query.recentProgress if progress.numInputRows)
    assert json.loads(first.sources[0].latestOffset) == {name: {"0": 5, "1": 5}}
    assert json.loads(first.sources[0].endOffset) == {name: {"0": 2, "1": 2}}


# --- F14, F15 ---------------------------------------------------------------------------------------------------------


def test_F15_a_pattern_that_matches_nothing_yet_runs_idle_and_takes_up_the_first_topic(table, kafka, produce):
    family = uuid.uuid4().hex[:8]
    query = table.start({"processingTime": "0 seconds"}, subscribePattern=f"{family}-.*", **EVERY_TRIGGER)
    assert eventually(lambda: query.lastProgress is not None)
    kafka.create_topic(f"{family}-first", 2)
    produce(f"{family}-first", numbered(10))
    assert eventually(lambda: table.values() == list(range(10)))


# --- F21 to F25: the group --------------------------------------------------------------------------------------------


def test_F21_a_finished_batch_is_committed_without_waiting_for_the_next(table, topic, produce, group_offsets):
    name, group = topic(partitions=2), uuid.uuid4().hex
    options = {"kafka.group.id": group, "kafka.auto.offset.reset": "earliest"}
    query = table.start({"processingTime": "0 seconds"}, subscribe=name, **options)
    produce(name, numbered(11))
    assert eventually(lambda: group_offsets(group, name) == {0: 6, 1: 5})
    assert table.values() == list(range(11)), "committed before it was durable"
    query.stop()


def test_F21_the_last_batch_of_a_bounded_run_is_committed_too_and_kafkas_own_tool_shows_the_lag(
    table, topic, produce, kafka, group_offsets
):
    name, group = topic(partitions=2), uuid.uuid4().hex
    produce(name, numbered(20))
    assert group_offsets(group, name) == {}  # which waits for a new broker to have coordinators: a query does not
    table.run(subscribe=name, startingOffsets="earliest", **{"kafka.group.id": group})
    assert group_offsets(group, name) == {0: 10, 1: 10}
    produce(name, numbered(7))
    assert described(kafka, group) == [[name, "0", "10", "14", "4"], [name, "1", "10", "13", "3"]]


def test_F21_a_stopped_query_has_committed_what_it_finished(table, topic, produce, group_offsets):
    name, group = topic(partitions=2), uuid.uuid4().hex
    options = {"kafka.group.id": group, "startingOffsets": "earliest"}
    query = table.start({"processingTime": "0 seconds"}, subscribe=name, **options)
    produce(name, numbered(9))
    assert eventually(lambda: len(table.values()) == 9)
    query.processAllAvailable()
    query.stop()
    assert eventually(lambda: group_offsets(group, name) == {0: 5, 1: 4})


def test_F21_nothing_is_committed_without_a_group_or_when_disabled(table, topic, produce, group_offsets):
    name, group = topic(partitions=2), uuid.uuid4().hex
    produce(name, numbered(4))
    options = {"kafka.group.id": group, "commitMode": "disabled", "startingOffsets": "earliest"}
    query = table.run(subscribe=name, **options)
    assert table.values() == list(range(4))
    assert group_offsets(group, name) == {}
    reported = json.loads(query.lastProgress.sources[0].latestOffset)["#penstock"]
    assert (reported["commitsSucceeded"], reported["committedOffsets"]) == (0, {})


def test_F21_periodic_commits_every_interval(table, topic, produce, group_offsets):
    name, group = topic(partitions=2), uuid.uuid4().hex
    options = {
        "kafka.group.id": group,
        "commitMode": "periodic",
        "kafka.auto.commit.interval.ms": "300",
        "startingOffsets": "earliest",
    }
    query = table.start({"processingTime": "0 seconds"}, subscribe=name, **options)
    produce(name, numbered(6))
    assert eventually(lambda: group_offsets(group, name) == {0: 3, 1: 3})
    query.stop()


def test_F25_a_failing_commit_is_counted_and_never_fails_the_query(table, topic, produce, kafka, group_offsets):
    name, group = topic(partitions=2), uuid.uuid4().hex
    member = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    member.subscribe([name])
    try:
        assert eventually(lambda: member.poll(0.2) or member.assignment())
        query = table.start(
            {"processingTime": "0 seconds"}, subscribe=name, startingOffsets="earliest", **{"kafka.group.id": group}
        )
        produce(name, numbered(8))
        assert eventually(lambda: table.values() == list(range(8)))

        def reported():
            member.poll(0)
            produce(name, numbered(1, first=100))
            latest = query.lastProgress and query.lastProgress.sources[0].latestOffset
            return latest and json.loads(latest)["#penstock"]["commitsFailed"] > 0

        assert eventually(reported)
        assert query.isActive
    finally:
        member.close()


def test_F25_the_groups_offsets_are_never_used_to_recover_a_checkpointed_query(table, topic, produce, operator):
    name, group = topic(partitions=2), uuid.uuid4().hex
    produce(name, numbered(10))
    options = {"subscribe": name, "startingOffsets": "earliest", "kafka.group.id": group}
    table.run(**options)
    operator.commit(group, name, {0: 0, 1: 1})
    produce(name, numbered(2, first=10))
    table.run(subscribe=name, **{"kafka.group.id": group})
    assert table.values() == list(range(12))


def test_a_restart_commits_what_the_last_run_could_not(table, topic, produce, operator, group_offsets):
    name, group = topic(partitions=2), uuid.uuid4().hex
    produce(name, numbered(10))
    assert group_offsets(group, name) == {}  # as above
    table.run({"once": True}, subscribe=name, startingOffsets="earliest", **{"kafka.group.id": group})
    table.run(subscribe=name, startingOffsets="earliest", **{"kafka.group.id": group})
    assert group_offsets(group, name) == {0: 5, 1: 5}


# --- exactly once -----------------------------------------------------------------------------------------------------


def test_F18_a_batch_that_was_planned_but_not_finished_is_replayed_as_planned(table, topic, produce):
    name = topic(partitions=2)
    produce(name, numbered(10))
    table.run(subscribe=name, startingOffsets="earliest")
    produce(name, numbered(10, first=10))
    table.run(subscribe=name, startingOffsets="earliest")
    table.undo_last_commit()
    produce(name, numbered(10, first=20))
    query = table.run(subscribe=name, startingOffsets="earliest")
    assert table.values() == list(range(30))
    assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [10, 10]


def test_F3_records_that_are_left_out_move_the_offsets_on_and_never_come_back(table, topic, produce, transaction):
    name = topic()
    produce(name, numbered(3, partitions=1))
    with transaction(uuid.uuid4().hex, commit=False) as send:
        send(name, numbered(4, partitions=1, first=100))
    produce(name, numbered(2, partitions=1, first=3))
    options = {"subscribe": name, "startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}
    table.run(**options)
    assert table.values() == list(range(5))
    assert table.offsets() == {name: {"0": 10}}  # four aborted records and the marker that says so
    table.run(**options)
    assert table.values() == list(range(5))


def test_F4_a_stream_with_an_end_ends_cleanly_there_and_its_state_is_saved(table, topic, produce):
    name = topic(partitions=2)
    produce(name, numbered(10))
    options = {"subscribe": name, "startingOffsets": "earliest", "endingOffsets": f'{{"{name}": {{"0": 3, "1": 2}}}}'}
    query = table.run(**options)
    assert query.exception() is None
    assert table.values() == [0, 1, 2, 3, 4]
    assert table.offsets() == {name: {"0": 3, "1": 2}}
    table.run(**options)
    assert table.values() == [0, 1, 2, 3, 4]
    table.run(subscribe=name)
    assert table.values() == list(range(10))


def test_F19_event_time_is_the_records_own_timestamp(table, topic, produce, spark):
    name = topic()
    noon = 1_738_324_800_000
    produce(name, [Rec(b"%d" % n, timestamp=noon + n * 1000) for n in range(3)])
    table.run(subscribe=name, startingOffsets="earliest")
    seen = spark.read.parquet(str(table.path)).selectExpr("unix_millis(timestamp) AS at").collect()
    assert sorted(row.at - noon for row in seen) == [0, 1000, 2000]


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": '{"t": '}, "is not JSON"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "is not a whole number of at least -2"),
        ({"maxOffsetsPerTriger": "5"}, "Did you mean maxOffsetsPerTrigger?"),
        ({"subscribePattern": "a.*"}, "only one of subscribe, subscribePattern, assign may be set"),
        ({"commitMode": "on-checkpoint"}, "Set kafka.group.id"),
        ({"endingOffsets": '{"t": -2}'}, "the end cannot be the beginning"),
    ],
)
def test_F1_a_wrong_option_fails_when_the_stream_is_made(spark, kafka, options, words):
    with pytest.raises(AnalysisException) as caught:
        spark.readStream.format("penstock").options(**kafka.client_options(), subscribe="t", **options).load()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": '{"TOPIC": {"0": 1, "9": 1}}'}, "which the subscription does not have"),
        ({"startingOffsets": '{"TOPIC": {"0": 99, "1": 0}}'}, "wanted from offset 99, the broker has offsets 0 to 5"),
        (
            {"kafka.bootstrap.servers": "127.0.0.1:9", "kafka.default.api.timeout.ms": "1000"},
            "not done within 1 s",
        ),
    ],
)
def test_what_only_the_broker_can_know_fails_the_query_with_the_reason(table, topic, produce, options, words):
    name = topic(partitions=2)
    produce(name, numbered(10))
    options = {key: value.replace("TOPIC", name) for key, value in options.items()}
    query = table.start(**({"subscribe": name} | options))
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(SOON)
    assert words in str(caught.value)


def test_F27_data_loss_fails_the_query_and_says_the_way_out(table, topic, produce, operator):
    name = topic(partitions=2)
    produce(name, numbered(20))
    table.run(subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger="4", endingOffsets=f'{{"{name}": 2}}')
    operator.delete_records(name, {0: 7, 1: 6})
    query = table.start(subscribe=name)
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(SOON)
    assert f"{name}-0: wanted from offset 2, the broker has offsets from 7" in str(caught.value)
    assert f"{name}-1: wanted from offset 2, the broker has offsets from 6" in str(caught.value)
    assert "set option failOnDataLoss to false" in str(caught.value)
    table.run(subscribe=name, failOnDataLoss="false")
    assert table.values() == [0, 1, 2, 3, *sorted([*range(14, 20, 2), *range(13, 20, 2)])]


# --- F17: nothing is left behind --------------------------------------------------------------------------------------


def planners(spark):
    """Process ids of stream readers under this session's JVM."""
    jvm = spark.sparkContext._gateway.proc.pid
    listed = subprocess.run(["ps", "-ww", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()[1:]]
    children = {int(pid): (int(ppid), args) for pid, ppid, args in rows}

    def under(pid):
        while pid in children:
            if pid == jvm:
                return True
            pid = children[pid][0]
        return False

    return [pid for pid, (_, args) in children.items() if "python_streaming_source_runner" in args and under(pid)]


def test_F17_a_stopped_query_leaves_no_process(table, topic, produce, spark):
    name = topic(partitions=2)
    assert eventually(lambda: not planners(spark)), "those of queries that were stopped before may take a moment to end"
    options = {"kafka.group.id": uuid.uuid4().hex, "startingOffsets": "earliest"}
    query = table.start({"processingTime": "0 seconds"}, subscribe=name, **options)
    produce(name, numbered(4))
    assert eventually(lambda: len(table.values()) == 4)
    assert len(planners(spark)) == 1
    query.stop()
    assert eventually(lambda: not planners(spark))


def test_F17_a_planner_that_dies_fails_the_query_and_not_in_silence(table, topic, produce, spark):
    name = topic(partitions=2)
    assert eventually(lambda: not planners(spark)), "else the one that is killed below may be another query's"
    query = table.start({"processingTime": "0 seconds"}, subscribe=name, startingOffsets="earliest")
    produce(name, numbered(4))
    assert eventually(lambda: len(table.values()) == 4)
    [planner] = planners(spark)
    os.kill(planner, signal.SIGKILL)
    with pytest.raises(StreamingQueryException):
        query.awaitTermination(SOON)


def test_each_record_comes_once_from_ranges_that_were_split(table, topic, produce):
    name = topic(partitions=2)
    produce(name, numbered(1000))
    options = {"minPartitions": "7", "maxRecordsPerPartition": "90", "maxOffsetsPerTrigger": "400"}
    table.run(subscribe=name, startingOffsets="earliest", **options)
    counted = Counter(table.values())
    assert set(counted) == set(range(1000))
    assert set(counted.values()) == {1}
