"""How long requests take: in all, and within the last seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

WINDOW_SECONDS = 10
"""The window of rates and latencies: long enough for commits and for fetches that wait, short enough to show a
stall."""


@dataclass(frozen=True, slots=True)
class Latency:
    """The requests of one kind, at one moment. Times are in seconds."""

    count: int = 0
    seconds: float = 0.0
    """The time of all of them together."""
    last: float | None = None
    average: float | None = None
    """The average of the last WINDOW_SECONDS; None if there was no request."""
    slowest: float | None = None
    """The slowest of the last WINDOW_SECONDS; None if there was no request."""


NO_REQUESTS = Latency()


class LatencyMeter:
    """Measures requests of one kind. Any thread may call every method."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._count = 0
        self._seconds = 0.0
        self._last: float | None = None
        self._slots: list[tuple[int, int, float, float]] = [(-1, 0, 0.0, 0.0)] * WINDOW_SECONDS
        """For each of the last seconds: which one it is, its requests, their time, and the slowest."""

    def add(self, seconds: float) -> None:
        """A request was answered after this time."""
        second = int(self._clock())
        slot = second % WINDOW_SECONDS
        with self._lock:
            self._count += 1
            self._seconds += seconds
            self._last = seconds
            stamp, count, total, slowest = self._slots[slot]
            if stamp != second:
                count, total, slowest = 0, 0.0, 0.0
            self._slots[slot] = (second, count + 1, total + seconds, max(slowest, seconds))

    def snapshot(self) -> Latency:
        oldest = int(self._clock()) - WINDOW_SECONDS + 1
        with self._lock:
            recent = [slot for slot in self._slots if slot[0] >= oldest]
            count = sum(slot[1] for slot in recent)
            average = sum(slot[2] for slot in recent) / count if count else None
            slowest = max(slot[3] for slot in recent) if count else None
            return Latency(self._count, self._seconds, self._last, average, slowest)
