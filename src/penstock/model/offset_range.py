"""The unit of work: a range of offsets in one partition."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from penstock.model.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The unit of work: records of one partition with offsets in [start, stop). What an executor gets.

    `host`, `port` and `leader_epoch` say who led the partition when this was planned: a hint that saves the executor
    a question. `topic_id` tells a topic from one of the same name created later.
    """

    topic: str
    partition: int
    start: int
    stop: int
    topic_id: uuid.UUID | None = None
    host: str = ""
    port: int = 0
    leader_epoch: int = -1

    def __post_init__(self) -> None:
        if not self.topic:
            raise ValueError("an offset range needs a topic")
        if self.partition < 0:
            raise ValueError(f"partition {self.partition} of {self.topic!r} is below 0")
        if not 0 <= self.start <= self.stop:
            raise ValueError(f"offsets {self.start} to {self.stop} of {self.topic}-{self.partition} are no range")

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Offsets in the range: an upper bound of its records (compaction and transactions leave gaps)."""
        return self.stop - self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.stop})"
