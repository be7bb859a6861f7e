"""Splits the ranges of a batch among tasks, and orders them. Pure: no client, no clock, no Spark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise, zip_longest
from operator import attrgetter

from penstock.model.offset_range import OffsetRange
from penstock.model.reader_index import reader_index


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
    is_small = [_share(r.size, total, min_partitions) == 1 for r in parts]
    rest = sum(r.size for r, small in zip(parts, is_small, strict=True) if not small)
    wanted = max(min_partitions - sum(is_small), 1)
    counts = [1 if small else _share(r.size, rest, wanted) for r, small in zip(parts, is_small, strict=True)]
    return [part for r, count in zip(parts, counts, strict=True) for part in _parts(r, count)]


def _parts(r: OffsetRange, count: int) -> list[OffsetRange]:
    """`count` parts of nearly equal size, none empty."""
    count = min(count, r.size)
    if count == 1:
        return [r]
    edges = [r.start + r.size * i // count for i in range(count + 1)]
    return [replace(r, start=a, stop=b) for a, b in pairwise(edges)]


def _share(size: int, total: int, parts: int) -> int:
    return max((2 * size * parts + total) // (2 * total), 1)  # rounds half up, as Java's Math.round does


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def spread(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Order ranges by F13, so that neighbouring tasks read different partitions and each topic is spread evenly."""
    by_partition: dict[tuple[str, int], list[OffsetRange]] = {}
    for r in sorted(ranges, key=attrgetter("start")):
        by_partition.setdefault((r.topic, r.partition), []).append(r)
    readers = len(by_partition)
    # The reader of a topic's first partition, once per topic: hashing its name takes longer than the rest.
    first = {topic: reader_index(topic, 0, readers) for topic in {topic for topic, _ in by_partition}}
    ordered = sorted([((first[topic] + number) % readers, topic, number) for topic, number in by_partition])
    rounds = zip_longest(*(by_partition[topic, number] for _, topic, number in ordered))
    return [r for each in rounds for r in each if r is not None]
