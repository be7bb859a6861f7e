"""Where partitions stand before their next record: a floor of the event-time watermark after it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.planner.alignment.drift import NOTHING


class Floors:
    """The event-time watermark that a partition has at least once its next record is read. For one thread."""

    def __init__(self) -> None:
        self._floors: dict[TopicPartition, tuple[int, int]] = {}
        """The partition's position, and the floor there. NOTHING: the index does not show it."""

    def set(self, tp: TopicPartition, position: int, floor: int) -> None:
        self._floors[tp] = position, floor

    def missing(self, position: Mapping[TopicPartition, int]) -> Offsets:
        """The partitions whose floor at their position is not set."""
        return {tp: at for tp, at in position.items() if tp not in self._floors or self._floors[tp][0] != at}

    def stands(self, tp: TopicPartition, mark: int | None, position: Mapping[TopicPartition, int]) -> int | None:
        """The higher of a partition's event-time watermark and its floor; None if neither is known."""
        at, floor = self._floors.get(tp, (-1, NOTHING))
        if at != position.get(tp):
            return mark
        return floor if mark is None else max(floor, mark)

    def forget(self, tp: TopicPartition) -> None:
        self._floors.pop(tp, None)
