"""The limits that follow from where partitions stand (E4)."""

from __future__ import annotations

from penstock.model.topic_partition import TopicPartition
from penstock.planner.alignment.drift import EVERYTHING, NOTHING, limits_of

A, B, C = (TopicPartition("t", number) for number in range(3))


def test_E4_all_may_be_the_drift_ahead_of_the_slowest_and_the_slowest_ahead_of_the_next():
    limits = limits_of({A: 100, B: 40, C: 70}, drift=10)
    assert [limits.of(tp) for tp in (A, B, C)] == [50, 80, 50]


def test_E4_a_partition_alone_has_no_limit():
    assert limits_of({A: 100}, drift=10).of(A) == EVERYTHING


def test_E4_without_active_partitions_there_is_no_limit():
    assert limits_of({}, drift=10).of(A) == EVERYTHING


def test_E4_a_partition_whose_watermark_is_unknown_holds_back_all_others():
    limits = limits_of({A: 100, B: None}, drift=10)
    assert limits.of(A) == NOTHING
    assert limits.of(B) == 110


def test_E4_partitions_of_unknown_watermarks_hold_back_each_other():
    limits = limits_of({A: None, B: NOTHING}, drift=10)
    assert limits.of(A) == limits.of(B) == NOTHING
