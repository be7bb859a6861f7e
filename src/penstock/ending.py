"""UNTIL WHERE a stream goes: the end that endingOffsets or endingTimestamp set."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from penstock.startup import LATEST, AtOffsets, AtTimestamp, EndMode, Latest, OffsetLookup, resolve_end
from penstock.topics import TopicPartition

log = logging.getLogger(__name__)


class StreamEnd:
    """Cuts a stream at its end, if it has one.

    The partitions of a bounded stream are those of its first look; one that appears later joins only if the end names
    its topic or is a time. An end by time is found when the first record of that time is there; until then everything
    lies before it.
    """

    def __init__(self, mode: EndMode | None) -> None:
        self._mode = mode
        self._until: dict[TopicPartition, int] = {}
        self._looked_at: dict[TopicPartition, int] = {}
        self._begun = False

    def cut(self, ends: Mapping[TopicPartition, int], lookup: OffsetLookup) -> dict[TopicPartition, int]:
        """The ends of a trigger, none beyond the stream's own."""
        match self._mode:
            case None:
                return dict(ends)
            case AtTimestamp() as mode:
                self._look_up(mode, ends, lookup)
            case Latest() | AtOffsets() as mode:
                self._name(mode, ends, lookup)
        if not isinstance(self._mode, AtTimestamp):
            ends = {tp: end for tp, end in ends.items() if tp in self._until}
        return {tp: min(end, self._until.get(tp, end)) for tp, end in ends.items()}

    def reached(self, offsets: Mapping[TopicPartition, int]) -> bool | None:
        """Whether a stream that has come to `offsets` is at its end; None if it has none."""
        if self._mode is None:
            return None
        if not self._begun:
            return False
        return all(tp in self._until and offset >= self._until[tp] for tp, offset in offsets.items())

    def _look_up(self, mode: AtTimestamp, ends: Mapping[TopicPartition, int], lookup: OffsetLookup) -> None:
        self._begun = True
        # Only where something came since the last look: an idle stream asks nothing.
        moved = {tp: end for tp, end in ends.items() if tp not in self._until and self._looked_at.get(tp) != end}
        times = {tp: at for tp in moved if (at := mode.of(tp)) is not None}
        found = lookup.for_times(times)
        self._until |= {tp: offset for tp, offset in found.items() if offset is not None}
        self._looked_at |= moved

    def _name(self, mode: Latest | AtOffsets, ends: Mapping[TopicPartition, int], lookup: OffsetLookup) -> None:
        if not self._begun:
            self._until = resolve_end(mode, sorted(ends), lookup)
            self._begun = True
        strangers = [tp for tp in ends if tp not in self._until]
        for tp in strangers:
            named = mode.offsets.get(tp) if isinstance(mode, AtOffsets) else None
            if named is not None:
                self._until[tp] = ends[tp] if named == LATEST else named
            elif tp not in self._looked_at:
                log.warning("%s appeared after the stream's end was set, and is not read", tp)
                self._looked_at[tp] = ends[tp]
