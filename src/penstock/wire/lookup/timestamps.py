"""How far in time a log had come before an offset: the largest timestamp of the records below it, found without reading
them.

The broker's time index answers one question: at which offset lies the first record whose timestamp is T or more? That
offset only grows with T, so the largest timestamp below an offset is the largest T whose first record lies below it.
A look at the last batch before the offset gives a first value, and one question whether anything before is later: most
logs are done with these two requests, for all partitions of a leader at once. Where an earlier record is later (records
out of order), the time is searched in growing steps and then between two known times.

What is found is never more than the truth, because each value is the timestamp of a record that was seen there. It may
be less in two cases:

- Transactions. Their markers bear the time of the commit, and aborted records theirs: the index counts both, a reader
  sees neither. A value that turns out to be such a one is thrown away, and the best is taken that the last batches
  before the offset have (`WALK_BACK`). The index cannot be asked what lies behind a marker.
- A log whose records are out of order and were deleted inside of a segment, or compacted: the broker finds a segment by
  its latest timestamp, finds that record gone, and does not look into the next segment (`time_index` has all of it).

The broker's own question for the largest timestamp (-3, KIP-734) is not asked: it counts markers and deleted records,
has no answer where that record lies past the last stable offset, brokers before Kafka 3.0 do not know it, and some
later ones name the first or last offset of its batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from penstock.model.topic_partition import TopicPartition
from penstock.wire.lookup.window import Window

WALK_BACK = (2, 4, 8, 16, 32, 64, 128, 256)
"""Offsets before the end, one after the other where the last one has no record (a marker, or taken by compaction), and
all of them in a log with transactions. In small steps, because a fetch brings no more than the rest of a segment."""

STRIDE = 1024
"""How the steps grow in which an unknown later time is looked for: 1 ms, 1 s, 17 min, 12 days, 35 years."""

LATEST = 2**63 - 1
"""The last timestamp that a record can have, and a request ask for."""

ROUNDS = 100
"""At most. A range of 64 bits takes 70; a log that changes meanwhile must not keep us."""


class Log(Protocol):
    """What can be asked of logs: `Cluster` has it."""

    def begin(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]: ...

    def end(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]: ...

    def times_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int] | None]: ...

    def timestamps_in(self, windows: Mapping[TopicPartition, Window]) -> dict[TopicPartition, int | None]: ...


class Search:
    """For the largest timestamp of one partition below the offset `before`."""

    __slots__ = ("before", "begin", "high", "low", "low_at", "step", "sure")

    def __init__(self, before: int) -> None:
        self.begin, self.before = 0, before
        self.sure: int | None = None
        """The largest that a record below was seen to have."""
        self.low: int | None = None
        """The largest that something below has by the index: `sure`, or what lies at `low_at`."""
        self.low_at: int | None = None
        self.high: int | None = None
        """Nothing below has this time or a later one."""
        self.step = 1

    def see(self, timestamp: int | None) -> None:
        """A record below has it."""
        if timestamp is not None and (self.sure is None or timestamp > self.sure):
            self.sure = timestamp
        if self.sure is not None and (self.low is None or self.low < self.sure):
            self.low, self.low_at = self.sure, None

    @property
    def doubtful(self) -> bool:
        """Whether it is not known yet if what lies at `low_at` is a record."""
        return self.low_at is not None and self.low != self.sure

    def question(self) -> int | None:
        """The time to ask for next; None when there is nothing more to ask."""
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
            self.high = None  # the index has told two stories: see the top of this file


def find_maxima(before: Mapping[TopicPartition, int], log: Log) -> dict[TopicPartition, int | None]:
    """The largest timestamps of the records below these offsets; None where there are none."""
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
    """Search by the index. Returns those whose search ended at what is no record."""
    going, masked = dict(searches), {}
    for round_number in range(ROUNDS):
        questions = {tp: time for tp, search in going.items() if (time := search.question()) is not None}
        if not questions:
            break
        for tp, found in log.times_at(questions).items():
            going[tp].answer(questions[tp], found)
        going = {tp: going[tp] for tp in questions}
        if round_number == 0:
            # A log with transactions is known by this, and need not be searched to the end in vain.
            masked = _verify({tp: search for tp, search in going.items() if search.sure is not None}, log)
            going = {tp: search for tp, search in going.items() if tp not in masked}
    return masked | _verify({tp: search for tp, search in searches.items() if tp not in masked}, log)


def _verify(searches: Mapping[TopicPartition, Search], log: Log) -> dict[TopicPartition, Search]:
    """See whether records lie where the index says. Returns those where none does."""
    doubtful = {tp: at for tp, search in searches.items() if search.doubtful and (at := search.low_at) is not None}
    if not doubtful:
        return {}
    seen = log.timestamps_in({tp: Window(at, at, at + 1) for tp, at in doubtful.items()})
    for tp, timestamp in seen.items():
        searches[tp].see(timestamp)
    return {tp: searches[tp] for tp in doubtful if seen.get(tp) is None}


def _look_back(searches: Mapping[TopicPartition, Search], back: int, log: Log) -> None:
    """See what the records so far before the ends have."""
    windows = {tp: Window(max(s.begin, s.before - back), s.begin, s.before) for tp, s in searches.items()}
    for tp, timestamp in (log.timestamps_in(windows) if windows else {}).items():
        searches[tp].see(timestamp)
