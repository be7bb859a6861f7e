"""Reads single keys from a terminal, without echo, until it is closed."""

from __future__ import annotations

import contextlib
import os
import select
import termios
import tty
from collections import deque
from types import TracebackType
from typing import IO, Any, Self

from penstock.errors import PenstockError

ESCAPE_SECONDS = 0.05
"""A key such as an arrow sends Escape and more at once. Escape alone is the key of that name."""

NAMED = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1bOC": "right",
    "\x1bOD": "left",
    "\x1b[5~": "page-up",
    "\x1b[6~": "page-down",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1b[1~": "home",
    "\x1b[4~": "end",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x1b": "escape",
}


def keys_in(text: str) -> list[str]:
    """The keys of what a terminal has sent. Sequences that are not known are dropped."""
    found = []
    while text:
        length = 1
        if text[0] == "\x1b" and text[1:2] in ("[", "O"):
            length = 2
            while length < len(text) and not text[length].isalpha() and text[length] != "~":
                length += 1
            length = min(length + 1, len(text))
        key, text = text[:length], text[length:]
        if key in NAMED:
            found.append(NAMED[key])
        elif len(key) == 1 and key.isprintable():
            found.append(key)
    return found


class Keys:
    """The keys of a terminal, whose settings are restored at the end."""

    def __init__(self, terminal: IO[Any]) -> None:
        self._number = terminal.fileno()
        self._waiting: deque[str] = deque()
        self._before: Any = None

    def __enter__(self) -> Self:
        try:
            self._before = termios.tcgetattr(self._number)
        except termios.error as error:
            raise PenstockError(f"the terminal cannot be used: {error}") from error
        tty.setcbreak(self._number)  # Ctrl-C still interrupts
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(self._number, termios.TCSADRAIN, self._before)

    def read(self, seconds: float) -> str | None:
        """The next key; None if none is pressed in time. Raises EOFError when the terminal is closed."""
        if not self._waiting and self._is_ready(seconds):
            data = os.read(self._number, 1024)
            if not data:
                raise EOFError
            if data == b"\x1b" and self._is_ready(ESCAPE_SECONDS):
                data += os.read(self._number, 1024)
            self._waiting.extend(keys_in(data.decode("utf-8", "replace")))
        return self._waiting.popleft() if self._waiting else None

    def _is_ready(self, seconds: float) -> bool:
        return bool(select.select([self._number], [], [], seconds)[0])
