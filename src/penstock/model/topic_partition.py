"""One partition of a topic, and offsets by partition."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Offsets: TypeAlias = dict[TopicPartition, int]


def listed(partitions: list[TopicPartition], limit: int = 5) -> str:
    more = f" and {len(partitions) - limit} more" if len(partitions) > limit else ""
    return ", ".join(str(tp) for tp in partitions[:limit]) + more
