"""The state of each partition that a stream does not simply read on: deleted, dropped, recreated, or moving.

    deleted    the cluster no longer has it; the next step of the offset log drops it
       |
    dropped    the offset log no longer has it either

    recreated  the topic was recreated; the planner has to look up where the new partition begins
       |
    moving     a step of the offset log that reads nothing takes it to another offset

A deleted partition that the cluster lists again is read on, or is recreated. Pure: no client, no clock.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from penstock.model.topic_partition import Offsets, TopicPartition


@dataclass(frozen=True, slots=True)
class Deleted:
    """The cluster no longer has the partition, but the offset log does."""

    offset: int
    """The next offset to read when the partition was deleted."""
    topic_id: uuid.UUID | None
    """The id of the deleted topic; None if it is unknown."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Neither the cluster nor the offset log has the partition. The fields are those of `Deleted`."""

    offset: int
    topic_id: uuid.UUID | None


@dataclass(frozen=True, slots=True)
class Recreated:
    """The partition belongs to a recreated topic. Nothing of it is read until its first offset is known."""


@dataclass(frozen=True, slots=True)
class Moving:
    """The partition continues at another offset: the first of a new partition or of a recreated topic, or the offset at
    which a log was truncated. The offset log records the move in a step of its own, so that a replay sees the same."""

    to: int


PartitionState: TypeAlias = Deleted | Dropped | Recreated | Moving


class PartitionStates:
    """The states of a stream's partitions. A partition without one is read on from its offset. For one thread.

    Most triggers find this empty, so that planning thousands of partitions costs no lookup here.
    """

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}

    def get(self, tp: TopicPartition) -> PartitionState | None:
        return self._states.get(tp)

    def delete(self, tp: TopicPartition, offset: int, topic_id: uuid.UUID | None) -> None:
        self._states[tp] = Deleted(offset, topic_id)

    def recreate(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self._states[tp] = Recreated()

    def move(self, targets: Mapping[TopicPartition, int]) -> None:
        for tp, offset in targets.items():
            self._states[tp] = Moving(offset)

    def read_on(self, tp: TopicPartition) -> None:
        """Forgets the partition's state."""
        self._states.pop(tp, None)

    def acknowledge(self, log: Mapping[TopicPartition, int]) -> None:
        """Takes the newest offsets of the log: finishes moves that it records, and drops deleted partitions that it no
        longer has."""
        for tp, state in list(self._states.items()):
            match state:
                case Deleted(offset, topic_id) if tp not in log:
                    self._states[tp] = Dropped(offset, topic_id)
                case Moving(to) if log.get(tp) == to:
                    del self._states[tp]
                case Dropped() if tp in log:
                    del self._states[tp]

    def without_deleted(self, offsets: Mapping[TopicPartition, int]) -> Offsets:
        if not self._states:
            return dict(offsets)
        return {tp: offset for tp, offset in offsets.items() if not isinstance(self._states.get(tp), Deleted)}

    def without_changing(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Without partitions that continue elsewhere than at their offset in the log."""
        if not self._states:
            return offsets
        return {tp: offset for tp, offset in offsets.items() if not self.is_changing(tp)}

    @property
    def moves(self) -> Offsets:
        """Where the moving partitions continue."""
        return {tp: state.to for tp, state in self._states.items() if isinstance(state, Moving)}

    @property
    def recreated(self) -> frozenset[TopicPartition]:
        return frozenset(tp for tp, state in self._states.items() if isinstance(state, Recreated))

    def is_changing(self, tp: TopicPartition) -> bool:
        """Whether the partition continues elsewhere than at its offset in the log."""
        return isinstance(self._states.get(tp), Recreated | Moving)

    def deleted_among(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Deleted]:
        deleted = {tp: state for tp, state in self._states.items() if isinstance(state, Deleted)}
        return {tp: deleted[tp] for tp in deleted.keys() & set(partitions)} if deleted else {}

    def dropped_among(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Dropped]:
        return {tp: state for tp in partitions if isinstance(state := self._states.get(tp), Dropped)}
