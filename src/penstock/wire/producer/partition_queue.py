"""The batches of one partition on their way to its leader. Pure: no clock, no network.

The order of batches is kept as follows. Batches are sent in order, several at a time, over one connection. If one fails
in a way that a retry may cure, all batches behind it are sent again, too, after every answer of the first try is here.
An idempotent producer numbers records: the broker refuses a batch that does not follow the last one, and recognises the
last five that it has. So nothing is written twice or out of order. Without numbers, one batch is in flight at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.metadata import Leader
from penstock.wire.transport.retry import Attempts

REMEMBERED_BATCHES = 5
"""Batches of a producer that a broker recognises when they are sent again. No more may be in flight."""


class Batch(Protocol):
    """An encoded record batch: `penstock._kernel.EncodedBatch`."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def data(self) -> bytes: ...
    @property
    def count(self) -> int: ...
    @property
    def first_row(self) -> int: ...
    @property
    def last_row(self) -> int: ...
    @property
    def payload_bytes(self) -> int: ...
    def split(self) -> tuple[Batch, Batch]: ...
    def first_key(self) -> bytes | None: ...


class QueuedBatch:
    """A batch that is not acknowledged yet."""

    __slots__ = ("batch", "data", "deadline", "in_flight")

    def __init__(self, batch: Batch, deadline: float) -> None:
        self.batch = batch
        self.data = batch.data
        self.deadline = deadline
        """When the producer gives up."""
        self.in_flight = False


class PartitionQueue:
    """The unacknowledged batches of one partition, in the order of their records. For one thread."""

    __slots__ = (
        *("_batches", "_idempotent", "_in_flight", "_is_proven", "attempts", "leader", "retry_at", "tp"),
        "unknown_since",
    )

    def __init__(self, tp: TopicPartition, idempotent: bool) -> None:
        self.tp = tp
        self.leader: Leader | None = None
        """None: to be looked up."""
        self.attempts: Attempts | None = None
        """The failed attempts since the last success; None if there are none."""
        self.retry_at = 0.0
        """No batch is sent before this time."""
        self.unknown_since: float | None = None
        """When a broker did not know the partition for the first time; None if brokers know it."""
        self._idempotent = idempotent
        self._batches: deque[QueuedBatch] = deque()
        self._in_flight = 0
        self._is_proven = False
        """Whether the leader has accepted a batch since the start, or since the last failure.

        Until then one batch is in flight. Do not simplify: a broker that does not know a producer accepts any number as
        its first. If the first batch failed for a moment, and the second did not, the first could never be written.
        """

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[QueuedBatch]:
        return iter(self._batches)

    @property
    def deadline(self) -> float:
        """When the producer gives up the first batch. The queue must not be empty."""
        return self._batches[0].deadline

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @property
    def waiting(self) -> int:
        """Batches that are not in flight."""
        return len(self._batches) - self._in_flight

    def add(self, batch: Batch, deadline: float) -> QueuedBatch:
        queued = QueuedBatch(batch, deadline)
        self._batches.append(queued)
        return queued

    def next(self, now: float) -> QueuedBatch | None:
        """The batch that may be sent now, if there is one."""
        limit = REMEMBERED_BATCHES if self._is_proven and self._idempotent else 1
        if self._in_flight >= limit or now < self.retry_at:
            return None
        return next((each for each in self._batches if not each.in_flight), None)

    def sent(self, batch: QueuedBatch) -> None:
        batch.in_flight = True
        self._in_flight += 1

    def acknowledged(self, batch: QueuedBatch) -> None:
        """The broker has written the batch."""
        self._answered(batch)
        if not self.is_first(batch):  # one before it failed, and is sent again
            self._batches.remove(batch)
            return
        self._batches.popleft()
        self._is_proven = True
        self.attempts = self.unknown_since = None

    def failed(self, batch: QueuedBatch, retry_at: float) -> None:
        """The batch is to be sent again, and so are all behind it that were sent with it."""
        if batch.in_flight:
            self._answered(batch)
        self._is_proven = False
        self.retry_at = max(self.retry_at, retry_at)

    def split(self, batch: QueuedBatch) -> int:
        """The batch is too large for the topic: its halves take its place. Returns the bytes that this adds."""
        self.failed(batch, 0.0)
        at = self._batches.index(batch)
        halves = [QueuedBatch(half, batch.deadline) for half in batch.batch.split()]
        self._batches.remove(batch)
        for half in reversed(halves):
            self._batches.insert(at, half)
        return sum(len(half.data) for half in halves) - len(batch.data)

    def is_first(self, batch: QueuedBatch) -> bool:
        """Whether the batch follows what the broker has acknowledged, so that no other has to come before it."""
        return self._batches[0] is batch

    def _answered(self, batch: QueuedBatch) -> None:
        batch.in_flight = False
        self._in_flight -= 1
