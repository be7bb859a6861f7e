"""A lease on the buffer of one fetch response."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Lease:
    """Returns a response's buffer to its fetcher when the last of the response's chunks is released. For any thread."""

    def __init__(self, buffer: bytearray, give_back: Callable[[bytearray], None]) -> None:
        self._buffer = buffer
        self._give_back = give_back
        self._holders = 1  # the fetcher that received the response
        self._lock = threading.Lock()

    def hold(self) -> Lease:
        with self._lock:
            self._holders += 1
        return self

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            done = self._holders == 0
        if done:
            self._give_back(self._buffer)
