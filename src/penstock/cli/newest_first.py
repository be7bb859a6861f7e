"""Which offsets a search reads next, so that it finds the newest records of all partitions first. No I/O."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from penstock.model.topic_partition import TopicPartition

GROWTH = 4
"""By which the window of a partition grows each time it is read."""


class Window(NamedTuple):
    """Offsets to read: from `start`, before `stop`."""

    tp: TopicPartition
    start: int
    stop: int


@dataclass(slots=True)
class _Log:
    begin: int
    position: int
    """Everything from here on was read."""
    window: int


class NewestFirst:
    """Cuts partitions into windows, and names the one whose records may be the newest of those that are left.

    Where the timestamps of a partition rise, no unread record is later than `newest_unread`.
    """

    def __init__(
        self,
        begins: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        latest: Mapping[TopicPartition, int | None],
        window: int,
        largest_window: int,
    ) -> None:
        """`latest`: the largest timestamps of the partitions, or larger ones; None where they are unknown."""
        self._largest_window = largest_window
        self._logs = {tp: _Log(begins[tp], ends[tp], window) for tp in ends if ends[tp] > begins[tp]}
        self._heap: list[tuple[float, TopicPartition]] = []
        for tp in self._logs:
            known = latest.get(tp)
            self._heap.append((-inf if known is None else -float(known), tp))
        heapq.heapify(self._heap)

    @property
    def newest_unread(self) -> float | None:
        """A timestamp; infinity if it is unknown, None if everything was read."""
        return -self._heap[0][0] if self._heap else None

    def next(self) -> Window | None:
        """The window to read now; None if everything was read."""
        if not self._heap:
            return None
        _, tp = self._heap[0]
        log = self._logs[tp]
        return Window(tp, max(log.begin, log.position - log.window), log.position)

    def was_read(self, window: Window, first_time: int | None) -> None:
        """`first_time`: the timestamp of the first record in the window; None if it has no record, or no timestamps."""
        newest, _ = heapq.heappop(self._heap)
        log = self._logs[window.tp]
        log.position = window.start
        log.window = min(log.window * GROWTH, self._largest_window)
        if log.position > log.begin:
            heapq.heappush(self._heap, (newest if first_time is None else -float(first_time), window.tp))
