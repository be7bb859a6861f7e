"""Event time is a field of the payload. It has no index, so the pace of each partition is learned by reading it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.errors import PenstockError
from penstock.masking import get_logger
from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.planner.alignment.drift import limits_of
from penstock.planner.alignment.floors import Floors
from penstock.planner.alignment.lookup import NextRecords, PayloadLookup
from penstock.planner.alignment.pace import Paces
from penstock.planner.alignment.time_source import Marks

log = get_logger(__name__)


class PayloadTimes:
    """A TimeSource. For one thread."""

    is_indexed = False

    def __init__(
        self,
        lookup: PayloadLookup | None,
        paces: Paces,
        mark_of: Callable[[int], int],
        watermark: Callable[[TopicPartition], int | None],
        drift: int | None,
    ) -> None:
        """`mark_of`: the event-time watermark after an event time. `watermark`: that of a partition."""
        self._lookup, self._paces = lookup, paces
        self._mark_of, self._watermark, self._drift = mark_of, watermark, drift
        self._floors = Floors()

    def highest_before(self, offsets: Offsets) -> Mapping[TopicPartition, int | None]:
        if self._lookup is None:
            return {}
        try:
            return self._lookup.before(offsets)
        except PenstockError as error:
            log.warning("event times before the start are unknown, event-time watermarks start again: %s", error)
            return {}

    def timed_at(self, offsets: Offsets) -> set[TopicPartition]:
        return set()  # `highest_before` has looked at these records

    def timed_from(self, offsets: Offsets, ends: Offsets) -> set[TopicPartition]:
        return {tp for tp, following in self._next(offsets, ends).items() if following is not None}

    def forget(self, tp: TopicPartition) -> None:
        self._floors.forget(tp)

    def stops(self, position: Offsets, ends: Offsets, active: Marks, *, limited: bool) -> Offsets:
        assert self._drift is not None, "without a drift nothing stops"
        self._set_first_floors({tp: position[tp] for tp, mark in active.items() if mark is None and tp in ends}, ends)
        stands = {tp: self._floors.stands(tp, mark, position) for tp, mark in active.items()}
        limits = limits_of(stands, self._drift)
        marks = {tp: stands.get(tp, self._watermark(tp)) for tp in ends}  # idle partitions may have offsets to read
        return {tp: min(end, position[tp] + self._paces.step(tp, marks[tp], limits.of(tp))) for tp, end in ends.items()}

    def _set_first_floors(self, position: Offsets, ends: Offsets) -> None:
        """Partitions of which nothing was read stand before their next record."""
        missing = self._floors.missing(position)
        for tp, following in self._next(missing, ends).items():
            if following is not None:
                self._floors.set(tp, missing[tp], self._mark_of(following.lowest))
                self._paces.expect(tp, following)

    def _next(self, position: Offsets, ends: Offsets) -> Mapping[TopicPartition, NextRecords | None]:
        if not position or self._lookup is None:
            return {}
        try:
            return self._lookup.after(position, ends)
        except PenstockError as error:
            log.warning("event times of the next records are unknown, they are learned by reading: %s", error)
            return {}
