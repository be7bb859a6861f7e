"""Where the ranges of a stream's batch start."""

from __future__ import annotations

from penstock.model.topic_partition import TopicPartition
from penstock.planner.losses import Loss
from penstock.planner.stream_batch import first_offsets

A = TopicPartition("t", 0)


def test_a_batch_starts_at_the_offset_of_the_log():
    assert first_offsets({A: 5}, {A: 0}, {A: 9}) == ({A: 5}, [])


def test_F11_a_new_partition_starts_at_its_first_offset():
    assert first_offsets({A: None}, {A: 3}, {A: 9}) == ({A: 3}, [])


def test_F27_records_that_retention_has_deleted_are_lost():
    assert first_offsets({A: 5}, {A: 7}, {A: 9}) == ({A: 7}, [Loss(A, "from offset 5", "offsets from 7")])


def test_F27_a_range_that_retention_has_deleted_is_empty():
    first, lost = first_offsets({A: 5}, {A: 20}, {A: 9})
    assert first == {A: 9}
    assert len(lost) == 1
