"""Shuts a connector down once, however many threads ask for it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable


class Shutdown:
    """Every method may be called by any thread, and by a signal handler."""

    def __init__(self, close: Callable[[float], None]) -> None:
        """`close` is called once with its time-out: in a thread of its own, unless the interpreter is exiting."""
        self._close = close
        self._once = threading.Lock()
        """Held from the first call of `end` on."""
        self._closing = threading.Thread(target=self._run, name="penstock-shutdown")
        self._ended = threading.Event()
        self._timeout = 0.0

    @property
    def begun(self) -> bool:
        return self._once.locked()

    def end(self, timeout: float) -> None:
        """Wait until the connector is closed, unless closing has to wait for the caller.

        Called by the connector's `shutdown` only, because it inspects the caller of that.
        """
        if self._once.acquire(blocking=False):
            self._timeout = timeout
            try:
                self._closing.start()
            except RuntimeError:  # the interpreter is exiting, and starts no threads
                self._run()
        if _is_interrupting() or threading.current_thread() is self._closing:
            return
        if self._ended.wait(timeout) and self._closing.ident is not None:
            self._closing.join(timeout)

    def _run(self) -> None:
        try:
            self._close(self._timeout)
        finally:
            self._ended.set()


def _is_interrupting() -> bool:
    """Whether this call interrupts another call into this package: it comes from a signal handler, or a listener.

    The interrupted call may hold locks that closing needs, and cannot continue before this call returns.
    """
    frame = sys._getframe(2).f_back  # the caller of `shutdown`; None when the interpreter exits
    package = __name__.rpartition(".")[0]
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(package) and frame.f_code.co_name != "__exit__":
            return True
        frame = frame.f_back
    return False
