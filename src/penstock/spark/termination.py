"""Spark ends the planning process with SIGTERM and does not call `stop` before: this makes it call `stop`."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

GRACE_SECONDS = 2.0
"""How much longer than its timeout closing may take until SIGALRM ends the process."""


class Termination:
    """Unwinds the main thread on SIGTERM, so that Spark's loop calls `stop`. For the main thread.

    Do not simplify: a handler that commits itself would deadlock if the signal arrives while the main thread holds a
    lock, because the committing thread needs the same locks.
    """

    def __init__(self) -> None:
        self._is_installed = self._is_signalled = self._is_closing = False

    def install(self) -> None:
        """Handle SIGTERM, unless this is a thread or a process whose signals belong to the user's program."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        signal.signal(signal.SIGTERM, self._unwind)
        self._is_installed = True

    def _unwind(self, number: int, frame: FrameType | None) -> None:
        self._is_signalled = True
        if not self._is_closing:
            raise SystemExit(128 + number)

    @contextlib.contextmanager
    def closing(self, timeout: float) -> Iterator[None]:
        """Around the work of `stop`. If SIGTERM has come, the process ends by it afterwards."""
        self._is_closing = True
        if self._is_installed:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            # A signal may have unwound the main thread with locks held. SIGALRM ends a close that hangs.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, timeout + GRACE_SECONDS)
        yield
        if self._is_installed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._is_signalled:
            os.kill(os.getpid(), signal.SIGTERM)
