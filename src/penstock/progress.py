"""A sign of life while something takes long."""

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
    """Whether a line can be drawn over there: on a terminal, unless it is one that shows escapes as they are."""
    return out.isatty() and os.environ.get("TERM") != "dumb"


class Progress:
    """One line on a terminal's standard error from the moment that a wait gets long, gone at the end of the
    `with` block. Nothing where nobody looks: no terminal, or done within two seconds."""

    def __init__(self) -> None:
        self._from = time.monotonic() + QUIET_SECONDS
        self._shown = ""

    def show(self, text: str) -> None:
        if text != self._shown and time.monotonic() >= self._from and can_move(sys.stderr):
            self._shown = text
            # Cut, because a line that wraps cannot be taken back.
            sys.stderr.write(f"\r\x1b[K{f'penstock: {text}'[: shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """The same for a call that tells nothing of itself: what it does, and for how long."""
    ended, began = threading.Event(), time.monotonic()

    def tell() -> None:
        with Progress() as progress:
            while not ended.wait(TICK):
                progress.show(f"{what} ({time.monotonic() - began:.0f} s)")

    telling = threading.Thread(target=tell, name="penstock-waiting", daemon=True)
    telling.start()
    try:
        yield
    finally:
        ended.set()
        telling.join()
