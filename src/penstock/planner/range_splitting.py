"""Splits the ranges of a batch among tasks, and orders them. Pure: no client, no clock, no Spark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise, zip_longest

from penstock.model.offset_range import OffsetRange
from penstock.model.reader_index import reader_index
from penstock.model.topic_partition import TopicPartition


def split(
    ranges: Iterable[OffsetRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Split ranges so that each has at most `max_records` offsets and there are about `min_partitions` of them.

    Drops empty ranges. As in Spark's Kafka source, large ranges are split in proportion to their size and small ones
    stay whole, so the count is approximate.
    """
    parts = [part for r in ranges if r.size > 0 for part in _parts(r, _ceil_div(r.size, max_records or r.size))]
    if min_partitions is None or len(parts) >= min_partitions:
        return parts
    total = sum(r.size for r in parts)
    small = {r for r in parts if _share(r.size, total, min_partitions) == 1}
    rest = total - sum(r.size for r in small)
    wanted = max(min_partitions - len(small), 1)
    return [part for r in parts for part in _parts(r, 1 if r in small else _share(r.size, rest, wanted))]


def _parts(r: OffsetRange, count: int) -> list[OffsetRange]:
    """`count` parts of nearly equal size, none empty."""
    count = min(count, r.size)
    edges = [r.start + r.size * i // count for i in range(count + 1)]
    return [replace(r, start=a, stop=b) for a, b in pairwise(edges)]


def _share(size: int, total: int, parts: int) -> int:
    return max((2 * size * parts + total) // (2 * total), 1)  # rounds half up, as Java's Math.round does


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def spread(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Order ranges by F13, so that neighbouring tasks read different partitions and each topic is spread evenly."""
    by_partition: dict[TopicPartition, list[OffsetRange]] = {}
    for r in sorted(ranges, key=lambda r: r.start):
        by_partition.setdefault(r.topic_partition, []).append(r)
    ordered = sorted(by_partition, key=lambda tp: (reader_index(tp.topic, tp.partition, len(by_partition)), tp))
    rounds = zip_longest(*(by_partition[tp] for tp in ordered))
    return [r for each in rounds for r in each if r is not None]
