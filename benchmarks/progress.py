"""Shows the progress of a run: one changing line on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import sys
import time

_LOG_SECONDS = 5.0


class Progress:
    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._began = time.monotonic()
        self._logged = 0.0

    def __call__(self, text: str) -> None:
        """Show the current step."""
        now = time.monotonic()
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{self._clock()} {text}")
            sys.stderr.flush()
        elif now - self._logged >= _LOG_SECONDS:
            self._logged = now
            self.note(text)

    def note(self, text: str) -> None:
        """Print a result on a line of its own."""
        start = "\r\x1b[K" if self._terminal else ""
        sys.stderr.write(f"{start}{self._clock()} {text}\n")
        sys.stderr.flush()

    def clear(self) -> None:
        if self._terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _clock(self) -> str:
        seconds = int(time.monotonic() - self._began)
        return f"[{seconds // 60:2}:{seconds % 60:02}]"
