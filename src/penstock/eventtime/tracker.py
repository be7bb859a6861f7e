"""How far the event time of each partition has come, and of all of them together (E2, E3, E4).

A partition's life here: it is added, active and without an event-time watermark, so that it holds all others back
until something is known of it. Records that are read move it on. When there is nothing to read (`has_none`), the idle
clock runs; past the time-out the partition is idle and holds nobody back. Records, read or only known to be there, end
that. In this file a mark is an event-time watermark.

Only `has_none` starts the idle clock, never mere silence: a partition that is not read because it is ahead, or because
its reader is busy, has records, and to call it idle would let the others run past them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.model.topic_partition import TopicPartition

UNKNOWN = -(2**63)
"""Below every event time: where a partition without a mark stands."""


@dataclass(frozen=True, slots=True)
class PartitionEventTime:
    """Where one partition is: its event-time watermark in milliseconds since the epoch, and whether it is idle or held
    back."""

    watermark: int | None
    idle: bool
    held: bool


@dataclass(frozen=True, slots=True)
class EventTimeStatus:
    """Where a source is in event time, in milliseconds since the epoch; None is: nothing known yet."""

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
    """Whether the tracker's heap has an entry of it: one at most."""


class WatermarkTracker:
    """Event-time watermarks of some partitions. Times are milliseconds since the epoch, `now` is a monotonic clock's
    seconds.

    For one thread, or under its owner's lock. What is told of a partition that it does not have (any more) is ignored:
    records of a partition may still be on their way when it is given to somebody else.

    A call costs O(log partitions) on average; only `set_partitions` and `status` look at each of them. The heap holds
    an entry per active partition, and that is a lower bound: marks only grow, so it is put right when it comes to
    the top, not each time a batch is read.
    """

    def __init__(self, idleness: float | None, max_drift: int | None) -> None:
        self._idleness = idleness
        self._max_drift = max_drift
        self._combined = UNKNOWN
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._heap: list[tuple[int, TopicPartition]] = []
        self._now = float("-inf")

    def set_partitions(self, partitions: Iterable[TopicPartition], now: float) -> None:
        """These are the partitions from now on: new ones are active, without a mark; the others are forgotten."""
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
        """Records of it were read, and this is the event-time watermark that they carry, if they carry one."""
        self._advance(now)
        partition = self._partitions.get(tp)
        if partition is not None:
            if watermark is not None:
                partition.mark = max(partition.mark, watermark)
            self._wake(tp, partition)

    def has_records(self, tp: TopicPartition, now: float) -> None:
        """There are records to read, even if it is held back from reading them."""
        self._advance(now)
        partition = self._partitions.get(tp)
        if partition is not None:
            self._wake(tp, partition)

    def has_none(self, tp: TopicPartition, now: float, since: float | None = None) -> None:
        """There is nothing to read just now. The first such call starts the idle clock: now, or `since` when it is
        known to have been so, also if nobody knew it then."""
        self._advance(now)
        partition = self._partitions.get(tp)
        if partition is not None and partition.quiet_since is None:
            partition.quiet_since = self._now if since is None else min(since, self._now)

    def finish(self, tp: TopicPartition) -> None:
        """It is at its end for good. Should there be records after all, `observe` and `has_records` take that back."""
        partition = self._partitions.get(tp)
        if partition is not None:
            partition.finished = True

    def watermark(self, tp: TopicPartition) -> int | None:
        """Of event time; None while nothing is known."""
        partition = self._partitions.get(tp)
        return None if partition is None else _known(partition.mark)

    def combined(self, now: float) -> int | None:
        """The event-time watermark of all together: the slowest active one's, and never back (E2).

        It stays where it is while a partition without a mark is active, and while nobody is.
        """
        slowest = self._slowest(now)
        if slowest is not None and slowest > self._combined:
            self._combined = slowest
        return _known(self._combined)

    def combined_with(self, tp: TopicPartition, watermark: int | None, now: float) -> int | None:
        """What `combined` will be once `observe` is told of these records, which are there and not read yet."""
        self.has_records(tp, now)
        combined, partition = self.combined(now), self._partitions.get(tp)
        if partition is None or watermark is None or watermark <= partition.mark:
            return combined
        partition.finished = True  # a moment of standing aside tells of the others, without a look at each of them
        others = self._slowest(now)
        self._wake(tp, partition)
        return _known(max(self._combined, watermark if others is None else min(watermark, others)))

    def reach(self, combined: int | None) -> None:
        """The combined watermark has come to this: it was told, and is not gone back behind (E2)."""
        if combined is not None:
            self._combined = max(self._combined, combined)

    def limit(self, now: float) -> int | None:
        """The mark that none may pass (E4). None: there is no limit, as no drift is set or nobody is active.

        While an active partition has no mark, the limit lies below all times: whoever has one waits for it.
        """
        if self._max_drift is None:
            return None
        slowest = self._slowest(now)
        if slowest is None or slowest == UNKNOWN:
            return slowest
        return slowest + self._max_drift

    def is_ahead(self, tp: TopicPartition, now: float) -> bool:
        """Whether it must not be read, as its mark is past the limit (E4).

        An idle one can be ahead too: what comes on it next would be even further ahead.
        """
        partition = self._partitions.get(tp)
        limit = self.limit(now)
        return partition is not None and limit is not None and partition.mark > limit

    def status(self, now: float) -> EventTimeStatus:
        """All of it at one moment. Idle and finished partitions do not count as held: there is nothing to hold."""
        combined, limit = self.combined(now), self.limit(now)
        partitions = {}
        for tp, partition in sorted(self._partitions.items()):
            idle = self._is_idle(partition)
            held = not idle and limit is not None and partition.mark > limit
            partitions[tp] = PartitionEventTime(_known(partition.mark), idle, held)
        return EventTimeStatus(combined, partitions)

    def _advance(self, now: float) -> None:
        # Callers read the clock before they wait for the lock, so that times come a little out of order.
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
        """The lowest mark of the active partitions, UNKNOWN counted; None if nobody is active."""
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
