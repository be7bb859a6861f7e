"""Where partitions stand before their next record."""

from __future__ import annotations

from penstock.model.topic_partition import TopicPartition
from penstock.planner.alignment.floors import Floors

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_floor_counts_at_its_position_only():
    floors = Floors()
    floors.set(A, 5, 100)
    assert floors.stands(A, None, {A: 5}) == 100
    assert floors.stands(A, 70, {A: 5}) == 100
    assert floors.stands(A, 130, {A: 5}) == 130
    assert floors.stands(A, 70, {A: 6}) == 70
    assert floors.stands(A, None, {A: 6}) is None


def test_floors_that_are_not_set_at_a_position_are_missing():
    floors = Floors()
    floors.set(A, 5, 100)
    assert floors.missing({A: 5, B: 0}) == {B: 0}
    assert floors.missing({A: 6}) == {A: 6}
    floors.forget(A)
    assert floors.missing({A: 5}) == {A: 5}
