"""Whether a run begins at a record that ends the whole stream (F4)."""

from __future__ import annotations

import logging

import pytest

from penstock.config.source import parse_options
from penstock.model.task_report import TaskReport
from penstock.model.topic_partition import TopicPartition
from penstock.planner.end_check import WARNING_SECONDS, EndCheck
from penstock.planner.report_ledger import ReportLedger
from penstock.planner.stream import StreamPlanner
from support.fake_cluster import FakeCluster
from support.planned_stream import PlannedStream

A, B = TopicPartition("a", 0), TopicPartition("a", 1)


class Records:
    """The offsets of records that end a partition, and the partitions that cannot be read."""

    def __init__(self, ends=None, unreadable=()):
        self.ends, self.unreadable, self.asked = ends or {}, set(unreadable), []

    def ends_at(self, offsets):
        self.asked.append(dict(offsets))
        return {tp: None if tp in self.unreadable else self.ends.get(tp) == at for tp, at in offsets.items()}


def test_each_partition_is_looked_at_once():
    records = Records()
    check = EndCheck(records)
    assert not check.done
    assert check.look({A: 3, B: 4}, {A: 9, B: 9}) == {}
    assert check.done
    assert records.asked == [{A: 3, B: 4}]


def test_the_record_at_the_position_counts():
    assert EndCheck(Records({A: 3, B: 5})).look({A: 3, B: 4}, {A: 9, B: 9}) == {A: 3}


def test_a_partition_that_was_read_to_its_end_has_no_next_record():
    records = Records({A: 9})
    check = EndCheck(records)
    assert check.look({A: 9}, {A: 9}) == {}
    assert check.done
    assert records.asked == [{}]


def test_partitions_that_cannot_be_read_yet_are_looked_at_later(caplog):
    now, records = 0.0, Records({B: 4}, unreadable=[B])
    check = EndCheck(records, lambda: now)
    with caplog.at_level(logging.WARNING):
        assert check.look({A: 3, B: 4}, {B: 9}) == {}
        assert not check.done
        assert check.look({A: 3, B: 4}, {A: 9, B: 9}) == {}
    assert not check.done
    assert caplog.text.count("the next records of a-0, a-1 cannot be read") == 1
    records.unreadable, now = set(), WARNING_SECONDS
    assert check.look({A: 3, B: 4}, {A: 9, B: 9}) == {B: 4}
    assert check.done
    assert records.asked == [{B: 4}, {A: 3, B: 4}, {B: 4}]


def test_a_partition_that_is_gone_is_not_waited_for():
    check = EndCheck(Records(unreadable=[B]))
    check.look({A: 3, B: 4}, {A: 9, B: 9})
    check.look({A: 3}, {A: 9})
    assert check.done


# --- in the planner of a stream ---------------------------------------------------------------------------------------


@pytest.fixture
def cluster():
    fake = FakeCluster()
    fake.create("a", 10, 5)
    return fake


def stream(cluster, records, state=None, **options):
    given = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "a", "startingOffsets": "earliest"} | options
    ledger = ReportLedger()

    def make(clock):
        return StreamPlanner(
            parse_options(given),
            cluster,
            reports=ledger,
            deserializer_may_end=True,
            end_check=EndCheck(records, clock),
            clock=clock,
        )

    return PlannedStream(make, state), ledger


def test_F4_a_record_that_ends_one_partition_ends_the_stream(cluster):
    running, ledger = stream(cluster, Records(), maxOffsetsPerTrigger="6")
    assert running.trigger() == {A: (0, 4), B: (0, 2)}
    ledger.take(TaskReport("a", 0, 0, 4, ended_at=1))
    assert running.trigger() == {}
    assert running.state == {A: 1, B: 2}, "the others stay where the batch of the end has left them"
    assert running.planner.finished
    cluster.logs[B].end = 50
    assert running.run() == {}


def test_F4_a_restart_of_a_stream_that_has_ended_reads_nothing(cluster):
    running, _ = stream(cluster, Records({A: 1}), {A: 1, B: 2})
    assert running.run() == {}
    assert running.state == {A: 1, B: 2}
    assert running.planner.finished


def test_F4_a_restart_before_the_end_reads_on(cluster):
    running, _ = stream(cluster, Records({A: 3}), {A: 1, B: 2})
    assert running.run() == {A: list(range(1, 10)), B: [2, 3, 4]}


def test_F4_a_run_waits_for_the_next_records_of_all_partitions(cluster):
    cluster.logs[A].has_leader = False
    records = Records({A: 1})
    running, _ = stream(cluster, records, {A: 1, B: 2})
    assert running.run() == {}
    assert not running.planner.finished
    cluster.logs[A].has_leader = True
    assert running.run() == {}
    assert running.planner.finished


def test_F4_two_partitions_may_end_in_one_batch(cluster):
    running, ledger = stream(cluster, Records())
    running.trigger()
    ledger.take(TaskReport("a", 0, 0, 10, ended_at=7))
    ledger.take(TaskReport("a", 1, 0, 5, ended_at=0))
    assert running.run() == {}
    assert running.state == {A: 7, B: 0}
