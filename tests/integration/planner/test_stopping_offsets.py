"""F4: a deserializer ends partitions of a stream, reported by its tasks. The `stream` fixture plays Spark's part."""

from __future__ import annotations

import pytest

from fixtures.stream import EVERY_TRIGGER, records, tp
from penstock.errors import DataLoss
from penstock.model.task_report import TaskReport
from penstock.planner.report_ledger import ReportLedger
from penstock.planner.stream import StreamPlanner


@pytest.fixture
def ending(stream):
    """A stream whose tasks find an end at these offsets of its topic: `ending({0: 4}, subscribe=...)`."""

    def make(found, state=None, **options):
        running = stream(state=state, **options)
        ledger = ReportLedger()
        running.planner = StreamPlanner.connect(
            running.planner.options, clock=running.now, reports=ledger, deserializer_may_end=True
        )
        planned = running.planner.ranges

        def ranges(start, end):
            """Plan, and do what the tasks do."""
            batch = planned(start, end)
            for each in batch:
                at = found.get(each.partition)
                if at is not None and each.start <= at < each.stop:
                    ledger.take(TaskReport(each.topic, each.partition, each.start, each.stop, ended_at=at))
            return batch

        running.planner.ranges = ranges
        return running

    return make


def test_F4_the_stream_goes_back_to_the_record_that_ended_it_and_stays_there(ending, two, produce):
    running = ending({0: 4}, subscribe=two, startingOffsets="earliest")
    assert running.trigger() == {tp(two): (0, 10), tp(two, 1): (0, 5)}
    assert running.state == {tp(two): 10, tp(two, 1): 5}
    assert running.trigger() == {}
    assert running.state == {tp(two): 4, tp(two, 1): 5}
    produce(two, records(3) + records(2, partition=1))
    assert running.trigger() == {tp(two, 1): (5, 7)}
    assert running.state == {tp(two): 4, tp(two, 1): 7}
    assert running.planner.finished is False


def test_F4_it_has_finished_when_every_partition_has_ended(ending, two, produce):
    found = {0: 4}
    running = ending(found, subscribe=two, startingOffsets="earliest")
    running.run()
    assert running.planner.finished is False
    found[1] = 5
    produce(two, records(3, partition=1))
    running.run()
    assert running.state == {tp(two): 4, tp(two, 1): 5}
    assert running.planner.finished is True
    produce(two, records(3))
    assert running.run() == {}


def test_F4_committed_offsets_are_not_past_the_end(ending, two):
    running = ending({0: 4}, subscribe=two, startingOffsets="earliest")
    running.trigger()
    running.planner.latest(dict(running.state))
    assert running.planner.restored(running.state) == {tp(two): 4, tp(two, 1): 5}


def test_F4_a_restarted_query_meets_the_end_again_first(ending, two):
    running = ending({0: 4, 1: 0}, subscribe=two, startingOffsets="earliest")
    running.run()
    assert running.planner.finished
    again = ending({0: 4, 1: 0}, state=running.state, subscribe=two)
    assert again.trigger() == {tp(two): (4, 10), tp(two, 1): (0, 5)}
    assert not again.planner.finished
    again.trigger()
    assert again.state == running.state
    assert again.planner.finished


def test_F4_a_batch_that_is_replayed_ends_the_partition_too(ending, two):
    running = ending({0: 4}, state={tp(two): 2, tp(two, 1): 5}, subscribe=two)
    replayed = {tp(two): 8, tp(two, 1): 5}
    assert running.ranges(running.state, replayed) == {tp(two): (2, 8)}
    running.state = replayed
    assert running.run() == {}
    assert running.state == {tp(two): 4, tp(two, 1): 5}


def test_F4_available_now_reads_nothing_beyond_the_end_either(ending, two):
    running = ending({0: 4}, subscribe=two, startingOffsets="earliest", maxOffsetsPerTrigger="9")
    running.planner.prepare_for_available_now()
    assert max(running.run()[tp(two)]) < 9, "the rest of the partition was not planned"
    assert running.state == {tp(two): 4, tp(two, 1): 5}
    assert running.planner.at_the_end(running.state, running.planner.latest(dict(running.state)))


def test_F4_an_end_comes_into_the_log_without_waiting_for_more_records(ending, two):
    running = ending({0: 4}, subscribe=two, startingOffsets="earliest", minOffsetsPerTrigger="1000")
    assert running.trigger() == {tp(two): (0, 10), tp(two, 1): (0, 5)}
    running.trigger()
    assert running.state == {tp(two): 4, tp(two, 1): 5}


def test_F4_a_partition_that_may_end_is_not_split(ending, two, caplog):
    options = {"minPartitions": "7", "maxRecordsPerPartition": "2"}
    running = ending({}, subscribe=two, startingOffsets="earliest", **options)
    assert running.trigger() == {tp(two): (0, 10), tp(two, 1): (0, 5)}
    assert "minPartitions and maxRecordsPerPartition have no effect" in caplog.text


def test_F4_a_recreated_topic_has_not_ended(ending, topic, produce, operator):
    name = topic()
    produce(name, records(10))
    options = {"failOnDataLoss": "false", **EVERY_TRIGGER}
    running = ending(found := {0: 4}, subscribe=name, startingOffsets="earliest", **options)
    running.run()
    assert running.planner.finished
    operator.recreate(name)
    produce(name, records(8))
    found.clear()
    assert running.run() == {tp(name): list(range(8))}
    assert running.planner.finished is False


def test_F27_a_record_that_ended_a_partition_and_is_gone_is_lost_like_any_other(ending, two, operator):
    running = ending({0: 4}, subscribe=two, startingOffsets="earliest")
    running.run()
    operator.delete_records(two, {0: 6})
    assert running.run() == {}, "a query that runs needs it no more"
    with pytest.raises(DataLoss, match="wanted from offset 4, the broker has offsets from 6"):
        ending({0: 4}, state=running.state, subscribe=two).trigger()
