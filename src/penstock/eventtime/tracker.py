"""Tracks the event-time watermark of each partition, and the combined one (E2, E3, E4).

A new partition is active and has no event-time watermark, so that it holds back all others until one is known. Records
that are read raise its watermark. While there is nothing to read (`has_none`), its idle clock runs. After the idleness
timeout the partition is idle and no longer holds back others. Records, read or only known to exist, make it active
again. In this file a mark is an event-time watermark.

Only `has_none` starts the idle clock. A partition that is not read because it is ahead, or because its reader is busy,
still has records: if it were idle, others would pass them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.model.topic_partition import TopicPartition

UNKNOWN = -(2**63)
"""Below every event time: the mark of a partition without one."""


@dataclass(frozen=True, slots=True)
class PartitionEventTime:
    """The event-time watermark of one partition, in milliseconds since the epoch, and whether it is idle or held
    back."""

    watermark: int | None
    idle: bool
    held: bool


@dataclass(frozen=True, slots=True)
class EventTimeStatus:
    """The event-time watermarks of a source, in milliseconds since the epoch; None while unknown."""

    combined: int | None
    partitions: Mapping[TopicPartition, PartitionEventTime]

    @property
    def idle(self) -> list[TopicPartition]:
        return sorted(tp for tp, partition in self.partitions.items() if partition.idle)

    @property
    def held(self) -> list[TopicPartition]:
        return sorted(tp for tp, partition in self.partitions.items() if partition.held)


@dataclass(slots=True)
class _Partition:
    mark: int = UNKNOWN
    quiet_since: float | None = None
    finished: bool = False
    queued: bool = False
    """Whether the tracker's heap has an entry for it: at most one."""


