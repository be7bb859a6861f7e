"""WHO WAITS FOR WHOM: how far each partition may go in one trigger, so that none runs ahead of the slowest (E4).

Spark's watermark is the highest event time of everything it has read. So a batch must not hold records that are further
ahead of the slowest active partition than the drift allows. Where event time is the record's own timestamp, brokers
know the first offset of a time, and everything before it is older: the bound holds, whatever the order of records. A
field of the payload has no index, so how fast time passes in a partition is learned from what was read of it. So it is
where the index does not show the records: behind markers of transactions, which bear the time of the commit, behind
batches that compaction has emptied, and behind segments of which records were deleted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from penstock.config.event_time import EventTimeOptions
from penstock.errors import PenstockError
from penstock.eventtime.tracker import EventTimeStatus, PartitionEventTime, WatermarkTracker
from penstock.model.topic_partition import Offsets, TopicPartition, listed
from penstock.planner.alignment.drift import EVERYTHING, NOTHING, Limits, limits_of
from penstock.planner.alignment.lookup import Newest, Peek, TimeLookup
from penstock.planner.alignment.pace import Ahead, Paces

log = logging.getLogger(__name__)

SAID_SECONDS = 60.0
"""How often the log says who holds the others back."""

LATEST_TIMESTAMP = 2**63 - 1
"""That a record can have, and that a broker can be asked for."""


@dataclass(frozen=True, slots=True)
class Read:
    """What the tasks of a batch have read of a partition."""

    stop: int
    event_time: int | None
    """The highest; None if no record had one."""
    complete: bool = True
    """Whether all of its tasks have told."""


class Alignment:
    """Event-time watermarks of a stream's partitions, and how far each may be read. For one thread."""

    def __init__(
        self,
        options: EventTimeOptions,
        lookup: TimeLookup,
        peek: Peek | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`peek` is for event times in the payload."""
        self._strategy = options.strategy
        self._by_record = options.by_record
        self._lookup, self._peek = lookup, peek
        self._clock, self._wall_clock = clock, wall_clock
        self._tracker = WatermarkTracker(options.strategy.idleness, options.strategy.max_drift)
        self._known: Offsets = {}
        """Up to where the event-time watermark of a partition counts."""
        self._newest = Newest(lookup)
        self._floors: dict[TopicPartition, tuple[int, int]] = {}
        """A partition's position, and the event-time watermark that it will have with the next record at least. NOTHING
        is: the index cannot tell."""
        self._paces = Paces()
        self._timeless: set[TopicPartition] = set()
        """Partitions of which the last offsets that were read had no event time: markers of transactions, aborted
        records, payloads without it. Their logs grow, and still nothing comes by which one could wait for them."""
        self._offered: Offsets = {}
        """Where partitions stood at the last trigger that had something to read, when they were last seen."""
        self._held: frozenset[TopicPartition] = frozenset()
        self._seen: set[TopicPartition] = set()
        self._said_at = float("-inf")

    # --- what is known ------------------------------------------------------------------------------------------------

    def learn(self, told: Mapping[TopicPartition, Read]) -> None:
        """Take what tasks have told of the batch before."""
        now = self._clock()
        for tp, read in told.items():
            before, at = self._tracker.watermark(tp), self._known.get(tp)
            if read.event_time is not None:
                self._tracker.observe(tp, self._mark(read.event_time), now)
                self._timeless.discard(tp)
            elif read.complete:
                self._timeless.add(tp)
            if at is not None and at < read.stop:
                after = self._tracker.watermark(tp)
                passed = None if before is None or after is None else after - before
                self._paces.learn(tp, read.stop - at, passed)
            if read.complete or not self._by_record:  # of a payload nobody else can tell more
                self._known[tp] = read.stop

    def restore(self, position: Offsets) -> None:
        """Find out what was read before these offsets, where no task has told."""
        unknown = {tp: offset for tp, offset in position.items() if self._known.get(tp) != offset}
        if not unknown:
            return
        found = self._lookup.max_timestamps(unknown) if self._by_record else self._peeked(unknown)
        self._tracker.set_partitions({*position, *self._known}, now := self._clock())
        unmoved: Offsets = {}
        for tp, offset in unknown.items():
            event_time, before = found.get(tp), self._tracker.watermark(tp)
            at = self._known.get(tp, offset)
            if offset < at:
                self._newest.forget(tp)  # its log was cut, and may have the same end again with other records
            if event_time is not None and (before is None or self._mark(event_time) > before):
                self._tracker.observe(tp, self._mark(event_time), now)
                self._timeless.discard(tp)
            elif at < offset:
                unmoved[tp] = at
            self._known[tp] = offset
        # Of what was read, nothing was later than what had been read before. Perhaps it had no times at all.
        seen = self._lookup.timestamps_of(unmoved) if self._by_record and unmoved else {}
        for tp in unmoved:
            if seen.get(tp) is None:
                self._timeless.add(tp)
            else:
                self._timeless.discard(tp)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """These are of another topic now: nothing that is known of them holds."""
        if not partitions:
            return
        for tp in partitions:
            self._forget(tp)
        now = self._clock()
        self._tracker.set_partitions(self._tracker.status(now).partitions.keys() - set(partitions), now)

    def _forget(self, tp: TopicPartition) -> None:
        self._known.pop(tp, None)
        self._floors.pop(tp, None)
        self._newest.forget(tp)
        self._paces.forget(tp)
        self._seen.discard(tp)
        self._timeless.discard(tp)

    def _peeked(self, unknown: Offsets) -> Mapping[TopicPartition, int | None]:
        if self._peek is None:
            return {}
        try:
            return self._peek.before(unknown)
        except PenstockError as error:
            log.warning("event times before the start are not known, event-time watermarks begin anew: %s", error)
            return {}

    def watermarks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, tuple[int | None, int | None]]:
        """The combined event-time watermark, the same for all of them, and each partition's own."""
        combined = self._tracker.combined(self._clock())
        return {tp: (combined, self._tracker.watermark(tp)) for tp in partitions}

    def status(self) -> EventTimeStatus:
        status = self._tracker.status(self._clock())
        return EventTimeStatus(
            status.combined,
            {
                tp: PartitionEventTime(each.watermark, each.idle, tp in self._held)
                for tp, each in status.partitions.items()
            },
        )

    # --- one trigger --------------------------------------------------------------------------------------------------

    def cut(
        self, position: Offsets, ends: Offsets, *, limited: bool = False, finished: Collection[TopicPartition] = ()
    ) -> Offsets:
        """Ends of a trigger, none further than the drift allows.

        `limited`: less than these ends may be read. `finished`: partitions that end for good where they stand.
        """
        backlog = self.take_stock(position, ends, finished)
        now = self._clock()
        if self._strategy.max_drift is None or not backlog:
            cut = ends
        else:
            by_time = self._by_pace if not self._by_record else self._within_limit if limited else self._by_index
            cut = ends | by_time(position, {tp: ends[tp] for tp in backlog}, now)
        self._held = frozenset(tp for tp in backlog if cut[tp] < ends[tp])
        self._say(backlog, position, ends, cut, now)
        return cut

    def take_stock(
        self, position: Offsets, ends: Offsets, finished: Collection[TopicPartition] = ()
    ) -> list[TopicPartition]:
        """Find out who is active, and where; returns those that have something to read. Without an end: partitions
        whose leader does not answer. What there is to read of them nobody knows, so they stay as they are."""
        self.restore({tp: position[tp] for tp in ends})
        now = self._clock()
        partitions = {*position, *ends}
        for tp in self._known.keys() - partitions:
            self._forget(tp)
        self._tracker.set_partitions(partitions, now)
        backlog = [tp for tp, end in ends.items() if end > position[tp]]
        self._note_idle(partitions.difference(backlog), finished, ends, now)
        offered = {tp: position[tp] for tp in backlog}
        for tp, at in self._offered.items():
            if tp not in ends and tp not in finished and position.get(tp) == at:
                offered[tp] = at  # what was there to read before its leader went away, still is
        self._wake_timed(
            {tp: at for tp, at in offered.items() if tp in ends and self._offered.get(tp) != at}, ends, now
        )
        for tp, at in offered.items():
            # Do not simplify: one that was not read since, because it is held or the limit left nothing for it, may
            # have records with a time right there. If the idle clock ran on, others would pass them.
            if tp in self._timeless and self._offered.get(tp) != at:
                self._tracker.has_none(tp, now)
            else:
                self._tracker.has_records(tp, now)
        self._offered = offered
        return backlog

    def _wake_timed(self, position: Offsets, ends: Offsets, now: float) -> None:
        """Idle partitions whose last offsets had no event time, and of which there is more now: see whether what comes
        next has one. Then they are waited for before it is read."""
        idle = self._tracker.status(now).idle if not self._timeless.isdisjoint(position) else ()
        asked = {tp: position[tp] for tp in idle if tp in self._timeless and tp in position}
        if asked and self._by_record:
            seen = self._lookup.timestamps_of(asked)
            self._timeless.difference_update(tp for tp in asked if seen.get(tp) is not None)
        elif asked:
            ahead = self._peeked_ahead(asked, ends)
            self._timeless.difference_update(tp for tp in asked if ahead.get(tp) is not None)

    def postpone(self) -> None:
        """Nothing at all is read this time. So it says nothing of a partition that it was not read."""
        self._offered = {}

    def _note_idle(
        self, without: Collection[TopicPartition], finished: Collection[TopicPartition], ends: Offsets, now: float
    ) -> None:
        """Partitions without a record to read. One that is new to us may have had none for long: then it is idle at
        once, as it was before a restart."""
        idleness = self._strategy.idleness
        fresh = {tp: ends[tp] for tp in without if tp in ends and tp not in self._seen}
        stale: set[TopicPartition] = set()
        if fresh and idleness is not None:
            self._newest.look(fresh)
            latest = (self._wall_clock() - idleness) * 1000
            stale = {tp for tp in fresh if (newest := self._newest.of(tp)) is None or newest < latest}
        self._seen.update(ends)
        for tp in without:
            if tp in finished or tp in stale:
                self._tracker.finish(tp)
            elif tp in ends:
                self._tracker.has_none(tp, now)

    # --- by the record's own timestamp --------------------------------------------------------------------------------

    def _by_index(self, position: Offsets, ends: Offsets, now: float) -> Offsets:
        """Everything up to the cut will be read. Mostly that is all there is, as one question shows; else the slowest
        is the one whose log ends first, and to know that the newest records have to be looked at."""
        stops = self._within_limit(position, ends, now)
        if stops == ends:
            return stops
        self._newest.look(ends)
        stands = {tp: self._highest(tp) if tp in ends else mark for tp, mark in self._active(now).items()}
        # A log whose records have no timestamps has no event time that could be late.
        limits = self._limits({tp: mark for tp, mark in stands.items() if mark is not None or tp not in ends})
        return self._stops(position, ends, limits)[0]

    def _within_limit(self, position: Offsets, ends: Offsets, now: float) -> Offsets:
        """Nobody knows how far the slowest will get, so what counts is where it stands: before its next record.

        Where time jumps in the slowest partition, that record lies past the limit: then the limit is set anew by its
        time. Each round lifts the slowest, so that at last one of them may go on.
        """
        active = self._active(now)
        self._note_first_records({tp: position[tp] for tp, mark in active.items() if mark is None and tp in ends})
        last = None
        while True:
            stands = {tp: self._stands(tp, mark, position) for tp, mark in active.items()}
            limits = self._limits({tp: mark for tp, mark in stands.items() if mark is not None or tp not in ends})
            stops, blocked = self._stops(position, ends, limits)
            if limits == last or not blocked or any(stop > position[tp] for tp, stop in stops.items()):
                return stops
            self._floors |= {tp: (position[tp], self._mark(timestamp)) for tp, timestamp in blocked.items()}
            last = limits

    def _stops(self, position: Offsets, ends: Offsets, limits: Limits) -> tuple[Offsets, dict[TopicPartition, int]]:
        """Where to stop so that no event-time watermark passes its limit; and the time of the next record, where that
        alone would pass it."""
        stops = dict(ends)
        times: dict[TopicPartition, int] = {}
        for tp in ends:
            limit, mark = limits.of(tp), self._tracker.watermark(tp)
            if limit == NOTHING and self._stands(tp, mark, position) == NOTHING:
                stops[tp] = min(ends[tp], position[tp] + self._paces.step(tp, None, limit))  # they wait for each other
            elif limit == NOTHING or (mark is not None and mark > limit):
                stops[tp] = position[tp]
            elif limit != EVERYTHING and not self._ends_within(tp, ends[tp], limit):
                first = limit - self._mark(0) + 1  # the first event time whose event-time watermark would be past it
                if first <= LATEST_TIMESTAMP:
                    times[tp] = first
        found, unknown = self._lookup.by_time(times) if times else ({}, ())
        # Of what brokers do not know at least the next record is looked at.
        at = {tp: found[tp][0] if tp in found else position[tp] if tp in unknown else ends[tp] for tp in times}
        next_ones = {tp: offset for tp, offset in at.items() if offset == position[tp]}
        seen = self._lookup.timestamps_of(next_ones) if next_ones else {}
        blocked = {tp: stamp for tp, stamp in seen.items() if stamp is not None and stamp >= times[tp]}
        for tp, offset in at.items():
            # What lies before the position was read, and no record of it was past the limit.
            hidden = offset < position[tp] or (tp in seen and tp not in blocked)
            learned = position[tp] + self._paces.step(tp, self._tracker.watermark(tp), limits.of(tp))
            wanted = learned if hidden else offset
            stops[tp] = min(ends[tp], wanted)
        return stops, blocked

    def _ends_within(self, tp: TopicPartition, end: int, limit: int) -> bool:
        """Whether a log is known to hold nothing past a limit."""
        if not self._newest.knows(tp, end):
            return False
        highest = self._highest(tp)
        return highest is None or highest <= limit

    def _note_first_records(self, position: Offsets) -> None:
        """Partitions of which nothing was read stand before the first record of their log."""
        unknown = [tp for tp, at in position.items() if self._floors.get(tp, (-1, 0))[0] != at]
        if not unknown:
            return
        found, hidden = self._lookup.by_time(dict.fromkeys(unknown, 0))
        first = {tp: offset for tp, (offset, _) in found.items()} | {tp: position[tp] for tp in hidden}
        # What comes first by the index may be a marker or an aborted record: then it says nothing of the records.
        ahead = {tp: offset for tp, offset in first.items() if offset >= position[tp]}
        seen = self._lookup.timestamps_of(ahead) if ahead else {}
        for tp in first:
            timestamp = seen.get(tp)
            self._floors[tp] = position[tp], NOTHING if timestamp is None else self._mark(timestamp)

    def _stands(self, tp: TopicPartition, mark: int | None, position: Offsets) -> int | None:
        at, floor = self._floors.get(tp, (-1, NOTHING))
        if at != position.get(tp):
            return mark
        return floor if mark is None else max(floor, mark)

    def _highest(self, tp: TopicPartition) -> int | None:
        """The event-time watermark that a partition has when its log is read to the end."""
        newest, known = self._newest.of(tp), self._tracker.watermark(tp)
        if newest is None:
            return known
        return self._mark(newest) if known is None else max(self._mark(newest), known)

    # --- by what was learned ------------------------------------------------------------------------------------------

    def _by_pace(self, position: Offsets, ends: Offsets, now: float) -> Offsets:
        active = self._active(now)
        self._look_ahead({tp: position[tp] for tp, mark in active.items() if mark is None and tp in ends}, ends)
        stands = {tp: self._stands(tp, mark, position) for tp, mark in active.items()}
        limits = self._limits(stands)
        marks = {tp: stands.get(tp, self._tracker.watermark(tp)) for tp in ends}  # idle ones may have offsets to read
        return {tp: min(end, position[tp] + self._paces.step(tp, marks[tp], limits.of(tp))) for tp, end in ends.items()}

    def _look_ahead(self, position: Offsets, ends: Offsets) -> None:
        """Partitions of which nothing was read stand before their next record, in the payload too."""
        unknown = {tp: at for tp, at in position.items() if self._floors.get(tp, (-1, 0))[0] != at}
        for tp, ahead in self._peeked_ahead(unknown, ends).items():
            if ahead is not None:
                self._floors[tp] = unknown[tp], self._mark(ahead.lowest)
                self._paces.expect(tp, ahead)

    def _peeked_ahead(self, position: Offsets, ends: Offsets) -> Mapping[TopicPartition, Ahead | None]:
        if not position or self._peek is None:
            return {}
        try:
            return self._peek.after(position, ends)
        except PenstockError as error:
            log.warning("event times of the next records are not known, they are learned by reading: %s", error)
            return {}

    # --- both ---------------------------------------------------------------------------------------------------------

    def _active(self, now: float) -> dict[TopicPartition, int | None]:
        partitions = self._tracker.status(now).partitions
        return {tp: each.watermark for tp, each in partitions.items() if not each.idle}

    def _limits(self, stands: Mapping[TopicPartition, int | None]) -> Limits:
        assert self._strategy.max_drift is not None, "without one nothing is cut"
        return limits_of(stands, self._strategy.max_drift)

    def _mark(self, event_time: int) -> int:
        mark = self._strategy.watermark_of(event_time)
        assert mark is not None, "options only make strategies that have one"
        return mark

    def _say(
        self, backlog: Collection[TopicPartition], position: Offsets, ends: Offsets, cut: Offsets, now: float
    ) -> None:
        """A stream that stands still although there is something to read should say why."""
        held = sorted(tp for tp in backlog if tp not in self._timeless)
        if not held or any(cut[tp] > position[tp] for tp in held) or now < self._said_at + SAID_SECONDS:
            return
        self._said_at = now
        waited_for = sorted(tp for tp in self._active(now) if tp not in held)
        reasons = []
        if silent := [tp for tp in waited_for if tp not in ends]:
            reasons.append(f"{listed(silent)}, whose leader does not answer")
        if quiet := [tp for tp in waited_for if tp in ends]:
            idleness = self._strategy.idleness
            hint = "set eventTime.idleness to go on without" if idleness is None else f"{idleness:g} s at most"
            reasons.append(f"{listed(quiet)}, where no event times come: {hint}")
        log.warning(
            "%s would run ahead by more than eventTime.maxDrift, and wait for %s", listed(held), "; for ".join(reasons)
        )
