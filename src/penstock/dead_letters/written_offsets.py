"""WHICH offsets of a partition have letters, as far as a note beside a committed offset has room to tell. Pure.

A note tells of the newest letters one by one, and of those before only what spans of offsets were done with:

    <about> <since>:<gap>[.<length>],...  <start>-<stop> ...

From `since` on, letters stand as runs of offsets, each by its distance from the end of the one before. Records may fail
in one attempt and not in the next (a lookup that failed, a registry that was behind): spans alone would take a letter
for written if another one of its span was.
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
"""Of at most 40 characters each: brokers take notes of 4,096 bytes unless told otherwise."""

RUNS_ROOM = 1900
"""Characters. A bad record among a thousand good ones takes four."""

_SPAN = re.compile(r"(\d{1,19})-(\d{1,19})", re.ASCII)
_RUN = re.compile(r"(\d{1,19})(?:\.(\d{1,19}))?", re.ASCII)

Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Spans:
    """Spans [start, stop) of one partition's offsets, in the order in which they were done; the oldest are forgotten.

    `about` is one word, such as the topic's id: offsets of a topic created later under the same name are others.
    """

    about: str
    spans: tuple[Span, ...] = ()
    since: int = 0
    """From here on `runs` has all letters there are; below, all that is in `spans` counts as done."""
    runs: tuple[Span, ...] = ()
    """In order, none touching another."""

    def has(self, offset: int) -> bool:
        """Whether a record at fault needs no letter any more."""
        if offset < self.since:
            return any(start <= offset < stop for start, stop in self.spans)
        at = bisect_right(self.runs, (offset, inf)) - 1
        return at >= 0 and offset < self.runs[at][1]

    def with_letters(self, start: int, stop: int, offsets: Iterable[int]) -> Spans:
        """These, and one more span, for which letters were written about these offsets."""
        one_by_one = ((offset, offset + 1) for offset in offsets if offset >= self.since)
        runs = _joined([*self.runs, *one_by_one])
        since, kept = _newest(self.since, runs)
        return replace(self._with_span(start, stop), since=since, runs=kept)

    def _with_span(self, start: int, stop: int) -> Spans:
        """It takes in all that it touches."""
        apart = []
        for other in self.spans:
            if other[1] < start or stop < other[0]:
                apart.append(other)
            else:
                start, stop = min(start, other[0]), max(stop, other[1])
        return replace(self, spans=(*apart[1 - SPANS_KEPT :], (start, stop)))

    def __str__(self) -> str:
        runs = f"{self.since}:{','.join(_texts(self.since, self.runs))}"
        return " ".join([self.about, runs, *(f"{start}-{stop}" for start, stop in self.spans)])


def parse_spans(note: str, about: str) -> Spans:
    """The spans of a note; none if it is about something else, or none of us wrote it."""
    noted, *texts = note.split(" ")
    since, colon, runs_text = texts[0].partition(":") if texts else ("", "", "")
    steps = [_RUN.fullmatch(text) for text in runs_text.split(",")] if runs_text else []
    spans = [_SPAN.fullmatch(text) for text in texts[1:]]
    if noted != about or not colon or not re.fullmatch(r"[0-9]{1,19}", since) or None in steps or None in spans:
        return Spans(about)
    runs: list[Span] = []
    end = int(since)
    for step in steps:
        if step is not None:
            begin = end + int(step[1])
            end = begin + int(step[2] or 1)
            runs.append((begin, end))
    return Spans(about, tuple((int(span[1]), int(span[2])) for span in spans if span), int(since), tuple(runs))


def _joined(spans: list[Span]) -> list[Span]:
    """In order, and those that touch are one."""
    joined: list[Span] = []
    for start, stop in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return joined


def _newest(since: int, runs: Sequence[Span]) -> tuple[int, tuple[Span, ...]]:
    """Of the runs from an offset on, those for which there is room, and from where on they are all."""
    room = RUNS_ROOM
    for at, text in reversed(list(enumerate(_texts(since, runs)))):
        room -= len(text) + 1
        if room < 0:
            return runs[at][1], tuple(runs[at + 1 :])
    return since, tuple(runs)


def _texts(since: int, runs: Sequence[Span]) -> list[str]:
    """Each run by its distance from the one before, so that it stays the same when those before are left out."""
    steps = [(start - end, stop - start) for (_, end), (start, stop) in pairwise([(since, since), *runs])]
    return [str(gap) if length == 1 else f"{gap}.{length}" for gap, length in steps]
