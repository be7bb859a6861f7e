"""UNTIL WHERE a stream goes: the end that endingOffsets or endingTimestamp set, or that a deserializer finds (F4)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from penstock.model.offset_spec import LATEST, AtOffsets, AtTimestamp, EndMode, Latest
from penstock.model.topic_partition import TopicPartition
from penstock.planner.starting_offsets import OffsetLookup, check_named

log = logging.getLogger(__name__)

LATE_MS = 5_000
"""How long after an end by time a partition without a record of that time is waited for: records take a moment."""


class StreamEnd:
    """Cuts a stream at its end, if it has one.

    The partitions of a bounded stream are those of its first look; one that appears later joins only if the end names
    its topic or is a time. An end by time is found when the first record of that time is there, or when the time has
    passed without one; until then everything lies before it.

    A partition also ends at a record by which a user's deserializer says so. That is known only when the batch is read,
    and planned to go further: the stream then goes back to that record, which is where it stands. So the offset log
    says what has been read, and a query that is started again meets the same record first, and ends there again.
    """

    def __init__(self, mode: EndMode | None, deserializer_may_end: bool = False) -> None:
        self._mode = mode
        self._deserializer_may_end = deserializer_may_end
        self._ended: dict[TopicPartition, int] = {}
        """The records by which a deserializer has ended partitions."""
        self._until: dict[TopicPartition, int] = {}
        self._pending: set[TopicPartition] = set()
        """Partitions that end where they end when they first answer."""
        self._looked_at: dict[TopicPartition, int] = {}
        self._hidden_until: dict[TopicPartition, int] = {}
        """How far logs reached when their end by time had passed without a record of that time. Open transactions below
        that may still bring one, and older ones."""
        self._refused: set[TopicPartition] = set()
        self._begun = False
        self._time_is_over = False

    def cut(
        self,
        ends: Mapping[TopicPartition, int],
        partitions: Collection[TopicPartition],
        lookup: OffsetLookup,
        now_ms: float,
    ) -> dict[TopicPartition, int]:
        """The ends of a trigger, none beyond the stream's own. Of the stream's `partitions` some may not have answered,
        and have no end here."""
        match self._mode:
            case None:
                return dict(ends)
            case AtTimestamp() as mode:
                self._look_up(mode, ends, sorted(partitions), lookup, now_ms)
                return {tp: min(end, self._until.get(tp, end)) for tp, end in ends.items() if tp not in self._refused}
            case Latest() | AtOffsets() as mode:
                self._name(mode, ends, sorted(partitions))
                return {tp: min(end, self._until[tp]) for tp, end in ends.items() if tp in self._until}

    def note_ended(self, ended: Mapping[TopicPartition, int]) -> None:
        """A deserializer has ended these partitions, at these records."""
        for tp, offset in ended.items():
            log.info("%s has come to its end: so says the record at offset %d", tp, offset)
        self._ended |= ended

    def forget_cut(self, cut: Mapping[TopicPartition, int]) -> None:
        """These logs were cut at these offsets: the records by which they have ended, if they have, are gone."""
        for tp, offset in cut.items():
            self._ended.pop(tp, None)
            self._looked_at.pop(tp, None)
            self._hidden_until.pop(tp, None)
            if isinstance(self._mode, AtTimestamp) and self._until.get(tp, offset) > offset:
                del self._until[tp]

    def without_ended(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Offsets, none beyond the record by which a deserializer has ended its partition."""
        if not self._ended:
            return dict(offsets)
        return {tp: min(offset, self._ended.get(tp, offset)) for tp, offset in offsets.items()}

    def is_at(self, tp: TopicPartition, offset: int) -> bool:
        """Whether a partition that stands at an offset has come to its end."""
        return tp in self._ended or (tp in self._until and offset >= self._until[tp])

    def reached(self, offsets: Mapping[TopicPartition, int]) -> bool | None:
        """Whether a stream that has come to `offsets` is at its end; None if it has none."""
        if self._mode is None:
            return bool(offsets) and offsets.keys() <= self._ended.keys() if self._deserializer_may_end else None
        if not self._begun or self._pending - self._ended.keys():
            return False
        if not offsets and isinstance(self._mode, AtTimestamp):
            return self._time_is_over
        return all(self.is_at(tp, offset) for tp, offset in offsets.items())

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """These are of another topic now: where they end by a record, by time or at first sight is to be found anew."""
        for tp in partitions:
            self._ended.pop(tp, None)
            self._looked_at.pop(tp, None)
            self._hidden_until.pop(tp, None)
            named = self._mode.offsets.get(tp) if isinstance(self._mode, AtOffsets) else None
            if named in (None, LATEST) and self._until.pop(tp, None) is not None:
                self._pending |= {tp} if not isinstance(self._mode, AtTimestamp) else set()

    def _look_up(
        self,
        mode: AtTimestamp,
        ends: Mapping[TopicPartition, int],
        partitions: list[TopicPartition],
        lookup: OffsetLookup,
        now_ms: float,
    ) -> None:
        if not self._begun:
            check_named(mode.option, mode.timestamp, partitions)
            self._begun = True
        if isinstance(mode.timestamp, int):
            self._time_is_over = now_ms >= mode.timestamp + LATE_MS
        else:
            self._refuse([tp for tp in partitions if mode.of(tp) is None])
        times = {tp: at for tp in ends if tp not in self._until and (at := mode.of(tp)) is not None}
        over = {tp for tp, at in times.items() if now_ms >= at + LATE_MS}
        # Only where something came since the last look, or nothing more will: an idle stream asks nothing.
        asked = {tp: at for tp, at in times.items() if tp in over or self._looked_at.get(tp) != ends[tp]}
        # Up to where it was looked the last time, all records are older; unless that log was cut since.
        since = {tp: at for tp in asked if (at := self._looked_at.get(tp, 0)) <= ends[tp]}
        found = lookup.first_at(asked, ends, since)
        passed = [tp for tp, offset in found.items() if offset is None and tp in over]
        unsettled = {tp: ends[tp] for tp in passed if tp not in self._hidden_until}
        self._hidden_until |= unsettled | lookup.hidden_past(unsettled)
        for tp, offset in found.items():
            if offset is not None:
                self._until[tp] = offset
            elif tp in over and ends[tp] >= self._hidden_until[tp]:
                self._until[tp] = ends[tp]  # read before the lookup, as F8 wants it
        self._looked_at |= {tp: ends[tp] for tp in asked}

    def _name(
        self, mode: Latest | AtOffsets, ends: Mapping[TopicPartition, int], partitions: list[TopicPartition]
    ) -> None:
        named = mode.offsets if isinstance(mode, AtOffsets) else None
        if not self._begun:
            if named is not None:
                check_named("endingOffsets", named, partitions)
            self._begun = True
            self._pending = {tp for tp in partitions if named is None or named.get(tp) == LATEST}
        self._pending &= set(partitions)
        for tp in partitions:
            if tp in self._until or tp in self._refused:
                continue
            offset = None if named is None else named.get(tp)
            if tp in self._pending or offset == LATEST:
                if tp in ends:
                    self._until[tp] = ends[tp]
                    self._pending.discard(tp)
            elif offset is not None:
                self._until[tp] = offset
            else:
                self._refuse([tp])

    def _refuse(self, partitions: list[TopicPartition]) -> None:
        for tp in partitions:
            if tp not in self._refused:
                log.warning("%s appeared after the stream's end was set, and is not read", tp)
                self._refused.add(tp)
