"""Limits the requests per second that a monitor sends, however large the cluster is."""

from __future__ import annotations

from collections.abc import Callable

from penstock.wire.transport.retry import Interrupted


class RequestBudget:
    """A bucket of tokens that fills at the given rate, up to those of one second. For one thread."""

    def __init__(self, per_second: float, wait: Callable[[float], object], clock: Callable[[], float]) -> None:
        """`wait` sleeps, and returns True if the owner is closing."""
        self.per_second = per_second
        self.spent = 0
        """All requests so far."""
        self._wait = wait
        self._clock = clock
        self._most = max(per_second, 1.0)
        self._left = self._most
        self._at = clock()

    def spend(self, count: int) -> None:
        """Wait until this many requests may be sent. Raises Interrupted if the owner is closing.

        More than the bucket holds are sent when it is full, and the bucket is in debt afterwards.
        """
        while True:
            now = self._clock()
            self._left = min(self._most, self._left + (now - self._at) * self.per_second)
            self._at = now
            missing = min(count, self._most) - self._left
            if missing <= 1e-9:
                break
            if self._wait(missing / self.per_second):
                raise Interrupted
        self._left -= count
        self.spent += count
