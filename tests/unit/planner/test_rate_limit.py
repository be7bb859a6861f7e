"""How much one trigger reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.topic_partition import TopicPartition
from penstock.planner.rate_limit import ASSUMED_BYTES, TriggerBudget, offsets_in, share
from support.configs import stream_options

A, B, C = (TopicPartition("t", number) for number in range(3))
backlogs = st.dictionaries(
    st.integers(0, 40).map(lambda number: TopicPartition("t", number)), st.integers(1, 2**40), min_size=1
)


def test_a_limit_is_shared_in_proportion_to_the_backlog():
    assert share(100, {A: 900, B: 90, C: 10}, {})[0] == {A: 90, B: 9, C: 1}


def test_what_fits_is_taken_whole():
    assert share(100, {A: 60, B: 40}, {}) == ({A: 60, B: 40}, {})


@given(st.integers(1, 2**45), backlogs)
def test_no_more_than_the_limit_and_all_of_it_is_given(limit, backlog):
    given_, _ = share(limit, backlog, {})
    assert sum(given_.values()) == min(limit, sum(backlog.values()))
    assert all(0 <= given_[tp] <= backlog[tp] for tp in backlog)


@given(st.integers(1, 5), st.integers(2, 30))
def test_no_partition_starves_under_a_limit_below_the_number_of_partitions(limit, count):
    backlog = {TopicPartition("t", number): 1000 for number in range(count)}
    credit, read = {}, dict.fromkeys(backlog, 0)
    for _ in range(-(-count // limit) + 1):
        given_, credit = share(limit, backlog, credit)
        assert sum(given_.values()) <= limit
        read = {tp: read[tp] + given_[tp] for tp in read}
    assert min(read.values()) >= 1


def test_a_tiny_backlog_beside_a_huge_one_is_read_at_once():
    assert share(10_000, {A: 50_000_000, B: 20}, {})[0] == {A: 9_999, B: 1}


@given(st.integers(1, 2**45), backlogs)
def test_each_partition_gets_one_if_there_is_one_for_each(limit, backlog):
    given_, _ = share(limit, backlog, {})
    if limit >= len(backlog):
        assert min(given_.values()) >= 1


def test_bytes_become_offsets_by_the_weight_of_what_comes_next():
    assert offsets_in(1000, {A: 100}, {A: 10.0}) == 100
    assert offsets_in(1000, {A: 100, B: 100}, {A: 10.0, B: 30.0}) == 50


def test_an_unseen_partition_counts_as_the_average_and_nothing_seen_counts_as_heavy():
    assert offsets_in(1000, {A: 100, B: 1}, {A: 10.0}) == 100
    assert offsets_in(10_000, {A: 100}, {}) == 10_000 / ASSUMED_BYTES


def test_a_byte_limit_below_one_record_still_moves_on():
    assert offsets_in(1, {A: 100}, {A: 5000.0}) == 1


def test_the_smaller_of_two_limits_counts():
    budget = TriggerBudget(stream_options(max_offsets=10, max_bytes=1000))
    assert budget.allow({A: 100}, {A: 10.0}, now=0) == {A: 10}
    assert budget.allow({A: 100}, {A: 500.0}, now=0) == {A: 2}


def test_without_a_limit_everything_is_read():
    assert TriggerBudget(stream_options()).allow({A: 5, B: 7}, {}, now=0) == {A: 5, B: 7}


def test_a_minimum_waits_but_not_longer_than_the_delay_and_not_the_first_time():
    budget = TriggerBudget(stream_options(min_offsets=100, max_delay=60))
    assert budget.allow({A: 5}, {}, now=1000) == {A: 5}
    assert budget.allow({A: 5}, {}, now=1059) is None
    assert budget.allow({A: 5}, {}, now=1060) == {A: 5}
    assert budget.allow({A: 60, B: 40}, {}, now=1061) == {A: 60, B: 40}


def test_a_run_that_must_end_does_not_wait():
    budget = TriggerBudget(stream_options(min_offsets=100, max_delay=60))
    assert budget.allow({A: 5}, {}, now=0) is not None
    assert budget.allow({A: 5}, {}, now=1, wait=False) == {A: 5}


@pytest.mark.parametrize("limit", [1, 7, 100])
def test_a_backlog_is_read_up_within_the_triggers_it_needs(limit):
    backlog, credit, triggers = {A: 40, B: 3, C: 17}, {}, 0
    while sum(backlog.values()):
        given_, credit = share(limit, backlog, credit)
        backlog = {tp: size - given_[tp] for tp, size in backlog.items()}
        triggers += 1
    assert triggers == -(-60 // limit)
