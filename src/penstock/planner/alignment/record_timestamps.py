"""Event time is the record's own timestamp.

Brokers know the first offset of a time, and every record before it is older. So the drift holds whatever the order of
records. The index does not show records behind the markers of transactions, which have the time of the commit, behind
batches that compaction has emptied, and behind segments of which records were deleted. There a pace is learned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.planner.alignment.drift import EVERYTHING, NOTHING, Limits, limits_of
from penstock.planner.alignment.floors import Floors
from penstock.planner.alignment.lookup import NewestTimestamps, TimeLookup
from penstock.planner.alignment.pace import Paces
from penstock.planner.alignment.time_source import Marks

LATEST_TIMESTAMP = 2**63 - 1
"""The latest timestamp that a record can have and a request can hold."""


class RecordTimestamps:
    """A TimeSource. For one thread."""

    is_indexed = True

    def __init__(
        self,
        lookup: TimeLookup,
        newest: NewestTimestamps,
        paces: Paces,
        mark_of: Callable[[int], int],
        watermark: Callable[[TopicPartition], int | None],
        drift: int | None,
    ) -> None:
        """`mark_of`: the event-time watermark after an event time. `watermark`: that of a partition."""
        self._lookup, self._newest, self._paces = lookup, newest, paces
        self._mark_of, self._watermark, self._drift = mark_of, watermark, drift
        self._floors = Floors()

    def highest_before(self, offsets: Offsets) -> Mapping[TopicPartition, int | None]:
        return self._lookup.max_timestamps(offsets)

    def timed_at(self, offsets: Offsets) -> set[TopicPartition]:
        seen = self._lookup.timestamps_of(offsets) if offsets else {}
        return {tp for tp in offsets if seen.get(tp) is not None}

    def timed_from(self, offsets: Offsets, ends: Offsets) -> set[TopicPartition]:
        return self.timed_at(offsets)

    def forget(self, tp: TopicPartition) -> None:
        self._floors.forget(tp)

    def stops(self, position: Offsets, ends: Offsets, active: Marks, *, limited: bool) -> Offsets:
        """Without a limit, everything up to the stops will be read. Mostly that is all there is, which one question
        shows. Otherwise the slowest partition is the one whose log ends first, and its newest records show which."""
        stops = self._stops_within(position, ends, active)
        if limited or stops == ends:
            return stops
        self._newest.look(ends)
        stands = {tp: self._highest(tp) if tp in ends else mark for tp, mark in active.items()}
        return self._stops(position, ends, self._limits(stands, ends))[0]

    def _stops_within(self, position: Offsets, ends: Offsets, active: Marks) -> Offsets:
        """Stops if it is unknown how far the slowest partition will be read: it stands before its next record.

        Where time jumps in the slowest partition, that record lies past the limit. Then its time sets a new limit. Each
        round lifts the slowest partition, so that one of them may go on at last.
        """
        self._set_first_floors({tp: position[tp] for tp, mark in active.items() if mark is None and tp in ends})
        last = None
        while True:
            stands = {tp: self._floors.stands(tp, mark, position) for tp, mark in active.items()}
            limits = self._limits(stands, ends)
            stops, blocked = self._stops(position, ends, limits)
            if limits == last or not blocked or any(stop > position[tp] for tp, stop in stops.items()):
                return stops
            for tp, timestamp in blocked.items():
                self._floors.set(tp, position[tp], self._mark_of(timestamp))
            last = limits

    def _limits(self, stands: Marks, ends: Offsets) -> Limits:
        """A log whose records have no timestamps has no event time that could be late: it does not count."""
        assert self._drift is not None, "without a drift nothing stops"
        return limits_of({tp: mark for tp, mark in stands.items() if mark is not None or tp not in ends}, self._drift)

    def _stops(self, position: Offsets, ends: Offsets, limits: Limits) -> tuple[Offsets, dict[TopicPartition, int]]:
        """Where to stop so that no event-time watermark passes its limit; and the timestamp of the next record where
        that alone passes it."""
        stops, times = self._undecided(position, ends, limits)
        found, unknown = self._lookup.by_time(times) if times else ({}, ())
        # Where brokers do not know the offset, at least the next record is looked at.
        at = {tp: found[tp][0] if tp in found else position[tp] if tp in unknown else ends[tp] for tp in times}
        next_offsets = {tp: offset for tp, offset in at.items() if offset == position[tp]}
        seen = self._lookup.timestamps_of(next_offsets) if next_offsets else {}
        blocked = {tp: stamp for tp, stamp in seen.items() if stamp is not None and stamp >= times[tp]}
        for tp, offset in at.items():
            # Before the position everything was read, and no record of it was past the limit.
            is_hidden = offset < position[tp] or (tp in seen and tp not in blocked)
            learned = position[tp] + self._paces.step(tp, self._watermark(tp), limits.of(tp))
            stops[tp] = min(ends[tp], learned if is_hidden else offset)
        return stops, blocked

    def _undecided(self, position: Offsets, ends: Offsets, limits: Limits) -> tuple[Offsets, dict[TopicPartition, int]]:
        """Stops as far as they are known without a question; and for the other partitions the first timestamp that
        would lift the event-time watermark past its limit."""
        stops = dict(ends)
        times: dict[TopicPartition, int] = {}
        for tp in ends:
            limit, mark = limits.of(tp), self._watermark(tp)
            if limit == NOTHING and self._floors.stands(tp, mark, position) == NOTHING:
                # Partitions without a known time wait for each other: each reads a step.
                stops[tp] = min(ends[tp], position[tp] + self._paces.step(tp, None, limit))
            elif limit == NOTHING or (mark is not None and mark > limit):
                stops[tp] = position[tp]
            elif limit != EVERYTHING and not self._ends_within(tp, ends[tp], limit):
                first = limit - self._mark_of(0) + 1
                if first <= LATEST_TIMESTAMP:
                    times[tp] = first
        return stops, times

    def _ends_within(self, tp: TopicPartition, end: int, limit: int) -> bool:
        """Whether a log is known to have nothing past a limit."""
        if not self._newest.knows(tp, end):
            return False
        highest = self._highest(tp)
        return highest is None or highest <= limit

    def _set_first_floors(self, position: Offsets) -> None:
        """Partitions of which nothing was read stand before the first record of their log."""
        missing = self._floors.missing(position)
        if not missing:
            return
        found, hidden = self._lookup.by_time(dict.fromkeys(missing, 0))
        first = {tp: offset for tp, (offset, _) in found.items()} | {tp: position[tp] for tp in hidden}
        # The first entry of the index may be a marker or an aborted record, which says nothing about the records.
        following = {tp: offset for tp, offset in first.items() if offset >= position[tp]}
        seen = self._lookup.timestamps_of(following) if following else {}
        for tp in first:
            timestamp = seen.get(tp)
            self._floors.set(tp, position[tp], NOTHING if timestamp is None else self._mark_of(timestamp))

    def _highest(self, tp: TopicPartition) -> int | None:
        """The event-time watermark of a partition when its log is read to the end."""
        newest, known = self._newest.of(tp), self._watermark(tp)
        if newest is None:
            return known
        return self._mark_of(newest) if known is None else max(self._mark_of(newest), known)
