"""HOW LONG to wait for one broker: until a deadline, or until another one has taken its place.

A broker that hangs keeps its connections open and answers nothing. The cluster elects other leaders within seconds, but
a client that waits for the old one learns of that only when its request times out. So an answer that is overdue is
doubted: the client asks other brokers whether this one is still the right one, and goes on waiting if it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

OVERDUE_SECONDS = 2.0
"""How long nothing may come after an answer is due, until it is doubted, and between two doubts.

A sound broker answers within milliseconds, and is rarely stopped for a second by garbage collection. Controllers take
9 s to give up a broker (broker.session.timeout.ms), so most doubts find nothing new: one small request each.
"""

Doubt: TypeAlias = Callable[[], str | None]
"""Called while an answer is overdue, by the thread that waits. Returns why not to wait any longer; None: go on.

It has to be quick: what arrives meanwhile is read only after it has returned."""


class Silence(TimeoutError):
    """Nothing came, and there is nothing more to wait for."""


class Patience:
    """One wait for one broker. For one thread."""

    __slots__ = ("_deadline", "_doubt", "_doubt_at", "_quiet_since")

    def __init__(self, deadline: float, doubt: Doubt | None = None, allowed: float = 0.0) -> None:
        """`allowed`: seconds for which the broker may hold its answer back."""
        now = time.monotonic()
        self._deadline = deadline
        self._doubt = doubt
        self._quiet_since = now
        self._doubt_at = float("inf") if doubt is None else now + allowed + OVERDUE_SECONDS

    def left(self) -> float:
        """Seconds to wait now; ask again after that. Raises Silence when there is nothing more to wait for."""
        now = time.monotonic()
        if now >= self._deadline:
            raise Silence("timed out")
        if now < self._doubt_at:
            return min(self._deadline, self._doubt_at) - now
        assert self._doubt is not None
        reason = self._doubt()
        if reason is not None:
            raise Silence(f"nothing came for {now - self._quiet_since:.1f} s, and {reason}")
        self._doubt_at = time.monotonic() + OVERDUE_SECONDS
        return max(0.001, min(self._deadline, self._doubt_at) - time.monotonic())

    def moved(self) -> None:
        """Bytes have come, or gone out."""
        if self._doubt is not None:
            self._quiet_since = time.monotonic()
            self._doubt_at = self._quiet_since + OVERDUE_SECONDS
