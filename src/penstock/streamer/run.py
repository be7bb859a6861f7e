"""What the threads of one run share: what to do, when to stop, and what went wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.streamer.extraction import Extraction
from penstock.streamer.sinks.sink import Limits


@dataclass(frozen=True, slots=True)
class Job:
    """What every thread is to do."""

    topic: str
    columns: tuple[str, ...]
    """To read: those that the extraction needs, and those that tell where a record is."""
    extraction: Callable[[], Extraction]
    limits: Limits
    retry_timeout: float
    max_retries: int | None
    max_failures: int | None


class Run:
    """From the start to the end of the threads. Every method may be called by any thread."""

    def __init__(self, wake: Callable[[], None], ends: Offsets | None = None, limit: int | None = None) -> None:
        self.ends = ends
        """Where to stop reading, by partition; None: nowhere."""
        self.expected: frozenset[TopicPartition] | None = None
        """The partitions that the group gave us; None before it did, and in the middle of a rebalance."""
        self.assignments = 0
        """How often it did."""
        self.stopping = threading.Event()
        self.error: BaseException | None = None
        self.last_error: str | None = None
        self._wake = wake
        self._left = limit
        self._deadline = float("inf")
        self._lock = threading.Lock()

    def stop(self, timeout: float | None = None) -> None:
        """Let the threads finish; when the time is over, they give up on a sink that does not take what they have."""
        with self._lock:
            if timeout is not None:
                self._deadline = min(self._deadline, time.monotonic() + timeout)
        self.stopping.set()
        self._wake()

    def fail(self, error: BaseException) -> None:
        with self._lock:
            if self.error is None:
                self.error = error
        self.met(error)
        self.stop(0.0)  # the others write what they have once, and wait for nothing

    def met(self, error: BaseException) -> None:
        """Note what went wrong last."""
        self.last_error = f"{type(error).__name__}: {error}"

    @property
    def remaining(self) -> float:
        """How many seconds there are to finish."""
        return max(0.0, self._deadline - time.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether the time to finish is over."""
        return self.remaining == 0

    @property
    def is_hurried(self) -> bool:
        """Whether somebody waits for the end, and not for ever."""
        return self._deadline < float("inf")

    def grant(self, records: int) -> int:
        """How many of so many records are still wanted."""
        with self._lock:
            if self._left is None:
                return records
            granted = min(records, self._left)
            self._left -= granted
            return granted

    @property
    def has_enough(self) -> bool:
        return self._left == 0


class Release:
    """Partitions leave: made by the membership thread, answered by a worker."""

    def __init__(self, partitions: frozenset[TopicPartition], deadline: float) -> None:
        self.partitions = partitions
        self.answered = threading.Event()
        self._deadline = deadline

    @property
    def is_late(self) -> bool:
        """Whether the partitions may be with somebody else by now."""
        return time.monotonic() >= self._deadline
