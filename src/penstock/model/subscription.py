"""WHICH partitions: names, a pattern, or partitions one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from penstock.model.topic_partition import TopicPartition
from penstock.model.topic_pattern import matching


@dataclass(frozen=True, slots=True)
class TopicNames:
    """`subscribe`: these topics, with whatever partitions they have."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"subscribe = {','.join(self.names)}"


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """`subscribePattern`: every topic in whose name it is found, as in Spark's source; internal ones are left out."""

    pattern: str

    def __str__(self) -> str:
        return f"subscribePattern = {self.pattern}"

    def matching(self, topics: Iterable[str]) -> set[str]:
        return matching(self.pattern, topics)


@dataclass(frozen=True, slots=True)
class AssignedPartitions:
    """`assign`: these partitions and no others."""

    partitions: tuple[TopicPartition, ...]

    def __str__(self) -> str:
        return f"assign = {', '.join(map(str, self.partitions))}"


Subscription: TypeAlias = TopicNames | TopicPattern | AssignedPartitions


def reads(subscription: Subscription, topic: str) -> bool:
    """Whether a subscription means a topic, if there is one of that name."""
    match subscription:
        case TopicNames(names):
            return topic in names
        case AssignedPartitions(partitions):
            return any(tp.topic == topic for tp in partitions)
        case TopicPattern() as pattern:
            return topic in pattern.matching([topic])


def wanted_topics(subscription: Subscription) -> tuple[str, ...] | None:
    """The topics to ask the cluster about; None asks about all of them."""
    match subscription:
        case TopicNames(names):
            return names
        case AssignedPartitions(partitions):
            return tuple(dict.fromkeys(tp.topic for tp in partitions))
        case TopicPattern():
            return None


def select_partitions(
    subscription: Subscription, listing: Mapping[str, Iterable[int]], internal: frozenset[str] = frozenset()
) -> list[TopicPartition]:
    """The partitions a subscription means, out of a listing of topics with their partition numbers, in order."""
    match subscription:
        case TopicNames(names):
            chosen = [TopicPartition(name, p) for name in names for p in listing[name]]
        case TopicPattern() as pattern:
            found = pattern.matching(name for name in listing if name not in internal)
            chosen = [TopicPartition(name, p) for name in found for p in listing[name]]
        case AssignedPartitions(partitions):
            chosen = list(partitions)
    return sorted(chosen)
