"""Which part of a read a query's filters leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.model.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Narrowing:
    """The part of a read that a query's filters leave. None and open ends leave everything."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    min_offset: int = 0
    max_offset: int | None = None
    min_timestamp: int | None = None
    """Milliseconds. There is no maximum: a newer record may precede an older one, and a log cannot be cut by time."""

    def keeps(self, tp: TopicPartition) -> bool:
        return (self.topics is None or tp.topic in self.topics) and (
            self.partitions is None or tp.partition in self.partitions
        )


EVERYTHING = Narrowing()


def narrow(
    start: Mapping[TopicPartition, int], stop: Mapping[TopicPartition, int], narrowing: Narrowing
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """The starts and stops that are left to read."""
    ceiling = None if narrowing.max_offset is None else narrowing.max_offset + 1
    kept = [tp for tp in start if narrowing.keeps(tp)]
    starts = {tp: max(start[tp], narrowing.min_offset) for tp in kept}
    stops = {tp: stop[tp] if ceiling is None else min(stop[tp], ceiling) for tp in kept}
    return starts, stops
