"""Offset ranges: what one is, how many are cut, in which order."""

import itertools
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.narrowing import EVERYTHING, Narrowing, narrow
from penstock.model.offset_range import OffsetRange
from penstock.model.reader_index import reader_index
from penstock.model.topic_partition import TopicPartition
from penstock.planner.range_splitting import split, spread


@pytest.mark.parametrize("args", [("", 0, 0, 1), ("t", -1, 0, 1), ("t", 0, -1, 1), ("t", 0, 2, 1)])
def test_a_wrong_range_cannot_be_made(args):
    with pytest.raises(ValueError, match=r"range|below 0|needs a topic"):
        OffsetRange(*args)


def test_a_range_is_frozen_and_picklable():
    r = OffsetRange("t", 1, 2, 3, host="h", port=9, leader_epoch=4)
    assert pickle.loads(pickle.dumps(r)) == r
    with pytest.raises(AttributeError):
        r.start = 0
    assert str(r) == "t-1 [2, 3)"


ranges_of_partitions = st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**6)), min_size=0, max_size=12).map(
    lambda spans: [OffsetRange("t", i, start, start + size) for i, (start, size) in enumerate(spans)]
)
limits = st.one_of(st.none(), st.integers(1, 500))


@given(ranges_of_partitions, limits, st.one_of(st.none(), st.integers(1000, 10**7)))
def test_splitting_loses_nothing_repeats_nothing_and_keeps_the_limits(ranges, least, most):
    cut = split(ranges, least, most)
    assert all(r.size > 0 for r in cut)
    if most is not None:
        assert all(r.size <= most for r in cut)
    for whole in ranges:
        parts = [r for r in cut if r.topic_partition == whole.topic_partition]
        assert sum(r.size for r in parts) == whole.size
        if parts:
            assert parts[0].start == whole.start
            assert parts[-1].stop == whole.stop
        assert all(a.stop == b.start for a, b in itertools.pairwise(parts))
    offsets = sum(r.size for r in ranges)
    if least is not None and offsets > 100 * least:
        assert len(cut) >= least // 2


def test_few_partitions_are_cut_in_proportion_as_in_sparks_source():
    ranges = [OffsetRange("t", 0, 0, 1000), OffsetRange("t", 1, 0, 100), OffsetRange("t", 2, 0, 0)]
    assert [(r.partition, r.start, r.stop) for r in split(ranges, 5)] == [
        (0, 0, 250),
        (0, 250, 500),
        (0, 500, 750),
        (0, 750, 1000),
        (1, 0, 100),
    ]


def test_enough_partitions_are_left_whole():
    ranges = [OffsetRange("t", i, 0, 10) for i in range(4)]
    assert split(ranges, 4) == ranges
    assert split(ranges, None) == ranges


def test_max_records_cuts_first():
    ranges = split([OffsetRange("t", 0, 0, 25)], None, 10)
    assert [(r.start, r.stop) for r in ranges] == [(0, 8), (8, 16), (16, 25)]


@pytest.mark.parametrize(
    ("topic", "readers", "first"),
    # The hashes are what Java's String.hashCode gives for the names.
    [
        ("a", 4, (97 * 31) % 4),
        ("test-topic", 7, ((639758388 * 31) & 0x7FFFFFFF) % 7),
        ("größe😀", 7, ((423021364 * 31) & 0x7FFFFFFF) % 7),
    ],
)
def test_F13_partitions_go_round_the_readers_from_the_topics_own_start(topic, readers, first):
    assert [reader_index(topic, p, readers) for p in range(5)] == [(first + p) % readers for p in range(5)]


@given(st.text(min_size=1, max_size=20), st.integers(1, 50), st.integers(1, 200))
def test_F13_each_topic_is_spread_evenly(topic, readers, partitions):
    counts = [0] * readers
    for partition in range(partitions):
        counts[reader_index(topic, partition, readers)] += 1
    assert max(counts) - min(counts) <= 1


def test_F13_the_plan_interleaves_partitions_so_that_neighbours_differ():
    cut = split([OffsetRange("t", p, 0, 100) for p in range(3)], 9)
    ordered = spread(cut)
    assert sorted(ordered, key=str) == sorted(cut, key=str)
    assert [r.start for r in ordered] == [0] * 3 + [33] * 3 + [66] * 3
    assert all(a.partition != b.partition for a, b in itertools.pairwise(ordered))


A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_narrowing_leaves_what_the_filters_leave():
    start, stop = dict.fromkeys([A0, A1, B0], 10), dict.fromkeys([A0, A1, B0], 100)
    assert narrow(start, stop, EVERYTHING) == (start, stop)
    some = Narrowing(topics=frozenset({"a"}), partitions=frozenset({1, 5}), min_offset=20, max_offset=30)
    assert narrow(start, stop, some) == ({A1: 20}, {A1: 31})


def test_narrowing_beyond_the_log_leaves_nothing_to_read():
    starts, stops = narrow({A0: 10}, {A0: 100}, Narrowing(min_offset=500))
    assert starts[A0] >= stops[A0]
