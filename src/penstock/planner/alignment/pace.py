"""HOW FAST TIME PASSES in a partition, learned from what was read of it: for event times of which no index shows where
they lie. It says how many offsets to read next, and is right on average, not for each record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.model.topic_partition import TopicPartition

FIRST_STEP = 10_000
"""Offsets of a partition whose times are not known yet."""

GROWTH = 8
"""A step by what was learned is at most so many times the last one: few records may have taught the wrong thing."""


class Ahead(NamedTuple):
    """The next few records of a partition: their event times, and how many offsets they are."""

    lowest: int
    highest: int
    offsets: int


@dataclass(frozen=True, slots=True)
class _Pace:
    offsets: int
    """Of the last batch that read of it."""
    per_offset: float | None
    """Milliseconds; None while nothing is known."""


class Paces:
    """The pace of each partition."""

    def __init__(self) -> None:
        self._paces: dict[TopicPartition, _Pace] = {}

    def learn(self, tp: TopicPartition, offsets: int, passed: int | None) -> None:
        """So many offsets were read, and so much time has passed in them, if that can be told."""
        if passed is not None:
            self._paces[tp] = _Pace(offsets, passed / offsets)
        else:
            before = self._paces.get(tp)
            self._paces[tp] = _Pace(offsets, None if before is None else before.per_offset)

    def expect(self, tp: TopicPartition, ahead: Ahead) -> None:
        """Nothing was read yet, but this is what comes next."""
        self._paces[tp] = _Pace(ahead.offsets, (ahead.highest - ahead.lowest) / ahead.offsets)

    def step(self, tp: TopicPartition, stands: int | None, limit: int) -> int:
        """How many offsets lead from an event-time watermark to another one, and not far past it."""
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
