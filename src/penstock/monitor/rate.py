"""A rate, averaged over about a minute. Pure: the caller has the clock."""

from __future__ import annotations

import math

WINDOW_SECONDS = 60.0
"""Spark and many consumers commit every few seconds to a minute. A shorter window would show each commit as a jump."""


class RateMeter:
    """An exponentially weighted average: constant memory, which counts with 10,000 partitions."""

    __slots__ = ("_at", "rate")

    def __init__(self) -> None:
        self._at: float | None = None
        self.rate: float | None = None
        """Per second; None before the second call of `add`."""

    def add(self, count: float, at: float) -> None:
        """Count what happened since the last call. The first call only starts the clock."""
        if self._at is not None:
            passed = at - self._at
            if passed <= 0:
                return
            present = count / passed
            weight = 1 - math.exp(-passed / WINDOW_SECONDS)
            self.rate = present if self.rate is None else self.rate + weight * (present - self.rate)
        self._at = at
