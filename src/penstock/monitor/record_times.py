"""The timestamps of next records: what is known, and what to look up next. No I/O here.

A record's timestamp does not change. So an answer counts for as long as the committed offset stays where it is, and
costs nothing then.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Mapping
from typing import NamedTuple

from penstock.model.topic_partition import TopicPartition
from penstock.wire.lookup.next_records import NextRecord

PASSES = 4
"""Look-ups of one partition per round: a request has room for one offset per partition, and groups have many."""


class _Answer(NamedTuple):
    record: NextRecord
    end: int
    """The end of the log when it was asked. That nothing is left counts only up to there."""


class RecordTimes:
    def __init__(self) -> None:
        self._known: dict[TopicPartition, dict[int, _Answer]] = {}
        self._ordered: dict[TopicPartition, list[tuple[int, int]]] = {}
        """Offsets with their timestamps, sorted when they are first needed."""
        self._last: TopicPartition | None = None
        """The partition that was looked up last: the next round goes on behind it."""
        self._turn = 0

    def missing(
        self, wanted: Mapping[TopicPartition, Collection[int]], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, list[int]]:
        """The offsets without an answer."""
        found = {}
        for tp, offsets in wanted.items():
            left = sorted(offset for offset in offsets if self._at(tp, offset, ends.get(tp)) is None)
            if left:
                found[tp] = left
        return found

    def choose(self, missing: Mapping[TopicPartition, list[int]], budget: int) -> list[dict[TopicPartition, int]]:
        """What to look up now: at most `budget` offsets, in passes with one offset per partition. Partitions, and the
        offsets of a partition, take turns."""
        self._turn += 1
        ordered = sorted(missing)
        if self._last is not None:
            start = bisect.bisect_right(ordered, self._last)
            ordered = ordered[start:] + ordered[:start]
        passes: list[dict[TopicPartition, int]] = []
        for number in range(PASSES):
            able = [tp for tp in ordered if len(missing[tp]) > number][: max(0, budget)]
            if not able:
                break
            passes.append({tp: missing[tp][(self._turn + number) % len(missing[tp])] for tp in able})
            budget -= len(able)
            if number == 0:
                self._last = able[-1]
        return passes

    def learn(
        self,
        asked: Mapping[TopicPartition, int],
        answers: Mapping[TopicPartition, NextRecord],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        for tp, answer in answers.items():
            self._known.setdefault(tp, {})[asked[tp]] = _Answer(answer, ends.get(tp, -1))
            self._ordered.pop(tp, None)

    def record_at(self, tp: TopicPartition, offset: int, end: int | None) -> NextRecord | None:
        """The next record at an offset; None if it is not known."""
        return self._at(tp, offset, end)

    def earlier(self, tp: TopicPartition, offset: int) -> int | None:
        """The timestamp of a known record at an earlier offset: the nearest one."""
        ordered = self._ordered.get(tp)
        if ordered is None:
            known = self._known.get(tp, {})
            ordered = self._ordered[tp] = sorted(
                (at, answer.record.timestamp) for at, answer in known.items() if answer.record.timestamp is not None
            )
        place = bisect.bisect_left(ordered, (offset, -1))
        return ordered[place - 1][1] if place else None

    def keep(self, wanted: Mapping[TopicPartition, set[int]]) -> None:
        """Forget offsets that no group is at any more, but for the nearest one below each offset without an answer."""
        kept: dict[TopicPartition, dict[int, _Answer]] = {}
        for tp, offsets in wanted.items():
            known = self._known.get(tp)
            if not known:
                continue
            ordered = sorted(known)
            keep = offsets & known.keys()
            for offset in offsets - known.keys():
                if at := bisect.bisect_left(ordered, offset):
                    keep.add(ordered[at - 1])
            kept[tp] = {offset: known[offset] for offset in keep}
        self._known = kept
        self._ordered.clear()

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    def _at(self, tp: TopicPartition, offset: int, end: int | None) -> NextRecord | None:
        answer = self._known.get(tp, {}).get(offset)
        if answer is None or (not answer.record.exists and answer.end != end):
            return None
        return answer.record
