"""What members of a consumer group are measured by, the same for all of them. Standard library only.

The clock runs from the moment the group gives the member its partitions, which every client tells in a callback, to the
moment the last record is in the program's hands: what Kafka's ConsumerPerformance calls its fetch time.
"""

from __future__ import annotations

import resource
import time
from array import array
from typing import Any

SILENCE_SECONDS = 30.0
"""A reader that is handed nothing for so long gives up."""


def processor_seconds() -> float:
    """User and system time of this process, all its threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Stopwatch:
    """Made before the consumer is. `assigned` is called by the thread that a client calls back in, `stop` later by one
    that reads."""

    def __init__(self) -> None:
        self._made = time.perf_counter()
        self._began: float | None = None
        self._used = 0.0

    def assigned(self, *_: object) -> None:
        if self._began is None:
            self._began, self._used = time.perf_counter(), processor_seconds()

    def stop(self) -> dict[str, Any]:
        ended, used = time.perf_counter(), processor_seconds()
        if self._began is None:
            raise RuntimeError("records came before the partitions they are of")
        return {
            "seconds": ended - self._began,
            "processor_seconds": used - self._used,
            "joining_seconds": self._began - self._made,
        }


class Latencies:
    """How long records of Pulse.java were under way. Used by one thread."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._warm_up = round(order["warm_up"] * 1e9)
        self._length = round(order["seconds"] * 1e9)
        self._from: int | None = None
        self._taken = array("q")

    def take(self, value: bytes) -> bool:
        """To be called with each value as it comes; false when there are enough."""
        now = time.time_ns()
        sent = int.from_bytes(value[:8], "big")
        if self._from is None:
            self._from = sent + self._warm_up
        if sent < self._from:
            return True
        if sent >= self._from + self._length:
            return False
        self._taken.append(now - sent)
        return True

    def answer(self) -> dict[str, Any]:
        ordered = sorted(self._taken)
        return {
            "records": len(ordered),
            **{f"p{percent}": ordered[len(ordered) * percent // 100] / 1e6 for percent in (50, 90, 99) if ordered},
            "largest": ordered[-1] / 1e6 if ordered else None,
        }
