"""What the runner is at: one line that changes on a terminal, a line now and then where there is none."""

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
        """What is being done now."""
        now = time.monotonic()
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{self._clock()} {text}")
            sys.stderr.flush()
        elif now - self._logged >= _LOG_SECONDS:
            self._logged = now
            self.note(text)

    def note(self, text: str) -> None:
        """What has come of it; stays."""
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
