"""Requests to one leader: those in flight, and the partitions that have batches for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.wire.api.metadata import Broker
from penstock.wire.producer.partition_queue import PartitionQueue, QueuedBatch
from penstock.wire.transport.broker_wait import OVERDUE_SECONDS
from penstock.wire.transport.connection import Connection, Pending


class SentRequest(NamedTuple):
    """A Produce request that is not answered yet."""

    pending: Pending[Any]
    version: int
    batches: Sequence[tuple[PartitionQueue, QueuedBatch]]


class LeaderLine:
    """The requests to one broker, over one connection. For one thread."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.connection: Connection | None = None
        self.in_flight: deque[SentRequest] = deque()
        self.sending: Sequence[tuple[PartitionQueue, QueuedBatch]] = ()
        """The batches of the request that is being sent."""
        self.queues: dict[PartitionQueue, None] = {}
        """Those with waiting batches for this leader. A dict, because it keeps their order."""
        self.throttled_until = 0.0
        self.quiet_since = 0.0
        """Since when the broker owes an answer."""
        self.check_at = float("inf")
        """When other brokers are asked whether this one still leads."""

    def next_batches(self, now: float, limit: int) -> tuple[list[tuple[PartitionQueue, QueuedBatch]], int]:
        """The batches of the next request, of at most `limit` bytes unless one is larger; and their bytes."""
        chosen: list[tuple[PartitionQueue, QueuedBatch]] = []
        size = 0
        for queue in self.queues:
            batch = queue.next(now)
            if batch is None:
                continue
            if chosen and size + len(batch.data) > limit:
                break
            chosen.append((queue, batch))
            size += len(batch.data)
        return chosen, size

    def concerned(self) -> set[PartitionQueue]:
        """The partitions that wait for this broker."""
        batches = [*self.sending, *(each for request in self.in_flight for each in request.batches)]
        return {queue for queue, _ in batches}.union(self.queues)

    def sent(self, request: SentRequest, now: float) -> None:
        if not self.in_flight:
            self.waits_since(now)
        self.in_flight.append(request)

    def rotate(self, queues: Sequence[tuple[PartitionQueue, QueuedBatch]]) -> None:
        """Partitions that have just sent a batch come last, or leave if they have no other batch."""
        for queue, _ in queues:
            self.queues.pop(queue, None)
            if queue.waiting:
                self.queues[queue] = None

    def waits_since(self, now: float) -> None:
        """The broker begins with the next request when it has answered the last one."""
        self.quiet_since = now
        self.check_at = now + OVERDUE_SECONDS
