"""One partition of a topic, and offsets by partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Offsets: TypeAlias = dict[TopicPartition, int]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partition numbers of each topic, in the given order."""
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found


def listed(partitions: Sequence[TopicPartition], limit: int = 5) -> str:
    """The first `limit` partitions, and how many more there are: for errors and log lines."""
    more = f" and {len(partitions) - limit} more" if len(partitions) > limit else ""
    return ", ".join(str(tp) for tp in partitions[:limit]) + more
