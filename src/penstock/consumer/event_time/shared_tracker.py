"""The watermark tracker that all streams of a connector share, and the partitions that it holds back (E2 to E5).

Locks: threads come here with their stream's lock held. So no code calls a stream while it holds this tracker's lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from penstock.consumer.event_time.timed_records import TimedRecords
from penstock.consumer.fetch.cursor import Cursor
from penstock.errors import OptionError
from penstock.eventtime.strategy import WatermarkStrategy
from penstock.eventtime.tracker import EventTimeStatus, WatermarkTracker
from penstock.masking import get_logger
from penstock.model.topic_partition import TopicPartition

log = get_logger(__name__)

ANSWER_SECONDS = 1.0
"""For at least this long, a broker's answer that a partition has nothing to read is taken as current. A broker is asked
every `fetch.max.wait.ms`, half a second by default, and answers at once when records come. Twice that allows for a busy
machine: with less, a partition at its end would hold back the others whenever an answer is a little late."""

NO_TIMES_SECONDS = 10.0
"""A partition whose records have had no event time for this long is logged once."""


class Progress(NamedTuple):
    """The event-time watermarks after some records, in milliseconds, and how many of the records were late."""

    combined: int | None
    partition: int | None
    late: int


class SharedTracker:
    """Every method may be called by any thread."""

    def __init__(
        self,
        strategy: WatermarkStrategy,
        clock: Callable[[], float] = time.monotonic,
        *,
        fetch_max_wait: float = 0.0,
    ) -> None:
        """`clock` must be the clock of `Cursor.answered_at`."""
        self.strategy = strategy
        self._clock = clock
        self._answer_seconds = max(ANSWER_SECONDS, 2 * fetch_max_wait)
        self._lock = threading.Lock()
        self._tracker = WatermarkTracker(strategy.idleness, strategy.max_drift)
        self._held_back: set[Cursor] = set()
        self._checked_limit: int | None = None
        """The limit at which all of those had to stay held back; None if another one was added since."""
        self._without_times: dict[TopicPartition, float] = {}
        """Partitions whose records have no event time, and since when. They count as partitions without records."""
        self._to_warn_of: set[TopicPartition] = set()
        """Those of them that have handed out records. Of the others the user's deserializer has skipped every
        record."""
        self._warned: set[TopicPartition] = set()
        self._late = 0
        self.on_punctuated: Callable[[int], None] = lambda watermark: None
        """Called with each new combined watermark of a punctuated strategy, by the streams' threads, in order. It must
        not block."""

    # --- rebalances: the membership thread ----------------------------------------------------------------------------

    def set_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Replace the assigned partitions. The combined watermark never goes back (F19)."""
        with self._lock:
            self._tracker.set_partitions(partitions, self._clock())
            self._held_back = {cursor for cursor in self._held_back if not cursor.revoked}
            self._without_times = {tp: since for tp, since in self._without_times.items() if tp in partitions}
            self._to_warn_of &= self._without_times.keys()

    # --- fetchers, with the stream's lock held ------------------------------------------------------------------------

    def has_records(self, tp: TopicPartition) -> None:
        """Records of a partition were queued. Noted at once: before the next check the partition could turn idle, and
        its records would be late."""
        with self._lock:
            if tp not in self._without_times:
                self._tracker.has_records(tp, self._clock())

    # --- the streams' threads, with the stream's lock held ------------------------------------------------------------

    def holds_back(self, cursor: Cursor) -> bool:
        """Whether no record of the partition may be handed out now, because it is too far ahead of the slowest (E4)."""
        if self.strategy.max_drift is None:
            return False
        with self._lock:
            cursor.held_back = self._tracker.is_ahead(cursor.tp, self._clock())
            if cursor.held_back:
                self._held_back.add(cursor)
                self._checked_limit = None
            else:
                self._held_back.discard(cursor)
            return cursor.held_back

    def rows_within(self, tp: TopicPartition, decoded: TimedRecords) -> int:
        """How many of these records may be handed out before their partition is held back.

        The record that passes the limit is included. Otherwise a gap in time that all partitions have would hold all of
        them forever.
        """
        watermark = decoded.watermark
        if self.strategy.max_drift is None or watermark is None:
            return decoded.rows
        with self._lock:
            now = self._clock()
            limit = self._tracker.limit(now)
            if limit is not None and watermark > limit:
                # The partition may itself be the slowest, which sets the limit. Its own limit is that of the others:
                # taking it out for a moment finds that without a look at every partition.
                self._tracker.finish(tp)
                limit = self._tracker.limit(now)
                self._tracker.has_records(tp, now)
        if limit is None or watermark <= limit:
            return decoded.rows
        return decoded.rows_up_to(limit, self.strategy)

    def hands_out(self, tp: TopicPartition, records: TimedRecords) -> None:
        """These records are handed out. If they have event times, their partition is not idle."""
        with self._lock:
            if not records.without_times:
                self._has_times(tp)
                self._tracker.has_records(tp, self._clock())

    def _has_times(self, tp: TopicPartition) -> None:
        self._without_times.pop(tp, None)
        self._to_warn_of.discard(tp)

    def progress_with(self, tp: TopicPartition, records: TimedRecords) -> Progress:
        """The watermarks once the stream's thread is done with these records, which it is about to get."""
        with self._lock:
            now = self._clock()
            combined = self._tracker.combined(now)
            late = records.times.late(combined)
            if not records.without_times:
                self._has_times(tp)
                combined = self._tracker.combined_with(tp, records.watermark, now)
            known = [each for each in (self._tracker.watermark(tp), records.watermark) if each is not None]
            return Progress(combined, max(known, default=None), late)

    def done_with(self, cursor: Cursor, records: TimedRecords, progress: Progress | None = None) -> None:
        """The stream's thread is done with these records. `progress`: the watermarks that it got with them."""
        with self._lock:
            now = self._clock()
            before = self._tracker.combined(now)
            self._late += records.times.late(before) if progress is None else progress.late
            if cursor.revoked:
                pass  # the partition may be assigned again already, and nothing was read since
            elif records.without_times:
                self._without_times.setdefault(cursor.tp, now)
                if records.rows:
                    self._to_warn_of.add(cursor.tp)
            else:
                self._tracker.observe(cursor.tp, records.watermark, now)
            if progress is not None:
                # Do not simplify: a watermark that was handed out holds, even if another partition was assigned or
                # stopped being idle meanwhile.
                self._tracker.reach(progress.combined)
            combined = self._tracker.combined(now)
            if self.strategy.marks is not None and combined is not None and combined != before:
                self.on_punctuated(combined)

    # --- any thread ---------------------------------------------------------------------------------------------------

    @property
    def late(self) -> int:
        """The number of records that were late."""
        with self._lock:
            return self._late

    def combined(self) -> int | None:
        with self._lock:
            return self._tracker.combined(self._clock())

    def status(self) -> EventTimeStatus:
        with self._lock:
            return self._tracker.status(self._clock())

    def check_idle(self, cursors: Iterable[Cursor]) -> None:
        """Note which partitions have nothing to read: their idle time runs (E3).

        A partition whose state is unknown does not become idle, because records that it may have would be late.
        """
        with self._lock:
            now = self._clock()
            for cursor in cursors:
                # With this lock held: a fetcher that queues records waits for it, and corrects what is noted here.
                since = self._without_times.get(cursor.tp)
                if since is None:
                    since = cursor.empty_since(now - self._answer_seconds)
                if since is None:
                    self._tracker.has_records(cursor.tp, now)
                else:
                    self._tracker.has_none(cursor.tp, now, since)
            long = {tp for tp, since in self._without_times.items() if now - since >= NO_TIMES_SECONDS}
            to_warn_of = (long & self._to_warn_of) - self._warned
            self._warned |= to_warn_of
        if to_warn_of and (self.strategy.out_of_orderness is not None or self.strategy.marks is not None):
            idleness = self.strategy.idleness
            log.warning(
                "the records of %s have had no event time for %g s; these partitions count as empty: %s (%r)",
                ", ".join(map(str, sorted(to_warn_of))),
                NO_TIMES_SECONDS,
                "others wait, as with_idleness is not set" if idleness is None else f"idle after {idleness:g} s",
                self.strategy,
            )

    def resume_caught_up(self) -> bool:
        """Let partitions continue that are no longer too far ahead; returns whether there are any.

        Called without a stream's lock: it wakes the threads of other streams.
        """
        with self._lock:
            if not self._held_back:
                return False
            now = self._clock()
            limit = self._tracker.limit(now)
            if limit is not None and limit == self._checked_limit:
                return False
            self._checked_limit = limit
            resumed = [cursor for cursor in self._held_back if not self._tracker.is_ahead(cursor.tp, now)]
            self._held_back.difference_update(resumed)
            for cursor in resumed:
                cursor.held_back = False
        for reader in {cursor.reader for cursor in resumed}:
            reader.wake()
        return bool(resumed)


def checked_strategy(strategy: object) -> WatermarkStrategy:
    if isinstance(strategy, WatermarkStrategy):
        return strategy
    example = 'Example: WatermarkStrategy.bounded("10s").with_idleness("1m")'
    raise OptionError("watermarks", strategy, "is not a WatermarkStrategy", example)
