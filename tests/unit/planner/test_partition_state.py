"""The states of partitions that are not simply read on, and how they follow each other."""

from __future__ import annotations

import uuid

from penstock.model.topic_partition import TopicPartition
from penstock.planner.partition_state import Deleted, Dropped, Moving, PartitionStates, Recreated

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ID = uuid.UUID(int=1)


def test_a_partition_without_a_state_is_read_on():
    states = PartitionStates()
    assert states.get(A) is None
    assert not states.is_changing(A)
    assert states.without_deleted({A: 5}) == {A: 5}
    assert states.without_changing({A: 5}) == {A: 5}


def test_a_deleted_partition_is_dropped_when_the_offset_log_no_longer_has_it():
    states = PartitionStates()
    states.delete(A, 5, ID)
    states.acknowledge({A: 5})
    assert states.get(A) == Deleted(5, ID)
    assert states.without_deleted({A: 5, B: 7}) == {B: 7}
    states.acknowledge({B: 7})
    assert states.get(A) == Dropped(5, ID)
    assert states.dropped_among([A, B]) == {A: Dropped(5, ID)}


def test_a_dropped_partition_that_the_log_has_again_is_read_on():
    states = PartitionStates()
    states.delete(A, 5, ID)
    states.acknowledge({})
    states.acknowledge({A: 0})
    assert states.get(A) is None


def test_a_move_ends_when_the_offset_log_records_it():
    states = PartitionStates()
    states.move({A: 3, B: 0})
    states.acknowledge({A: 9})
    assert states.moves == {A: 3, B: 0}
    states.acknowledge({A: 3})
    assert states.moves == {B: 0}


def test_a_recreated_partition_moves_once_its_first_offset_is_known():
    states = PartitionStates()
    states.recreate([A])
    states.acknowledge({A: 9})
    assert states.recreated == {A}
    assert states.is_changing(A)
    states.move({A: 2})
    assert states.get(A) == Moving(2)
    assert states.recreated == frozenset()


def test_a_partition_has_one_state_at_a_time():
    states = PartitionStates()
    states.move({A: 3})
    states.delete(A, 5, ID)
    assert states.moves == {}
    states.recreate([A])
    assert states.get(A) == Recreated()
    assert states.deleted_among([A]) == {}


def test_a_deleted_partition_that_is_listed_again_can_be_read_on():
    states = PartitionStates()
    states.delete(A, 5, ID)
    assert states.deleted_among([A, B]) == {A: Deleted(5, ID)}
    states.read_on(A)
    assert states.get(A) is None
