"""The order in which a search reads partitions, over plain values."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.newest_first import NewestFirst, Window
from penstock.model.topic_partition import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_windows_grow_backwards_to_the_beginning():
    order = NewestFirst({A: 3}, {A: 20}, {A: None}, 2, 9)
    found = []
    while (window := order.next()) is not None:
        found.append((window.start, window.stop))
        order.was_read(window, 100)
    assert found == [(18, 20), (10, 18), (3, 10)]
    assert order.newest_unread is None


def test_the_partition_with_the_newest_unread_records_is_next():
    order = NewestFirst({A: 0, B: 0}, {A: 10, B: 10}, {A: 50, B: 90}, 5, 5)
    assert order.next() == Window(B, 5, 10)
    order.was_read(Window(B, 5, 10), 40)
    assert (order.next(), order.newest_unread) == (Window(A, 5, 10), 50)


def test_partitions_whose_time_is_unknown_come_first():
    order = NewestFirst({A: 0, B: 0}, {A: 10, B: 10}, {A: 50, B: None}, 5, 5)
    assert (order.next(), order.newest_unread) == (Window(B, 5, 10), inf)


def test_a_window_without_records_says_nothing_about_time():
    order = NewestFirst({A: 0, B: 0}, {A: 10, B: 10}, {A: 50, B: 90}, 5, 5)
    order.was_read(Window(B, 5, 10), None)
    assert (order.next(), order.newest_unread) == (Window(B, 0, 5), 90)


def test_empty_partitions_are_not_read():
    assert NewestFirst({A: 7}, {A: 7}, {A: None}, 5, 5).next() is None


@given(
    st.lists(st.lists(st.integers(0, 50), max_size=20).map(sorted), min_size=1, max_size=5),
    st.integers(1, 6),
    st.integers(1, 4),
)
def test_where_timestamps_rise_the_newest_records_are_found_exactly(logs, limit, size):
    """As the search does it: until `limit` records are as new as every unread one."""
    times = {TopicPartition("t", at): log for at, log in enumerate(logs)}
    latest = {tp: log[-1] if log else None for tp, log in times.items()}
    order = NewestFirst(dict.fromkeys(times, 0), {tp: len(log) for tp, log in times.items()}, latest, size, 8)
    found: list[int] = []
    while (window := order.next()) is not None:
        if len(found) == limit and found[-1] >= order.newest_unread:
            break
        read = times[window.tp][window.start : window.stop]
        found = sorted(found + read, reverse=True)[:limit]
        order.was_read(window, read[0])
    assert found == sorted((at for log in logs for at in log), reverse=True)[:limit]