class WatermarkTracker:
    """Event-time watermarks of some partitions. Times are milliseconds since the epoch, `now` is seconds of a monotonic
    clock.

    For one thread, or under its owner's lock. Calls for a partition that the tracker does not have are ignored: records
    may still arrive after a partition was revoked.

    A call costs O(log partitions) on average; only `set_partitions` and `status` visit each of them. The heap has an
    entry per active partition, which is a lower bound of its mark: marks only grow, so an entry is corrected when it
    comes to the top, not each time a batch is read.
    """

    def __init__(self, idleness: float | None, max_drift: int | None) -> None:
        self._idleness = idleness
        self._max_drift = max_drift
        self._combined = UNKNOWN
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._heap: list[tuple[int, TopicPartition]] = []
        self._now = float("-inf")

    def set_partitions(self, partitions: Iterable[TopicPartition], now: float) -> None:
        """Replace the partitions. New ones are active and have no mark; missing ones are forgotten."""
        self._advance(now)
        wanted = set(partitions)
        if wanted == self._partitions.keys():
            return
        self._partitions = {tp: self._partitions.get(tp) or _Partition() for tp in wanted}
        self._heap = []
        for tp, partition in self._partitions.items():
            partition.queued = not self._is_idle(partition)
            if partition.queued:
                self._heap.append((partition.mark, tp))
        heapq.heapify(self._heap)

    def observe(self, tp: TopicPartition, watermark: int | None, now: float) -> None:
        """Records of the partition were read. `watermark`: the one that follows from them, if any."""
        self._advance(now)
        partition = self._partitions.get(tp)
        if partition is not None:
            if watermark is not None:
                partition.mark = max(partition.mark, watermark)
            self._wake(tp, partition)

    def has_records(self, tp: TopicPartition, now: float) -> None:
        """The partition has records to read, even if it is held back."""
        self._advance(now)
        partition = self._partitions.get(tp)
        if partition is not None:
            self._wake(tp, partition)

    def has_none(self, tp: TopicPartition, now: float, since: float | None = None) -> None:
        """The partition has nothing to read at the moment. The first such call starts its idle clock, now or at `since`
        if it has been empty since then."""
        self._advance(now)
        partition = self._partitions.get(tp)
        if partition is not None and partition.quiet_since is None:
            partition.quiet_since = self._now if since is None else min(since, self._now)

    def finish(self, tp: TopicPartition) -> None:
        """The partition has ended. `observe` and `has_records` make it active again."""
        partition = self._partitions.get(tp)
        if partition is not None:
            partition.finished = True

    def watermark(self, tp: TopicPartition) -> int | None:
        """The event-time watermark of a partition; None while unknown."""
        partition = self._partitions.get(tp)
        return None if partition is None else _known(partition.mark)

    def combined(self, now: float) -> int | None:
        """The combined event-time watermark: that of the slowest active partition. It never decreases (E2).

        It does not change while an active partition has no mark, or while no partition is active.
        """
        slowest = self._slowest(now)
        if slowest is not None and slowest > self._combined:
            self._combined = slowest
        return _known(self._combined)

    def combined_with(self, tp: TopicPartition, watermark: int | None, now: float) -> int | None:
        """What `combined` will be after `observe` of these records, which exist but were not read yet."""
        self.has_records(tp, now)
        combined, partition = self.combined(now), self._partitions.get(tp)
        if partition is None or watermark is None or watermark <= partition.mark:
            return combined
        partition.finished = True  # set aside for a moment: so `_slowest` finds the slowest of the others
        others = self._slowest(now)
        self._wake(tp, partition)
        return _known(max(self._combined, watermark if others is None else min(watermark, others)))

    def reach(self, combined: int | None) -> None:
        """Raise the combined watermark to one that was published, so that it does not decrease (E2)."""
        if combined is not None:
            self._combined = max(self._combined, combined)

    def limit(self, now: float) -> int | None:
        """The mark that no partition may pass (E4). None: no limit, because no drift is set or no partition is active.

        While an active partition has no mark, the limit is below all times: all others wait for it.
        """
        if self._max_drift is None:
            return None
        slowest = self._slowest(now)
        if slowest is None or slowest == UNKNOWN:
            return slowest
        return slowest + self._max_drift

    def is_ahead(self, tp: TopicPartition, now: float) -> bool:
        """Whether a partition must not be read because its mark is past the limit (E4).

        An idle partition can be ahead too: its next records would be even further ahead.
        """
        partition = self._partitions.get(tp)
        limit = self.limit(now)
        return partition is not None and limit is not None and partition.mark > limit

    def status(self, now: float) -> EventTimeStatus:
        """All watermarks at one moment. Idle and ended partitions are not held: they have nothing to read."""
        combined, limit = self.combined(now), self.limit(now)
        partitions = {}
        for tp, partition in sorted(self._partitions.items()):
            idle = self._is_idle(partition)
            held = not idle and limit is not None and partition.mark > limit
            partitions[tp] = PartitionEventTime(_known(partition.mark), idle, held)
        return EventTimeStatus(combined, partitions)

    def _advance(self, now: float) -> None:
        # Callers read the clock before they wait for the lock, so times arrive slightly out of order.
        self._now = max(self._now, now)

    def _is_idle(self, partition: _Partition) -> bool:
        if partition.finished:
            return True
        if self._idleness is None or partition.quiet_since is None:
            return False
        return self._now - partition.quiet_since >= self._idleness

    def _wake(self, tp: TopicPartition, partition: _Partition) -> None:
        partition.quiet_since = None
        partition.finished = False
        if not partition.queued:
            partition.queued = True
            heapq.heappush(self._heap, (partition.mark, tp))

    def _slowest(self, now: float) -> int | None:
        """The lowest mark of the active partitions, UNKNOWN included; None if none is active."""
        self._advance(now)
        while self._heap:
            entry, tp = self._heap[0]
            partition = self._partitions[tp]
            if self._is_idle(partition):
                heapq.heappop(self._heap)
                partition.queued = False
            elif entry < partition.mark:
                heapq.heapreplace(self._heap, (partition.mark, tp))
            else:
                return entry
        return None


def _known(mark: int) -> int | None:
    return None if mark == UNKNOWN else mark
