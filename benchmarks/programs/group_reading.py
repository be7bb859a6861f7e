"""Measures members of a consumer group in the same way for all clients. Standard library only.

The clock starts when the group assigns the partitions, which every client reports in a callback. It stops when the
program has the last record. Kafka's ConsumerPerformance calls this its fetch time.
"""

from __future__ import annotations

import resource
import time
from array import array
from typing import Any

SILENCE_SECONDS = 30.0
"""A reader gives up after this time without a record."""


def processor_seconds() -> float:
    """User and system time of this process, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Stopwatch:
    """Create it before the consumer. The thread of the client's callback calls `assigned`; later a thread that reads
    calls `stop`."""

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
            raise RuntimeError("records arrived before their partitions were assigned")
        return {
            "seconds": ended - self._began,
            "processor_seconds": used - self._used,
            "joining_seconds": self._began - self._made,
        }


class Latencies:
    """Latencies of the records of SteadyProducer.java. Used by one thread."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._warm_up = round(request["warm_up"] * 1e9)
        self._length = round(request["seconds"] * 1e9)
        self._from: int | None = None
        self._taken = array("q")

    def take(self, value: bytes) -> bool:
        """Call with each value on arrival. Returns False when there are enough."""
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
