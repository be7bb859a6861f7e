"""The offsets of a partition that have letters, as far as the metadata of a committed offset has room. Pure.

A note lists the newest letters one by one. Of earlier offsets it lists only the spans that are done:

    <topic ids> <since>:<gap>[.<length>],...  <start>-<stop> ...

From `since` on, letters are runs of offsets, each written as its distance from the end of the run before. A record may
fail in one attempt and not in the next (a failed lookup, a registry that was behind). With spans alone, its letter
would count as written if another letter of its span was.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import TypeAlias

SPANS_KEPT = 50
"""Of at most 40 characters each. Brokers accept metadata of 4,096 bytes by default."""

RUNS_ROOM = 1900
"""Characters. A bad record among a thousand good ones takes four."""

_SPAN = re.compile(r"(\d{1,19})-(\d{1,19})", re.ASCII)
_RUN = re.compile(r"(\d{1,19})(?:\.(\d{1,19}))?", re.ASCII)

Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class WrittenOffsets:
    """Offsets of one partition that need no letter any more."""

    topic_ids: str
    """One word. Offsets of a recreated topic are other records."""
    spans: tuple[Span, ...] = ()
    """Spans [start, stop) that are done, in the order in which they were done. The oldest are dropped."""
    since: int = 0
    """From this offset on, `runs` lists all letters. Below it, all offsets in `spans` count as written."""
    runs: tuple[Span, ...] = ()
    """Sorted, none adjacent to another."""

    def __contains__(self, offset: int) -> bool:
        if offset < self.since:
            return any(start <= offset < stop for start, stop in self.spans)
        at = bisect_right(self.runs, (offset, inf)) - 1
        return at >= 0 and offset < self.runs[at][1]

    def with_letters(self, start: int, stop: int, offsets: Iterable[int]) -> WrittenOffsets:
        """Add the span [start, stop), in which letters were written for `offsets`."""
        one_by_one = ((offset, offset + 1) for offset in offsets if offset >= self.since)
        runs = _joined([*self.runs, *one_by_one])
        since, kept = _newest(self.since, runs)
        return replace(self._with_span(start, stop), since=since, runs=kept)

    def _with_span(self, start: int, stop: int) -> WrittenOffsets:
        """Add a span, merged with all spans that it touches."""
        apart = []
        for other in self.spans:
            if other[1] < start or stop < other[0]:
                apart.append(other)
            else:
                start, stop = min(start, other[0]), max(stop, other[1])
        return replace(self, spans=(*apart[1 - SPANS_KEPT :], (start, stop)))

    def __str__(self) -> str:
        """The note."""
        runs = f"{self.since}:{','.join(_texts(self.since, self.runs))}"
        return " ".join([self.topic_ids, runs, *(f"{start}-{stop}" for start, stop in self.spans)])


def parse_note(note: str, topic_ids: str) -> WrittenOffsets:
    """Parse a note. A note about other topic ids, or one that Penstock did not write, lists nothing."""
    noted, *texts = note.split(" ")
    since, colon, runs_text = texts[0].partition(":") if texts else ("", "", "")
    steps = [_RUN.fullmatch(text) for text in runs_text.split(",")] if runs_text else []
    spans = [_SPAN.fullmatch(text) for text in texts[1:]]
    if noted != topic_ids or not colon or not re.fullmatch(r"[0-9]{1,19}", since) or None in steps or None in spans:
        return WrittenOffsets(topic_ids)
    runs: list[Span] = []
    end = int(since)
    for step in steps:
        if step is not None:
            begin = end + int(step[1])
            end = begin + int(step[2] or 1)
            runs.append((begin, end))
    done = tuple((int(span[1]), int(span[2])) for span in spans if span)
    return WrittenOffsets(topic_ids, done, int(since), tuple(runs))


def _joined(spans: list[Span]) -> list[Span]:
    """Sorted, with adjacent spans merged."""
    joined: list[Span] = []
    for start, stop in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return joined


def _newest(since: int, runs: Sequence[Span]) -> tuple[int, tuple[Span, ...]]:
    """The newest runs that a note has room for, and the offset from which on they are complete."""
    room = RUNS_ROOM
    for at, text in reversed(list(enumerate(_texts(since, runs)))):
        room -= len(text) + 1
        if room < 0:
            return runs[at][1], tuple(runs[at + 1 :])
    return since, tuple(runs)


def _texts(since: int, runs: Sequence[Span]) -> list[str]:
    """Each run by its distance from the run before, so that its text stays the same when earlier runs are dropped."""
    steps = [(start - end, stop - start) for (_, end), (start, stop) in pairwise([(since, since), *runs])]
    return [str(gap) if length == 1 else f"{gap}.{length}" for gap, length in steps]
