"""A connector's event time: one tracker for all its partitions, and which of them are held back (E2 to E5).

Locks: readers come here with their stream's lock held, so nobody who is in here calls a stream.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from penstock.consumer.event_time.pieces import Piece
from penstock.consumer.fetch.cursor import Cursor
from penstock.errors import OptionError
from penstock.eventtime.strategy import WatermarkStrategy
from penstock.eventtime.tracker import EventTimeStatus, WatermarkTracker
from penstock.model.topic_partition import TopicPartition

log = logging.getLogger(__name__)

ANSWER_SECONDS = 1.0
"""So long a broker's answer, that a partition has nothing to read, is taken for right, at the least. A broker is asked
again every `fetch.max.wait.ms`, half a second, and answers at once when something comes; twice that is for a busy
machine. Shorter, a partition at its end would hold the others whenever an answer is a little late."""


TIMELESS_SECONDS = 10.0
"""A partition whose records have had no event time for so long is warned of, once."""


class Reached(NamedTuple):
    """How far event time has come with some records, in milliseconds, and how many of them were late."""

    combined: int | None
    partition: int | None
    late: int


class EventTime:
    """Every method may be called by any thread."""

    def __init__(
        self,
        strategy: WatermarkStrategy,
        clock: Callable[[], float] = time.monotonic,
        *,
        fetch_max_wait: float = 0.0,
    ) -> None:
        """`clock` is that of the answers that fetchers note."""
        self.strategy = strategy
        self._clock = clock
        self._answer_seconds = max(ANSWER_SECONDS, 2 * fetch_max_wait)
        self._lock = threading.Lock()
        self._tracker = WatermarkTracker(strategy.idleness, strategy.max_drift)
        self._ahead: set[Cursor] = set()
        self._looked_at: int | None = None
        """The limit at which nobody of those was found to be let go; None if somebody has come since."""
        self._timeless: dict[TopicPartition, float] = {}
        """Partitions whose records have no event time, and since when: they count as if they had no records."""
        self._to_warn_of: set[TopicPartition] = set()
        """Those of them that have given records out: of others a user's class has skipped all, as it may."""
        self._warned: set[TopicPartition] = set()
        self._late = 0
        self.on_punctuated: Callable[[int], None] = lambda watermark: None
        """Called with each new combined watermark of a punctuated strategy, by readers, in order: must not block."""

    # --- rebalances --------------------------------------------------------------------------------------------------

    def set_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """These are ours from now on. What was told so far stays told: the combined watermark never goes back (F19)."""
        with self._lock:
            self._tracker.set_partitions(partitions, self._clock())
            self._ahead = {cursor for cursor in self._ahead if not cursor.released}
            self._timeless = {tp: since for tp, since in self._timeless.items() if tp in partitions}
            self._to_warn_of &= self._timeless.keys()

    # --- fetchers, with the stream's lock held -----------------------------------------------------------------------

    def has_records(self, tp: TopicPartition) -> None:
        """Some have come. At once: until the next look it might turn idle, and they would be late."""
        with self._lock:
            if tp not in self._timeless:
                self._tracker.has_records(tp, self._clock())

    # --- readers, with their stream's lock held ----------------------------------------------------------------------

    def is_ahead(self, cursor: Cursor) -> bool:
        """Whether nothing of it may be handed out now, because it is too far ahead of the slowest (E4)."""
        if self.strategy.max_drift is None:
            return False
        with self._lock:
            cursor.ahead = self._tracker.is_ahead(cursor.tp, self._clock())
            if cursor.ahead:
                self._ahead.add(cursor)
                self._looked_at = None
            else:
                self._ahead.discard(cursor)
            return cursor.ahead

    def rows_within(self, tp: TopicPartition, piece: Piece) -> int:
        """How many of these may be handed out before the partition is to be held back. The record that takes it past
        the limit is among them: else a gap in time, in all partitions, would hold all of them for ever."""
        watermark = piece.watermark
        if self.strategy.max_drift is None or watermark is None:
            return piece.rows
        with self._lock:
            now = self._clock()
            limit = self._tracker.limit(now)
            if limit is not None and watermark > limit:
                # Maybe it is itself the slowest: how far may it go before it waits for the others? A moment of
                # standing aside tells, and does so without a look at every partition.
                self._tracker.finish(tp)
                limit = self._tracker.limit(now)
                self._tracker.has_records(tp, now)
        if limit is None or watermark <= limit:
            return piece.rows
        return piece.rows_up_to(limit, self.strategy)

    def hands_out(self, tp: TopicPartition, piece: Piece) -> None:
        """These records go to their reader: if they have times, their partition counts."""
        with self._lock:
            if not piece.timeless:
                self._has_times(tp)
                self._tracker.has_records(tp, self._clock())

    def _has_times(self, tp: TopicPartition) -> None:
        self._timeless.pop(tp, None)
        self._to_warn_of.discard(tp)

    def reached_with(self, tp: TopicPartition, piece: Piece) -> Reached:
        """How far event time will have come when the reader is done with these records, which it is about to get."""
        with self._lock:
            now = self._clock()
            combined = self._tracker.combined(now)
            late = piece.times.late(combined)
            if not piece.timeless:
                self._has_times(tp)
                combined = self._tracker.combined_with(tp, piece.watermark, now)
            known = [each for each in (self._tracker.watermark(tp), piece.watermark) if each is not None]
            return Reached(combined, max(known, default=None), late)

    def done_with(self, cursor: Cursor, piece: Piece, reached: Reached | None = None) -> None:
        """The reader is done with these records, and this is what it was told of them, if it was told."""
        with self._lock:
            now = self._clock()
            before = self._tracker.combined(now)
            self._late += piece.times.late(before) if reached is None else reached.late
            if cursor.released:
                pass  # it may be ours again already, and nothing of it was read since
            elif piece.timeless:
                self._timeless.setdefault(cursor.tp, now)
                if piece.rows:
                    self._to_warn_of.add(cursor.tp)
            else:
                self._tracker.observe(cursor.tp, piece.watermark, now)
            if reached is not None:
                # Do not simplify: what was told holds, though somebody may have come or woken up meanwhile.
                self._tracker.reach(reached.combined)
            combined = self._tracker.combined(now)
            if self.strategy.marks is not None and combined is not None and combined != before:
                self.on_punctuated(combined)

    # --- whoever looks -----------------------------------------------------------------------------------------------

    @property
    def late(self) -> int:
        """Records that were late, in all."""
        with self._lock:
            return self._late

    def combined(self) -> int | None:
        with self._lock:
            return self._tracker.combined(self._clock())

    def status(self) -> EventTimeStatus:
        with self._lock:
            return self._tracker.status(self._clock())

    def look(self, cursors: Iterable[Cursor]) -> None:
        """Note which partitions have nothing to read: of these the idle clock runs (E3). One of which nobody knows may
        have records, and to call it idle would make them late."""
        with self._lock:
            now = self._clock()
            for cursor in cursors:
                # With this lock held: who puts records there comes here afterwards, and is not undone by us.
                since = self._timeless.get(cursor.tp)
                if since is None:
                    since = cursor.nothing_since(now - self._answer_seconds)
                if since is None:
                    self._tracker.has_records(cursor.tp, now)
                else:
                    self._tracker.has_none(cursor.tp, now, since)
            long = {tp for tp, since in self._timeless.items() if now - since >= TIMELESS_SECONDS}
            to_warn_of = (long & self._to_warn_of) - self._warned
            self._warned |= to_warn_of
        if to_warn_of and (self.strategy.out_of_orderness is not None or self.strategy.marks is not None):
            idleness = self.strategy.idleness
            log.warning(
                "the records of %s have had no event time for %g s, which is as if there were none: %s (%r)",
                ", ".join(map(str, sorted(to_warn_of))),
                TIMELESS_SECONDS,
                "others wait, as with_idleness is not set" if idleness is None else f"idle after {idleness:g} s",
                self.strategy,
            )

    def let_go_on(self) -> bool:
        """Let partitions go on that are no longer too far ahead; returns whether there are any. With no stream's lock
        held: their streams' readers are woken."""
        with self._lock:
            if not self._ahead:
                return False
            now = self._clock()
            limit = self._tracker.limit(now)
            if limit is not None and limit == self._looked_at:
                return False
            self._looked_at = limit
            freed = [cursor for cursor in self._ahead if not self._tracker.is_ahead(cursor.tp, now)]
            self._ahead.difference_update(freed)
            for cursor in freed:
                cursor.ahead = False
        for stream in {cursor.stream for cursor in freed}:
            stream.wake()
        return bool(freed)


def checked_strategy(strategy: object) -> WatermarkStrategy:
    if isinstance(strategy, WatermarkStrategy):
        return strategy
    example = 'Example: WatermarkStrategy.bounded("10s").with_idleness("1m")'
    raise OptionError("watermarks", strategy, "is no WatermarkStrategy", example)
