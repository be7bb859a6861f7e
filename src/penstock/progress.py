"""A progress line on the terminal during long waits."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Self

QUIET_SECONDS = 2.0
TICK = 0.5


def can_move(out: IO[str]) -> bool:
    """Whether a line can be overwritten: on a terminal that interprets escape sequences."""
    return out.isatty() and os.environ.get("TERM") != "dumb"


class Progress:
    """One line on standard error, removed at the end of the `with` block.

    It is shown only on a terminal, and only after two seconds."""

    def __init__(self) -> None:
        self._from = time.monotonic() + QUIET_SECONDS
        self._shown = ""

    def show(self, text: str) -> None:
        if text != self._shown and time.monotonic() >= self._from and can_move(sys.stderr):
            self._shown = text
            # Cut to the width: a line that wraps cannot be overwritten.
            sys.stderr.write(f"\r\x1b[K{f'penstock: {text}'[: shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()

    def hide(self) -> None:
        """Remove the line until the next `show`."""
        if self._shown:
            self._shown = ""
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hide()


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show `what` and the elapsed seconds while the `with` block runs."""
    ended, began = threading.Event(), time.monotonic()

    def show() -> None:
        with Progress() as progress:
            while not ended.wait(TICK):
                progress.show(f"{what} ({time.monotonic() - began:.0f} s)")

    thread = threading.Thread(target=show, name="penstock-waiting", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
