"""Which partitions to read: topic names, a pattern, or single partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from penstock.model.topic_partition import TopicPartition
from penstock.model.topic_pattern import matching


@dataclass(frozen=True, slots=True)
class TopicNames:
    """`subscribe`: all partitions of these topics."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"subscribe = {','.join(self.names)}"


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """`subscribePattern`: every topic whose name contains a match, as in Spark's source; no internal topics."""

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
    """Whether a subscription includes a topic of this name."""
    match subscription:
        case TopicNames(names):
            return topic in names
        case AssignedPartitions(partitions):
            return any(tp.topic == topic for tp in partitions)
        case TopicPattern() as pattern:
            return topic in pattern.matching([topic])


def wanted_topics(subscription: Subscription) -> tuple[str, ...] | None:
    """The topics to ask the cluster for; None for all."""
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
    """The partitions that a subscription selects from a listing of topics and their partition numbers, sorted."""
    match subscription:
        case TopicNames(names):
            selected = [TopicPartition(name, p) for name in names for p in listing[name]]
        case TopicPattern() as pattern:
            found = pattern.matching(name for name in listing if name not in internal)
            selected = [TopicPartition(name, p) for name in found for p in listing[name]]
        case AssignedPartitions(partitions):
            selected = list(partitions)
    return sorted(selected)
