"""The state that the threads of one Streamer share: when to stop, and the first error."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from penstock.model.topic_partition import Offsets, TopicPartition


class Run:
    """From the start to the end of the threads. Any thread may call any method."""

    def __init__(self, wake: Callable[[], None], ends: Offsets | None = None, limit: int | None = None) -> None:
        self.ends = ends
        """Where to stop reading, by partition; None: nowhere."""
        self.expected: frozenset[TopicPartition] | None = None
        """The partitions that the group assigned to this Streamer; None before that, and during a rebalance."""
        self.assignments = 0
        """The number of assignments so far."""
        self.stopping = threading.Event()
        self.error: BaseException | None = None
        self.last_error: str | None = None
        self._wake = wake
        self._left = limit
        self._deadline = float("inf")
        self._lock = threading.Lock()

    def stop(self, timeout: float | None = None) -> None:
        """Let the threads finish. After the time-out they drop the rows that a sink does not take."""
        with self._lock:
            if timeout is not None:
                self._deadline = min(self._deadline, time.monotonic() + timeout)
        self.stopping.set()
        self._wake()

    def fail(self, error: BaseException) -> None:
        with self._lock:
            if self.error is None:
                self.error = error
        self.note_error(error)
        self.stop(0.0)  # the other threads write once what they hold, and do not retry

    def note_error(self, error: BaseException) -> None:
        """Remember the last error for the metrics."""
        self.last_error = f"{type(error).__name__}: {error}"

    @property
    def remaining(self) -> float:
        """Seconds until the deadline."""
        return max(0.0, self._deadline - time.monotonic())

    @property
    def is_past_deadline(self) -> bool:
        return self.remaining == 0

    @property
    def has_deadline(self) -> bool:
        """Whether a caller waits for the end with a time-out."""
        return self._deadline < float("inf")

    def grant(self, records: int) -> int:
        """How many of these records are within the limit. They count as taken."""
        with self._lock:
            if self._left is None:
                return records
            granted = min(records, self._left)
            self._left -= granted
            return granted

    @property
    def reached_limit(self) -> bool:
        return self._left == 0


class Revocation:
    """Partitions that a rebalance revokes. The membership thread makes it and waits until a worker is done with it."""

    def __init__(self, partitions: frozenset[TopicPartition], deadline: float) -> None:
        self.partitions = partitions
        self.done = threading.Event()
        self._deadline = deadline

    @property
    def is_late(self) -> bool:
        """Whether other members may own the partitions by now."""
        return time.monotonic() >= self._deadline
