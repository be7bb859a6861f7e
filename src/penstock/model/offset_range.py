"""HOW MUCH one task reads: offset ranges, cut and ordered. Pure: no client, no clock, no Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest

from penstock.model.subscription import TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The unit of work: records of one partition with offsets in [start, stop). What an executor gets.

    `host`, `port` and `leader_epoch` say who led the partition when this was planned: a hint that saves the executor
    a question. `topic_id` tells a topic from one of the same name created later.
    """

    topic: str
    partition: int
    start: int
    stop: int
    topic_id: uuid.UUID | None = None
    host: str = ""
    port: int = 0
    leader_epoch: int = -1

    def __post_init__(self) -> None:
        if not self.topic:
            raise ValueError("an offset range needs a topic")
        if self.partition < 0:
            raise ValueError(f"partition {self.partition} of {self.topic!r} is below 0")
        if not 0 <= self.start <= self.stop:
            raise ValueError(f"offsets {self.start} to {self.stop} of {self.topic}-{self.partition} are no range")

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Offsets in the range: an upper bound of its records (compaction and transactions leave gaps)."""
        return self.stop - self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.stop})"


def split(
    ranges: Iterable[OffsetRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Cut ranges so that each has at most `max_records` offsets and there are about `min_partitions` of them.

    Empty ranges are dropped. As in Spark's Kafka source: the large ones are cut in proportion to their size, a small
    one is left whole, so the count is approximate.
    """
    cut = [part for r in ranges if r.size > 0 for part in _parts(r, _ceil_div(r.size, max_records or r.size))]
    if min_partitions is None or len(cut) >= min_partitions:
        return cut
    total = sum(r.size for r in cut)
    small = {r for r in cut if _share(r.size, total, min_partitions) == 1}
    rest = total - sum(r.size for r in small)
    wanted = max(min_partitions - len(small), 1)
    return [part for r in cut for part in _parts(r, 1 if r in small else _share(r.size, rest, wanted))]


def _parts(r: OffsetRange, count: int) -> list[OffsetRange]:
    """`count` parts of nearly equal size, none empty."""
    count = min(count, r.size)
    edges = [r.start + r.size * i // count for i in range(count + 1)]
    return [replace(r, start=a, stop=b) for a, b in pairwise(edges)]


def _share(size: int, total: int, parts: int) -> int:
    return max((2 * size * parts + total) // (2 * total), 1)  # half up, as Java's Math.round


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


def reader_index(topic: str, partition: int, readers: int) -> int:
    """F13: which of `readers` parallel readers a partition belongs to."""
    start = ((_java_hash(topic) * 31) & 0x7FFFFFFF) % readers
    return (start + partition) % readers


def _java_hash(text: str) -> int:
    """String.hashCode of Java: over UTF-16 units, kept to 32 bits."""
    value = 0
    units = text.encode("utf-16-be")
    for i in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[i : i + 2])) & 0xFFFFFFFF
    return value


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What a query's filters leave of a read: None and open ends leave everything."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    min_offset: int = 0
    max_offset: int | None = None
    min_timestamp: int | None = None
    """Milliseconds. There is no maximum: a younger record may stand before an older one, so a log cannot be cut short
    by time."""

    def keeps(self, tp: TopicPartition) -> bool:
        return (self.topics is None or tp.topic in self.topics) and (
            self.partitions is None or tp.partition in self.partitions
        )


EVERYTHING = Narrowing()


def narrow(
    start: Mapping[TopicPartition, int], stop: Mapping[TopicPartition, int], narrowing: Narrowing
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Starts and stops of what is left to read."""
    ceiling = None if narrowing.max_offset is None else narrowing.max_offset + 1
    kept = [tp for tp in start if narrowing.keeps(tp)]
    starts = {tp: max(start[tp], narrowing.min_offset) for tp in kept}
    stops = {tp: stop[tp] if ceiling is None else min(stop[tp], ceiling) for tp in kept}
    return starts, stops
