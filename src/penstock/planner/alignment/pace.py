"""How fast event time passes in a partition, learned from what was read of it. Pure.

For event times that no index shows. It estimates how many offsets to read next: right on average, not for each record.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.model.topic_partition import TopicPartition
from penstock.planner.alignment.lookup import NextRecords

FIRST_STEP = 10_000
"""Offsets to read of a partition whose pace is unknown."""

GROWTH = 8
"""A step is at most so many times the last one: a few records may have taught the wrong pace."""


@dataclass(frozen=True, slots=True)
class _Pace:
    offsets: int
    """That the last batch has read."""
    per_offset: float | None
    """Milliseconds of event time; None while unknown."""


class Paces:
    """The pace of each partition. For one thread."""

    def __init__(self) -> None:
        self._paces: dict[TopicPartition, _Pace] = {}

    def learn(self, tp: TopicPartition, offsets: int, passed: int | None) -> None:
        """So many offsets were read, in which so much event time has passed; None if unknown."""
        if passed is not None:
            self._paces[tp] = _Pace(offsets, passed / offsets)
        else:
            before = self._paces.get(tp)
            self._paces[tp] = _Pace(offsets, None if before is None else before.per_offset)

    def expect(self, tp: TopicPartition, following: NextRecords) -> None:
        """Nothing was read yet, but these are the next records."""
        self._paces[tp] = _Pace(following.offsets, (following.highest - following.lowest) / following.offsets)

    def step(self, tp: TopicPartition, stands: int | None, limit: int) -> int:
        """How many offsets lead from an event-time watermark to a limit, and not far past it."""
        if stands is None:
            return FIRST_STEP
        if stands > limit:
            return 0
        pace = self._paces.get(tp)
        if pace is None or pace.per_offset is None:
            return FIRST_STEP
        most = max(FIRST_STEP, GROWTH * pace.offsets)
        return most if pace.per_offset <= 0 else max(1, min(most, int((limit - stands) / pace.per_offset)))

    def forget(self, tp: TopicPartition) -> None:
        self._paces.pop(tp, None)
