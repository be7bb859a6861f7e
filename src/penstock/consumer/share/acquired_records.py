"""The records that one fetch has acquired from one partition, and what becomes of each (Q2, Q3). Pure: no I/O.

    acquired ──handed out──> in the user's hands ──accept, release, reject──> acknowledged ──taken──> sent
        │                                                                         ^
        └──there is no record at the offset──> gap ───────────────────────────────┘

One byte per offset holds its state. A batch of records is then acknowledged by one operation on bytes, however many
records it has.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from penstock.model.acknowledgement import AckBatch, AcknowledgeType, AcquiredRange

OPEN, OTHER, SENT, LOST = 0xF0, 0xF1, 0xF2, 0xF3
"""States beside those of AcknowledgeType: acquired, not acquired, acknowledged and sent, lock lost."""

_ACKNOWLEDGED = re.compile(rb"([\x00-\x03])\1*", re.DOTALL)
_RUN = re.compile(rb"[\x00-\x03]+", re.DOTALL)
_ACQUIRED = re.compile(rb"[\x00-\x03\xf0]")
_RUNS_PER_OFFSET = 16
"""An array of types takes a byte per offset, and a batch of one type 19 bytes. From this many offsets per run of equal
types on, batches of one type are smaller, and the broker need not track single offsets."""


def _table(kind: int, *replaced: int) -> bytes:
    return bytes(kind if state in replaced else state for state in range(256))


_CHANGEABLE = (OPEN, AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)
_SET = {kind: _table(kind, *_CHANGEABLE) for kind in AcknowledgeType}
_SET_OPEN = {kind: _table(kind, OPEN) for kind in AcknowledgeType}
_LOSE = _table(LOST, *_CHANGEABLE, AcknowledgeType.GAP)


class AcquiredRecords:
    """The state of each acquired offset. The caller holds a lock."""

    __slots__ = ("_counts", "_first_offsets", "_renewals", "_states", "first", "handed", "last")

    def __init__(self, ranges: Sequence[AcquiredRange]) -> None:
        """`ranges`: in the order of offsets."""
        self.first, self.last = ranges[0].first, ranges[-1].last
        self._states = bytearray([OTHER]) * (self.last - self.first + 1)
        for begin, end, _ in ranges:
            self._states[begin - self.first : end - self.first + 1] = bytes([OPEN]) * (end - begin + 1)
        self._first_offsets = [each.first for each in ranges]
        self._counts = [each.delivery_count for each in ranges]
        self.handed = self.first
        """The first offset that was not handed out."""
        self._renewals: list[slice] = []
        """The places of records whose locks are to be renewed."""

    # --- what was acquired --------------------------------------------------------------------------------------------

    @property
    def delivery_count(self) -> int | None:
        """The count of all records, if it is the same one."""
        return self._counts[0] if len(set(self._counts)) == 1 else None

    def delivery_count_at(self, offset: int) -> int:
        return self._counts[max(0, bisect_right(self._first_offsets, offset) - 1)]

    def are_all_open(self, begin: int, end: int) -> bool:
        """Whether all offsets of [begin, end) are acquired and not acknowledged."""
        part = self._states[begin - self.first : end - self.first]
        return len(part) == end - begin and part.count(OPEN) == len(part)

    def open_of(self, offsets: Iterable[int]) -> list[bool]:
        """Whether each of these offsets is acquired and not acknowledged."""
        states, first, size = self._states, self.first, len(self._states)
        return [0 <= (at := offset - first) < size and states[at] == OPEN for offset in offsets]

    @property
    def are_settled(self) -> bool:
        """Whether each record is acknowledged, and each acknowledgement was taken."""
        return _ACQUIRED.search(self._states) is None and not self._renewals

    @property
    def are_acknowledged(self) -> bool:
        """Whether each record is acknowledged."""
        return OPEN not in self._states

    @property
    def has_unsent(self) -> bool:
        """Whether acknowledgements wait to be taken."""
        return bool(self._renewals) or _RUN.search(self._states) is not None

    def last_open(self, end: int) -> int | None:
        """The last offset below `end` that is acquired and not acknowledged."""
        at = self._states.rfind(OPEN, 0, max(0, end - self.first))
        return None if at < 0 else self.first + at

    @property
    def has_renewals(self) -> bool:
        """Whether locks are to be renewed."""
        return bool(self._renewals)

    # --- acknowledging ------------------------------------------------------------------------------------------------

    def acknowledge(self, offsets: Iterable[int], kind: AcknowledgeType) -> bool:
        """Acknowledge records, or change acknowledgements that were not sent.

        False if one of them is not acquired (any more), or if its acknowledgement was sent: then nothing changes.
        """
        states, size = self._states, len(self._states)
        places = [offset - self.first for offset in offsets]
        if not all(0 <= at < size and states[at] in _CHANGEABLE for at in places):
            return False
        for at in places:
            if kind is AcknowledgeType.RENEW:
                self._renewals.append(slice(at, at + 1))
            else:
                states[at] = kind
        return True

    def acknowledge_range(self, begin: int, end: int, kind: AcknowledgeType) -> bool:
        """The same for all acquired offsets of [begin, end)."""
        part = self._part(begin, end)
        states = self._states[part]
        if SENT in states or LOST in states:
            return False
        if kind is AcknowledgeType.RENEW:
            self._renewals.append(part)
        else:
            self._states[part] = states.translate(_SET[kind])
        return True

    def settle(self, begin: int, end: int, kind: AcknowledgeType) -> None:
        """Acknowledge the offsets of [begin, end) that are not acknowledged yet."""
        part = self._part(begin, end)
        self._states[part] = self._states[part].translate(_SET_OPEN[kind])

    def settle_absent(self, begin: int, end: int, present: Iterable[int], kind: AcknowledgeType) -> None:
        """The same, except for the `present` offsets."""
        part = self._part(begin, end)
        states = self._states[part]
        settled = states.translate(_SET_OPEN[kind])
        for offset in present:
            at = offset - self.first - part.start
            if 0 <= at < len(settled):
                settled[at] = states[at]
        self._states[part] = settled

    def lose(self, begin: int | None = None, end: int | None = None) -> None:
        """The locks of the offsets of [begin, end) are gone: they cannot be acknowledged any more."""
        part = self._part(self.first if begin is None else begin, self.last + 1 if end is None else end)
        self._states[part] = self._states[part].translate(_LOSE)
        self._renewals = [each for each in self._renewals if OPEN in self._states[each]]

    def _part(self, begin: int, end: int) -> slice:
        size = len(self._states)
        return slice(min(size, max(0, begin - self.first)), min(size, max(0, end - self.first)))

    # --- sending ------------------------------------------------------------------------------------------------------

    def take(self) -> list[AckBatch]:
        """The acknowledgements that were not taken yet, in the order of offsets. Records whose locks are to be renewed
        stay acquired; one that was acknowledged meanwhile needs no renewal."""
        found = [*self._batches(), *self._renewed()]
        self._renewals.clear()
        self._states = self._states.translate(_TAKEN)
        found.sort()
        return found

    def give_back(self, batches: Iterable[AckBatch]) -> None:
        """These acknowledgements were taken and must be sent again."""
        for begin, end, types in batches:
            part = self._part(begin, end + 1)
            if types[0] == AcknowledgeType.RENEW:
                self._renewals.append(part)
            elif len(types) == 1:
                self._states[part] = bytes(types) * (end + 1 - begin)
            else:
                self._states[part] = bytes(types)

    def _batches(self) -> Iterator[AckBatch]:
        for run in _RUN.finditer(self._states):
            begin, end = self.first + run.start(), self.first + run.end()
            same = list(_ACKNOWLEDGED.finditer(self._states, run.start(), run.end()))
            if len(same) * _RUNS_PER_OFFSET <= end - begin or len(same) == 1:
                for each in same:
                    yield AckBatch(self.first + each.start(), self.first + each.end() - 1, [each[1][0]])
            else:
                yield AckBatch(begin, end - 1, list(run[0]))

    def _renewed(self) -> Iterator[AckBatch]:
        """The records to renew that are still open, each once."""
        if not self._renewals:
            return
        marked = bytearray(len(self._states))
        for part in self._renewals:
            marked[part] = bytes(state == OPEN for state in self._states[part])
        for run in re.finditer(rb"\x01+", marked):
            yield AckBatch(self.first + run.start(), self.first + run.end() - 1, [AcknowledgeType.RENEW])


_TAKEN = _table(SENT, *(kind for kind in AcknowledgeType if kind is not AcknowledgeType.RENEW))
