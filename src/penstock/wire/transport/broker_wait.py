"""A wait for one broker: until a deadline, or until another broker has replaced it.

A broker that hangs keeps its connections open and answers nothing. The cluster elects other leaders within seconds, but
a client that waits for the old one learns of that only when its request times out. So while an answer is overdue, the
client asks other brokers whether this one is still the right one. If it is, the client waits on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

OVERDUE_SECONDS = 2.0
"""Silence after which an answer is overdue, and the time between two checks.

A healthy broker answers within milliseconds, and garbage collection rarely stops it for a second. Controllers take 9 s
to fence a broker (broker.session.timeout.ms), so most checks find nothing new. Each is one small request.
"""

OverdueCheck: TypeAlias = Callable[[], str | None]
"""Called while an answer is overdue, by the thread that waits. Returns the reason to stop waiting, or None to go on.

It has to be quick: bytes that arrive meanwhile are read only after it has returned."""


class WaitEnded(TimeoutError):
    """Nothing arrived, and there is no more reason to wait."""


class BrokerWait:
    """One wait for one broker. For one thread."""

    __slots__ = ("_check", "_check_at", "_deadline", "_quiet_since")

    def __init__(self, deadline: float, check: OverdueCheck | None = None, allowed: float = 0.0) -> None:
        """`allowed`: seconds for which the broker may hold its answer back."""
        now = time.monotonic()
        self._deadline = deadline
        self._check = check
        self._quiet_since = now
        self._check_at = float("inf") if check is None else now + allowed + OVERDUE_SECONDS

    def seconds_left(self) -> float:
        """Seconds to wait before the next call of this method. Raises WaitEnded if there is no reason to wait."""
        now = time.monotonic()
        if now >= self._deadline:
            raise WaitEnded("timed out")
        if now < self._check_at:
            return min(self._deadline, self._check_at) - now
        assert self._check is not None
        reason = self._check()
        if reason is not None:
            raise WaitEnded(f"nothing came for {now - self._quiet_since:.1f} s, and {reason}")
        self._check_at = time.monotonic() + OVERDUE_SECONDS
        return max(0.001, min(self._deadline, self._check_at) - time.monotonic())

    def progressed(self) -> None:
        """Bytes were received or sent."""
        if self._check is not None:
            self._quiet_since = time.monotonic()
            self._check_at = self._quiet_since + OVERDUE_SECONDS
