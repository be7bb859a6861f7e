"""A range of offsets in one partition."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from penstock.model.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The unit of work of an executor: the records of one partition with offsets in [start, stop).

    `host`, `port` and `leader_epoch` name the leader when this was planned, so that the executor need not look it up.
    `topic_id` tells the topic from a recreated one of the same name.
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
            raise ValueError(f"offsets {self.start} to {self.stop} of {self.topic}-{self.partition} are not a range")

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """The number of offsets: an upper bound of the records, because compaction and transactions leave gaps."""
        return self.stop - self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.stop})"
