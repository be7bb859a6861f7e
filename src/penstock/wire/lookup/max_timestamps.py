"""The largest timestamp of the records below an offset, found without reading them.

The broker's time index answers one question: at which offset is the first record whose timestamp is T or later? That
offset only grows with T. So the largest timestamp below an offset is the largest T whose first record is below it. The
last batch before the offset gives a first value, and one question says whether an earlier record is later. For most
logs these two requests are all, for all partitions of a leader at once. If an earlier record is later (records out of
order), the time is searched in growing steps and then between two known times.

The result is never too large, because each value is the timestamp of a record that was read. It may be too small in two
cases:

- Transactions. Their markers have the time of the commit, and aborted records their own: the index counts both, a
  reader gets neither. Such a value is dropped, and the best one of the last batches before the offset is taken
  (`WALK_BACK`). The index cannot be asked for what a marker hides.
- A log whose records are out of order and were deleted inside of a segment, or compacted: the broker finds a segment by
  its largest timestamp, finds that record gone, and does not search the next segment (see `time_index`).

The broker's own answer for the largest timestamp (-3, KIP-734) is not used. It counts markers and deleted records, is
missing if that record is past the last stable offset, does not exist before Kafka 3.0, and some later brokers return
the first or last offset of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from penstock.model.topic_partition import TopicPartition
from penstock.wire.lookup.offset_windows import OffsetWindow

WALK_BACK = (2, 4, 8, 16, 32, 64, 128, 256)
"""Offsets before the end. The next one is tried if the last one has no record (a marker, or compacted), and all of them
in a log with transactions. The steps are small because a fetch returns no more than the rest of a segment."""

STRIDE = 1024
"""The factor by which the steps to a later time grow: 1 ms, 1 s, 17 min, 12 days, 35 years."""

LATEST = 2**63 - 1
"""The largest timestamp of a record, and of a request."""

ROUNDS = 100
"""The most questions per search. A range of 64 bits takes 70; the limit ends the search in a log that changes."""


class Log(Protocol):
    """The questions that a search asks. `Cluster` answers them."""

    def begin(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]: ...

    def end(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]: ...

    def times_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int] | None]: ...

    def timestamps_in(self, windows: Mapping[TopicPartition, OffsetWindow]) -> dict[TopicPartition, int | None]: ...


class Search:
    """A search for the largest timestamp of one partition below the offset `before`."""

    __slots__ = ("before", "begin", "high", "low", "low_at", "step", "sure")

    def __init__(self, before: int) -> None:
        self.begin, self.before = 0, before
        self.sure: int | None = None
        """The largest timestamp of the records below that were read."""
        self.low: int | None = None
        """The largest timestamp below by the index: `sure`, or that of the entry at `low_at`."""
        self.low_at: int | None = None
        self.high: int | None = None
        """No entry below has this time or a later one."""
        self.step = 1

    def see(self, timestamp: int | None) -> None:
        """Note the timestamp of a record below."""
        if timestamp is not None and (self.sure is None or timestamp > self.sure):
            self.sure = timestamp
        if self.sure is not None and (self.low is None or self.low < self.sure):
            self.low, self.low_at = self.sure, None

    @property
    def doubtful(self) -> bool:
        """Whether the entry at `low_at` may not be a record."""
        return self.low_at is not None and self.low != self.sure

    def question(self) -> int | None:
        """The time to ask for next; None when the search is done."""
        low, high = self.low, self.high
        if low is None:
            return None if high is not None else 0
        if high is None:
            return None if low == LATEST else min(low + self.step, LATEST)
        return None if high - low <= 1 else low + (high - low) // 2

    def answer(self, time: int, found: tuple[int, int] | None) -> None:
        if found is None or found[0] >= self.before:
            self.high = time
            return
        if self.low is not None:
            self.step *= STRIDE
        self.low_at, self.low = found
        if self.high is not None and self.low >= self.high:
            self.high = None  # the index contradicts itself: see the top of this file


def find_max_timestamps(before: Mapping[TopicPartition, int], log: Log) -> dict[TopicPartition, int | None]:
    """The largest timestamps of the records below these offsets; None if there are none."""
    searches = {tp: Search(offset) for tp, offset in before.items() if offset > 0}
    _look_back(searches, 1, log)
    unseen = {tp: search for tp, search in searches.items() if search.sure is None}
    if unseen:
        begins, ends = log.begin(unseen), log.end(unseen)
        for tp, search in unseen.items():
            search.begin, search.before = begins[tp], min(search.before, ends[tp])
        searches = {tp: search for tp, search in searches.items() if search.begin < search.before}
    for back in WALK_BACK:
        _look_back({tp: search for tp, search in searches.items() if search.sure is None}, back, log)
    masked = _climb(searches, log)
    for back in WALK_BACK if masked else ():
        _look_back(masked, back, log)
    return {tp: searches[tp].sure if tp in searches else None for tp in before}


def _climb(searches: Mapping[TopicPartition, Search], log: Log) -> dict[TopicPartition, Search]:
    """Search by the index. Returns the searches that ended at an entry that is not a record."""
    going, masked = dict(searches), {}
    for round_number in range(ROUNDS):
        questions = {tp: time for tp, search in going.items() if (time := search.question()) is not None}
        if not questions:
            break
        for tp, found in log.times_at(questions).items():
            going[tp].answer(questions[tp], found)
        going = {tp: going[tp] for tp in questions}
        if round_number == 0:
            # This detects a log with transactions, where the search would be in vain.
            masked = _verify({tp: search for tp, search in going.items() if search.sure is not None}, log)
            going = {tp: search for tp, search in going.items() if tp not in masked}
    return masked | _verify({tp: search for tp, search in searches.items() if tp not in masked}, log)


def _verify(searches: Mapping[TopicPartition, Search], log: Log) -> dict[TopicPartition, Search]:
    """Check that records are where the index says. Returns the searches where none is."""
    doubtful = {tp: at for tp, search in searches.items() if search.doubtful and (at := search.low_at) is not None}
    if not doubtful:
        return {}
    seen = log.timestamps_in({tp: OffsetWindow(at, at, at + 1) for tp, at in doubtful.items()})
    for tp, timestamp in seen.items():
        searches[tp].see(timestamp)
    return {tp: searches[tp] for tp in doubtful if seen.get(tp) is None}


def _look_back(searches: Mapping[TopicPartition, Search], back: int, log: Log) -> None:
    """Read the timestamps of the records this many offsets before the ends."""
    windows = {tp: OffsetWindow(max(s.begin, s.before - back), s.begin, s.before) for tp, s in searches.items()}
    for tp, timestamp in (log.timestamps_in(windows) if windows else {}).items():
        searches[tp].see(timestamp)
