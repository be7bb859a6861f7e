"""Keeps the partitions of a stream within the allowed drift (E4), and tracks which of them are idle (E3).

Spark's watermark is the highest event time of all that it has read. So a batch must not hold records that are further
ahead of the slowest active partition than `eventTime.maxDrift`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from penstock.config.event_time import EventTimeOptions
from penstock.eventtime.tracker import EventTimeStatus, PartitionEventTime, WatermarkTracker
from penstock.masking import get_logger
from penstock.model.topic_partition import Offsets, TopicPartition, listed
from penstock.model.watermark_columns import Watermarks
from penstock.planner.alignment.lookup import NewestTimestamps, PayloadLookup, TimeLookup
from penstock.planner.alignment.pace import Paces
from penstock.planner.alignment.payload_times import PayloadTimes
from penstock.planner.alignment.record_timestamps import RecordTimestamps
from penstock.planner.alignment.time_source import TimeSource

log = get_logger(__name__)

WARNING_SECONDS = 60.0
"""Between two warnings that partitions wait for others."""


@dataclass(frozen=True, slots=True)
class PartitionRead:
    """What the tasks of a batch have reported about a partition."""

    stop: int
    event_time: int | None
    """The highest; None if no record has one."""
    complete: bool = True
    """Whether all tasks of the partition have reported."""


class Alignment:
    """Event-time watermarks of a stream's partitions, and how far each may be read. For one thread."""

    def __init__(
        self,
        options: EventTimeOptions,
        lookup: TimeLookup,
        payloads: PayloadLookup | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`payloads`: for event times in the payload."""
        self._strategy = options.strategy
        self._clock, self._wall_clock = clock, wall_clock
        self._tracker = WatermarkTracker(options.strategy.idleness, options.strategy.max_drift)
        self._newest = NewestTimestamps(lookup)
        self._paces = Paces()
        marks = self._paces, self._mark_of, self._tracker.watermark, options.strategy.max_drift
        self._times: TimeSource = (
            RecordTimestamps(lookup, self._newest, *marks) if options.by_record else PayloadTimes(payloads, *marks)
        )
        self._known: Offsets = {}
        """Up to which offset the event-time watermark of a partition counts."""
        self._timeless: set[TopicPartition] = set()
        """Partitions whose last offsets had no event time: markers of transactions, aborted records, payloads without
        the field. Their logs grow, but bring no event time to wait for."""
        self._offered: Offsets = {}
        """The positions of partitions with something to read, at the last trigger that saw them."""
        self._held: frozenset[TopicPartition] = frozenset()
        self._seen: set[TopicPartition] = set()
        """Partitions that had an end at some trigger."""
        self._warned_at = float("-inf")

    # --- what was read ------------------------------------------------------------------------------------------------

    def learn(self, reads: Mapping[TopicPartition, PartitionRead]) -> None:
        """Take the reports of the batch before."""
        now = self._clock()
        for tp, read in reads.items():
            before, at = self._tracker.watermark(tp), self._known.get(tp)
            if read.event_time is not None:
                self._tracker.observe(tp, self._mark_of(read.event_time), now)
                self._timeless.discard(tp)
            elif read.complete:
                self._timeless.add(tp)
            if at is not None and at < read.stop:
                after = self._tracker.watermark(tp)
                passed = None if before is None or after is None else after - before
                self._paces.learn(tp, read.stop - at, passed)
            # `restore` asks an index for what is missing. For payloads nothing better is known than these reports.
            if read.complete or not self._times.is_indexed:
                self._known[tp] = read.stop

    def restore(self, position: Offsets) -> None:
        """Find the event-time watermarks before these offsets, where no task has reported them."""
        unknown = {tp: offset for tp, offset in position.items() if self._known.get(tp) != offset}
        if not unknown:
            return
        found = self._times.highest_before(unknown)
        self._tracker.set_partitions({*position, *self._known}, now := self._clock())
        unmoved: Offsets = {}
        for tp, offset in unknown.items():
            event_time, before = found.get(tp), self._tracker.watermark(tp)
            at = self._known.get(tp, offset)
            if offset < at:
                self._newest.forget(tp)  # a truncated log may have the same end again, with other records
            if event_time is not None and (before is None or self._mark_of(event_time) > before):
                self._tracker.observe(tp, self._mark_of(event_time), now)
                self._timeless.discard(tp)
            elif at < offset:
                unmoved[tp] = at
            self._known[tp] = offset
        # These offsets did not raise the watermark. Perhaps they had no event times at all.
        timed = self._times.timed_at(unmoved)
        self._timeless.difference_update(timed)
        self._timeless.update(unmoved.keys() - timed)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Discards what is known of recreated partitions."""
        if not partitions:
            return
        for tp in partitions:
            self._forget(tp)
        now = self._clock()
        self._tracker.set_partitions(self._tracker.status(now).partitions.keys() - set(partitions), now)

    def _forget(self, tp: TopicPartition) -> None:
        self._known.pop(tp, None)
        self._times.forget(tp)
        self._newest.forget(tp)
        self._paces.forget(tp)
        self._seen.discard(tp)
        self._timeless.discard(tp)

    def watermarks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Watermarks]:
        """The combined event-time watermark, the same for all, and each partition's own."""
        combined = self._tracker.combined(self._clock())
        return {tp: (combined, self._tracker.watermark(tp)) for tp in partitions}

    def status(self) -> EventTimeStatus:
        """Event-time watermarks, idle and held partitions, for the metrics."""
        status = self._tracker.status(self._clock())
        return EventTimeStatus(
            status.combined,
            {
                tp: PartitionEventTime(each.watermark, each.idle, tp in self._held)
                for tp, each in status.partitions.items()
            },
        )

    # --- one trigger --------------------------------------------------------------------------------------------------

    def align(
        self, position: Offsets, ends: Offsets, *, limited: bool = False, finished: Collection[TopicPartition] = ()
    ) -> Offsets:
        """The ends of a trigger, none further than the drift allows.

        `limited`: the trigger may read less than these ends. `finished`: partitions that end for good at their
        position.
        """
        backlog = self.update(position, ends, finished)
        now = self._clock()
        aligned = ends
        if self._strategy.max_drift is not None and backlog:
            wanted = {tp: ends[tp] for tp in backlog}
            aligned = ends | self._times.stops(position, wanted, self._active(now), limited=limited)
        self._held = frozenset(tp for tp in backlog if aligned[tp] < ends[tp])
        self._warn_if_stuck(backlog, position, ends, aligned, now)
        return aligned

    def update(
        self, position: Offsets, ends: Offsets, finished: Collection[TopicPartition] = ()
    ) -> list[TopicPartition]:
        """Find out which partitions are active; returns those with something to read.

        A partition without an end has no leader that answers. What it has to read is unknown, so it stays as it is.
        """
        self.restore({tp: position[tp] for tp in ends})
        now = self._clock()
        partitions = {*position, *ends}
        for tp in self._known.keys() - partitions:
            self._forget(tp)
        self._tracker.set_partitions(partitions, now)
        backlog = [tp for tp, end in ends.items() if end > position[tp]]
        self._note_empty(partitions.difference(backlog), finished, ends, now)
        offered = {tp: position[tp] for tp in backlog}
        for tp, at in self._offered.items():
            if tp not in ends and tp not in finished and position.get(tp) == at:
                offered[tp] = at  # the records that it had before its leader went down are still there
        self._wake_timed(
            {tp: at for tp, at in offered.items() if tp in ends and self._offered.get(tp) != at}, ends, now
        )
        for tp, at in offered.items():
            # Do not simplify: a partition that was not read since, because it is held or the limit left nothing for it,
            # may have records with a time right there. If its idle clock ran on, others would pass them.
            if tp in self._timeless and self._offered.get(tp) != at:
                self._tracker.has_none(tp, now)
            else:
                self._tracker.has_records(tp, now)
        self._offered = offered
        return backlog

    def postpone(self) -> None:
        """This trigger reads nothing at all, so it proves nothing about the partitions that it does not read."""
        self._offered = {}

    def _wake_timed(self, position: Offsets, ends: Offsets, now: float) -> None:
        """Look at the new records of idle partitions whose last offsets had no event time. If they have one, the others
        wait for the partition before these records are read."""
        idle = self._tracker.status(now).idle if not self._timeless.isdisjoint(position) else ()
        asked = {tp: position[tp] for tp in idle if tp in self._timeless and tp in position}
        if asked:
            self._timeless.difference_update(self._times.timed_from(asked, ends))

    def _note_empty(
        self, empty: Collection[TopicPartition], finished: Collection[TopicPartition], ends: Offsets, now: float
    ) -> None:
        """Note the partitions without a record to read. One that this process has not seen before may have had none for
        long: then it is idle at once, as it was before a restart."""
        idleness = self._strategy.idleness
        unseen = {tp: ends[tp] for tp in empty if tp in ends and tp not in self._seen}
        stale: set[TopicPartition] = set()
        if unseen and idleness is not None:
            self._newest.look(unseen)
            latest = (self._wall_clock() - idleness) * 1000
            stale = {tp for tp in unseen if (newest := self._newest.of(tp)) is None or newest < latest}
        self._seen.update(ends)
        for tp in empty:
            if tp in finished or tp in stale:
                self._tracker.finish(tp)
            elif tp in ends:
                self._tracker.has_none(tp, now)

    def _active(self, now: float) -> dict[TopicPartition, int | None]:
        """The event-time watermarks of the partitions that are not idle."""
        partitions = self._tracker.status(now).partitions
        return {tp: each.watermark for tp, each in partitions.items() if not each.idle}

    def _mark_of(self, event_time: int) -> int:
        if self._strategy.marks is not None:
            return event_time  # tasks and samples report the watermarks that records carry, not event times
        mark = self._strategy.watermark_of(event_time)
        assert mark is not None, "options only make strategies that have one"
        return mark

    def _warn_if_stuck(
        self, backlog: Collection[TopicPartition], position: Offsets, ends: Offsets, aligned: Offsets, now: float
    ) -> None:
        """Log why a stream stands still although there is something to read."""
        held = sorted(tp for tp in backlog if tp not in self._timeless)
        if not held or any(aligned[tp] > position[tp] for tp in held) or now < self._warned_at + WARNING_SECONDS:
            return
        self._warned_at = now
        waited_for = sorted(tp for tp in self._active(now) if tp not in held)
        reasons = []
        if leaderless := [tp for tp in waited_for if tp not in ends]:
            reasons.append(f"{listed(leaderless)}, whose leader does not answer")
        if quiet := [tp for tp in waited_for if tp in ends]:
            idleness = self._strategy.idleness
            hint = "set eventTime.idleness to go on without" if idleness is None else f"{idleness:g} s at most"
            reasons.append(f"{listed(quiet)}, where no event times come: {hint}")
        log.warning(
            "%s would run ahead by more than eventTime.maxDrift, and wait for %s", listed(held), "; for ".join(reasons)
        )
