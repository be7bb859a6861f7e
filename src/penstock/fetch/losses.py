"""How many ranges this process has read with a loss, because failOnDataLoss is false."""

from __future__ import annotations

import os
import threading


class Losses:
    """A count for any thread. On an executor it is that worker's own: Spark has no way to add it up."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Begin at zero. Also after a fork: what the parent lost is in the parent's count."""
        self._lock = threading.Lock()
        self.count = 0

    def add(self) -> None:
        with self._lock:
            self.count += 1


LOST_RANGES = Losses()
os.register_at_fork(after_in_child=LOST_RANGES._forget)
