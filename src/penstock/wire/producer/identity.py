"""What a producer is to brokers, and the transaction that it has open. Values that cross processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.model.topic_partition import TopicPartition


class Identity(NamedTuple):
    """What a producer is to brokers. Record batches carry it; a new epoch fences older ones."""

    producer_id: int
    epoch: int


NO_IDENTITY = Identity(-1, -1)
"""Of a producer that is not idempotent."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that another process may end. Picklable."""

    transactional_id: str
    producer_id: int
    epoch: int
    version: int
    """1 or 2: of the protocol, see `transaction_client`."""
    partition: TopicPartition | None = None
    """One that is in it. Brokers before Kafka 3.0 tell with its help whether the transaction is open."""

    @property
    def identity(self) -> Identity:
        return Identity(self.producer_id, self.epoch)
