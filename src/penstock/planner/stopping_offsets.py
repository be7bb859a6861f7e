"""Where a stream ends: at endingOffsets or endingTimestamp, or at a record by which a deserializer ends it (F4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.masking import get_logger
from penstock.model.offset_spec import LATEST, AtOffsets, AtTimestamp, EndMode, Latest
from penstock.model.topic_partition import TopicPartition
from penstock.planner.starting_offsets import OffsetLookup, check_named

log = get_logger(__name__)

LATE_MS = 5_000
"""How long after the ending time a partition without a record at that time is waited for: records arrive late."""


class StreamEnd:
    """Ends a stream, if it has an end. For one thread.

    The partitions of a bounded stream are those of its first trigger. A partition that appears later joins only if the
    end names its topic or is a time. An ending time is resolved when the first record at that time arrives, or when the
    time has passed without one. Until then all records lie before it.

    A partition also ends at a record by which a user's deserializer ends it. A task finds that record only after the
    batch was planned to go further. The stream then goes back to that record. So a restarted query reads the same
    record first, and ends there again.
    """

    def __init__(
        self, mode: EndMode | None, deserializer_may_end: bool = False, *, ends_at_first: bool = False
    ) -> None:
        """`ends_at_first`: the first record by which a deserializer ends a partition ends the whole stream."""
        self._mode = mode
        self._ends_at_first = ends_at_first
        self._deserializer_may_end = deserializer_may_end
        self._ended_at: dict[TopicPartition, int] = {}
        """The offsets of the records by which a deserializer has ended partitions."""
        self._end_offsets: dict[TopicPartition, int] = {}
        self._pending: set[TopicPartition] = set()
        """Partitions that end at their log's end as soon as their leader answers."""
        self._searched: dict[TopicPartition, int] = {}
        """Up to which offset a log was searched for the ending time."""
        self._hidden_until: dict[TopicPartition, int] = {}
        """The high watermarks of logs when their ending time had passed without a record. Open transactions below may
        still bring one."""
        self._refused: set[TopicPartition] = set()
        """Partitions that appeared too late to join."""
        self._has_begun = False
        self._time_has_passed = False

    def limit(
        self,
        ends: Mapping[TopicPartition, int],
        partitions: Collection[TopicPartition],
        lookup: OffsetLookup,
        now_ms: float,
    ) -> dict[TopicPartition, int]:
        """The ends of a trigger, none past the end of the stream. `partitions`: all of the stream's, also those whose
        leader has not answered."""
        match self._mode:
            case None:
                return dict(ends)
            case AtTimestamp() as mode:
                self._search(mode, ends, sorted(partitions), lookup, now_ms)
                return {
                    tp: min(end, self._end_offsets.get(tp, end)) for tp, end in ends.items() if tp not in self._refused
                }
            case Latest() | AtOffsets() as mode:
                self._resolve(mode, ends, sorted(partitions))
                return {tp: min(end, self._end_offsets[tp]) for tp, end in ends.items() if tp in self._end_offsets}

    def note_ended(self, ended: Mapping[TopicPartition, int]) -> None:
        """Tasks have reported that a deserializer has ended these partitions, at the records at these offsets."""
        for tp, offset in ended.items():
            log.info("the deserializer has ended %s at the record at offset %d", tp, offset)
        self._ended_at |= ended

    @property
    def stopped(self) -> bool:
        """Whether a deserializer has ended the whole stream: no partition is read any further."""
        return self._ends_at_first and bool(self._ended_at)

    def forget_truncated(self, truncated: Mapping[TopicPartition, int]) -> None:
        """These logs were truncated at these offsets. If a record past them has ended the partition, it is gone."""
        for tp, offset in truncated.items():
            self._ended_at.pop(tp, None)
            self._searched.pop(tp, None)
            self._hidden_until.pop(tp, None)
            if isinstance(self._mode, AtTimestamp) and self._end_offsets.get(tp, offset) > offset:
                del self._end_offsets[tp]

    def without_ended(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Offsets, none past the record by which a deserializer has ended its partition."""
        if not self._ended_at:
            return dict(offsets)
        return {tp: min(offset, self._ended_at.get(tp, offset)) for tp, offset in offsets.items()}

    def is_at(self, tp: TopicPartition, offset: int) -> bool:
        """Whether a partition whose next offset is `offset` has ended."""
        return tp in self._ended_at or (tp in self._end_offsets and offset >= self._end_offsets[tp])

    def reached(self, offsets: Mapping[TopicPartition, int]) -> bool | None:
        """Whether a stream at these offsets has ended; None if it has no end."""
        if self._mode is None:
            return bool(offsets) and offsets.keys() <= self._ended_at.keys() if self._deserializer_may_end else None
        if not self._has_begun or self._pending - self._ended_at.keys():
            return False
        if not offsets and isinstance(self._mode, AtTimestamp):
            return self._time_has_passed
        return all(self.is_at(tp, offset) for tp, offset in offsets.items())

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Discards the ends of recreated partitions that the options do not name."""
        for tp in partitions:
            self._ended_at.pop(tp, None)
            self._searched.pop(tp, None)
            self._hidden_until.pop(tp, None)
            named = self._mode.offsets.get(tp) if isinstance(self._mode, AtOffsets) else None
            if named in (None, LATEST) and self._end_offsets.pop(tp, None) is not None:
                self._pending |= {tp} if not isinstance(self._mode, AtTimestamp) else set()

    def _search(
        self,
        mode: AtTimestamp,
        ends: Mapping[TopicPartition, int],
        partitions: list[TopicPartition],
        lookup: OffsetLookup,
        now_ms: float,
    ) -> None:
        if not self._has_begun:
            check_named(mode.option, mode.timestamp, partitions)
            self._has_begun = True
        if isinstance(mode.timestamp, int):
            self._time_has_passed = now_ms >= mode.timestamp + LATE_MS
        else:
            self._refuse([tp for tp in partitions if mode.of(tp) is None])
        times = {tp: at for tp in ends if tp not in self._end_offsets and (at := mode.of(tp)) is not None}
        over = {tp for tp, at in times.items() if now_ms >= at + LATE_MS}
        # Ask only if a log has grown since, or if the time has passed: an idle stream asks nothing.
        asked = {tp: at for tp, at in times.items() if tp in over or self._searched.get(tp) != ends[tp]}
        # All records up to the last search are older, unless the log was truncated since.
        since = {tp: at for tp in asked if (at := self._searched.get(tp, 0)) <= ends[tp]}
        found = lookup.first_at(asked, ends, since)
        passed = [tp for tp, offset in found.items() if offset is None and tp in over]
        unsettled = {tp: ends[tp] for tp in passed if tp not in self._hidden_until}
        self._hidden_until |= unsettled | lookup.hidden_past(unsettled)
        for tp, offset in found.items():
            if offset is not None:
                self._end_offsets[tp] = offset
            elif tp in over and ends[tp] >= self._hidden_until[tp]:
                self._end_offsets[tp] = ends[tp]  # read before the lookup, as F8 requires
        self._searched |= {tp: ends[tp] for tp in asked}

    def _resolve(
        self, mode: Latest | AtOffsets, ends: Mapping[TopicPartition, int], partitions: list[TopicPartition]
    ) -> None:
        named = mode.offsets if isinstance(mode, AtOffsets) else None
        if not self._has_begun:
            if named is not None:
                check_named("endingOffsets", named, partitions)
            self._has_begun = True
            self._pending = {tp for tp in partitions if named is None or named.get(tp) == LATEST}
        self._pending &= set(partitions)
        for tp in partitions:
            if tp in self._end_offsets or tp in self._refused:
                continue
            offset = None if named is None else named.get(tp)
            if tp in self._pending or offset == LATEST:
                if tp in ends:
                    self._end_offsets[tp] = ends[tp]
                    self._pending.discard(tp)
            elif offset is not None:
                self._end_offsets[tp] = offset
            else:
                self._refuse([tp])

    def _refuse(self, partitions: list[TopicPartition]) -> None:
        for tp in partitions:
            if tp not in self._refused:
                log.warning("%s appeared after the end of the stream was set: not read", tp)
                self._refused.add(tp)
