"""The partitions that are assigned to a consumer now."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
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
        self.starting: Mapping[TopicPartition, Cursor] = {}
        """During the listener's `assigned`: the cursors of new partitions, which nothing fetches yet. Seeks and pauses
        reach them."""
        self._lock = threading.Lock()
        self.revoked_uncommitted: Mapping[TopicPartition, tuple[str, int]] = {}
        """Partitions that were revoked with records that had been handed out and not committed: the thread id of the
        stream, and the position. For commits in transactions, which clear it."""

    def note_uncommitted(self, revoked: Iterable[Cursor]) -> None:
        """Called by a rebalance, when no more records of these cursors leave their streams."""
        found = {
            cursor.tp: (cursor.reader.thread_id, cursor.consumed)
            for cursor in revoked
            if cursor.uncommitted_since is not None
            and cursor.consumed is not None
            and cursor.consumed != cursor.uncommitted_since
        }
        with self._lock:
            self.revoked_uncommitted = {**self.revoked_uncommitted, **found}

    def forget_uncommitted(self, partitions: Iterable[TopicPartition]) -> None:
        gone = set(partitions)
        with self._lock:
            self.revoked_uncommitted = {tp: at for tp, at in self.revoked_uncommitted.items() if tp not in gone}

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp in self.cursors

    def in_order(self) -> list[Cursor]:
        return [cursor for _, cursor in sorted(self.cursors.items())]

    def with_starting(self) -> list[Cursor]:
        """Also those of partitions that the listener's `assigned` is being told of."""
        return [cursor for _, cursor in sorted({**self.starting, **self.cursors}.items())]

    def cursor(self, tp: TopicPartition) -> Cursor:
        """Raises ValueError for a partition that is not assigned to this consumer."""
        checked = checked_partition(tp)
        # Do not reorder: a cursor moves from `starting` to `cursors`.
        cursor = self.starting.get(checked) or self.cursors.get(checked)
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
