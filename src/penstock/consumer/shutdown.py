"""The end of a connector: once, whoever asks for it, and however often."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable


class Shutdown:
    """Every method may be called by any thread, and by a signal's handler."""

    def __init__(self, close: Callable[[float], None]) -> None:
        """`close` is called once, with the time it may take: by a thread of its own, as long as there can be one."""
        self._close = close
        self._once = threading.Lock()
        """Held from the first call on."""
        self._closing = threading.Thread(target=self._run, name="penstock-shutdown")
        self._ended = threading.Event()
        self._timeout = 0.0

    @property
    def begun(self) -> bool:
        return self._once.locked()

    def end(self, timeout: float) -> None:
        """Called by the connector's `shutdown` alone, as it looks at who called that. Waits for the end, unless that
        waits for us."""
        if self._once.acquire(blocking=False):
            self._timeout = timeout
            try:
                self._closing.start()
            except RuntimeError:  # the interpreter ends, and starts no threads any more
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
    """Whether this call came in the middle of another one into this package: from a signal's handler, or a listener.

    Such a call may hold locks that ending needs, and cannot go on before we return.
    """
    frame = sys._getframe(2).f_back  # whoever called `shutdown`; nobody at the interpreter's end
    package = __name__.rpartition(".")[0]
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(package) and frame.f_code.co_name != "__exit__":
            return True
        frame = frame.f_back
    return False
