"""Limits how much one trigger reads, and shares the limit among partitions. Pure: no client, no clock."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.config.stream import StreamOptions
from penstock.model.topic_partition import TopicPartition

ASSUMED_BYTES = 1000.0
"""The assumed size of a record before any was sampled: larger than most, so that a limit holds."""


@dataclass(slots=True)
class TriggerBudget:
    """Decides how many offsets each partition may read in each trigger. For one thread."""

    options: StreamOptions
    _credit: dict[TopicPartition, float] = field(default_factory=dict)
    _last_trigger: float | None = None

    def allow(
        self,
        backlog: Mapping[TopicPartition, int],
        bytes_per_record: Mapping[TopicPartition, float],
        now: float,
        wait: bool = True,
    ) -> dict[TopicPartition, int] | None:
        """Offsets to read per partition; None if there are too few and the trigger waits. `wait=False` never waits."""
        if wait and self._too_few(sum(backlog.values()), now):
            return None
        self._last_trigger = now
        limits = [self.options.max_offsets] if self.options.max_offsets is not None else []
        if self.options.max_bytes is not None:
            limits.append(offsets_in(self.options.max_bytes, backlog, bytes_per_record))
        if not limits:
            return dict(backlog)
        allowed, self._credit = share(min(limits), backlog, self._credit)
        return allowed

    def is_exceeded(self, available: int) -> bool:
        """Whether a trigger may have to leave some of these offsets for the next one."""
        most = self.options.max_offsets
        return self.options.max_bytes is not None or (most is not None and available > most)

    def _too_few(self, available: int, now: float) -> bool:
        if self.options.min_offsets is None or available >= self.options.min_offsets:
            return False
        # The first trigger does not wait, as in Spark's source.
        return self._last_trigger is not None and now - self._last_trigger < self.options.max_delay


def share(
    limit: int, backlog: Mapping[TopicPartition, int], credit: Mapping[TopicPartition, float]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, float]]:
    """Share `limit` offsets in proportion to the backlog, and return the credit for the next trigger.

    No partition starves. If the limit is at least the number of partitions, each gets one offset, taken from those with
    the most. Below that, a partition's rounding loss is its credit, which the next trigger pays first.
    """
    total = sum(backlog.values())
    if total <= limit:
        return dict(backlog), {}
    given: dict[TopicPartition, int] = {}
    owed: dict[TopicPartition, float] = {}
    for tp, size in backlog.items():
        given[tp], rest = divmod(limit * size, total)
        owed[tp] = credit.get(tp, 0.0) + rest / total
    left = limit - sum(given.values())  # less than one per partition
    for tp in sorted(owed, key=lambda tp: (-owed[tp], tp))[:left]:
        given[tp] += 1
        owed[tp] -= 1
    empty = [tp for tp, count in given.items() if count == 0]
    if empty and limit >= len(backlog):
        _take_from_largest(given, empty)
    return given, owed


def _take_from_largest(given: dict[TopicPartition, int], empty: list[TopicPartition]) -> None:
    largest = [(-count, tp) for tp, count in given.items()]
    heapq.heapify(largest)
    for tp in empty:
        count, donor = largest[0]
        heapq.heapreplace(largest, (count + 1, donor))
        given[donor] -= 1
        given[tp] = 1


def offsets_in(
    max_bytes: int, backlog: Mapping[TopicPartition, int], bytes_per_record: Mapping[TopicPartition, float]
) -> int:
    """How many offsets of the backlog, shared in proportion, are about `max_bytes`; at least one.

    A partition that was not sampled counts with the average of the others.
    """
    known = {tp: size for tp, size in backlog.items() if tp in bytes_per_record}
    known_bytes = sum(size * bytes_per_record[tp] for tp, size in known.items())
    average = known_bytes / sum(known.values()) if known_bytes else ASSUMED_BYTES
    return max(1, int(max_bytes / average))
