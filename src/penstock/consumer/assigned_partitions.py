"""The partitions that are assigned to a consumer now."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import SupportsIndex

from penstock.consumer.fetch.cursor import Cursor
from penstock.model.topic_partition import TopicPartition


class AssignedPartitions:
    """Written by rebalances, read by any thread. Each attribute is replaced as a whole, so readers need no lock."""

    def __init__(self) -> None:
        self.cursors: Mapping[TopicPartition, Cursor] = {}
        self.latest: frozenset[TopicPartition] = frozenset()
        """The group's latest assignment. It has new partitions from the listener's `assigned` on, before their cursors
        exist."""

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp in self.cursors

    def in_order(self) -> list[Cursor]:
        return [cursor for _, cursor in sorted(self.cursors.items())]

    def cursor(self, tp: TopicPartition) -> Cursor:
        """Raises ValueError for a partition that is not assigned to this consumer."""
        cursor = self.cursors.get(checked_partition(tp))
        if cursor is None:
            raise ValueError(
                f"{tp[0]}-{tp[1]} is not assigned to this consumer now: assignment() lists the partitions that are"
            )
        return cursor


def checked_partition(tp: object) -> TopicPartition:
    match tp:
        case (str(topic), SupportsIndex() as partition):  # also numpy's integers, which rows of pandas have
            return TopicPartition(topic, index(partition))
    raise TypeError(f"{tp!r} is not a partition: give TopicPartition(topic, number), or (topic, number)")
