"""Which next records are known, and which are looked up next."""

from __future__ import annotations

from penstock.model.topic_partition import TopicPartition
from penstock.monitor.record_times import PASSES, RecordTimes
from penstock.wire.lookup.next_records import NextRecord

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ENDS = {A: 100, B: 100}


def learned(answers):
    times = RecordTimes()
    for (tp, offset), timestamp in answers.items():
        times.learn({tp: offset}, {tp: NextRecord(True, timestamp)}, ENDS)
    return times


def test_the_nearest_earlier_record_bounds_an_unknown_one():
    times = learned({(A, 10): 1000, (A, 20): 2000, (A, 30): 3000})
    assert [times.earlier(A, offset) for offset in (5, 10, 11, 25, 99)] == [None, None, 1000, 2000, 3000]
    assert times.earlier(B, 99) is None
    times.learn({A: 40}, {A: NextRecord(True, 4000)}, ENDS)
    assert times.earlier(A, 99) == 4000


def test_offsets_that_no_group_is_at_are_forgotten_except_the_bounds():
    times = learned({(A, 10): 1000, (A, 20): 2000, (A, 30): 3000, (B, 1): 1})
    times.keep({A: {25, 30}})
    assert len(times) == 2
    assert (times.earlier(A, 25), times.record_at(A, 30, 100)) == (2000, NextRecord(True, 3000))
    assert times.earlier(B, 50) is None


def test_many_offsets_of_one_partition_take_turns_in_a_few_passes():
    times = RecordTimes()
    missing = {A: list(range(50)), B: [7]}
    passes = times.choose(missing, 100)
    assert len(passes) == PASSES
    assert passes[0].keys() == {A, B}
    assert len({each[A] for each in passes}) == PASSES
    others = times.choose(missing, 100)
    assert {each[A] for each in others} != {each[A] for each in passes}


def test_the_budget_limits_all_passes_together():
    passes = RecordTimes().choose({A: [1, 2, 3], B: [1, 2, 3]}, 3)
    assert sum(map(len, passes)) == 3
    assert RecordTimes().choose({A: [1]}, 0) == []
