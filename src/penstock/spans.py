"""WHICH offsets of a partition are done: a few spans, short enough for the note beside a committed offset. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

SPANS_KEPT = 100
"""Of at most 40 characters each: brokers take notes of 4,096 bytes unless told otherwise."""

_SPAN = re.compile(r"(\d{1,19})-(\d{1,19})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Spans:
    """Spans [start, stop) of one partition's offsets, in the order in which they were done; the oldest are forgotten.

    `about` is one word, such as the topic's id: offsets of a topic created later under the same name are others.
    """

    about: str
    spans: tuple[tuple[int, int], ...] = ()

    def has(self, offset: int) -> bool:
        return any(start <= offset < stop for start, stop in self.spans)

    def with_span(self, start: int, stop: int) -> Spans:
        """These and one more, which takes in all that it touches."""
        apart = []
        for other in self.spans:
            if other[1] < start or stop < other[0]:
                apart.append(other)
            else:
                start, stop = min(start, other[0]), max(stop, other[1])
        return Spans(self.about, (*apart[1 - SPANS_KEPT :], (start, stop)))

    def __str__(self) -> str:
        return " ".join([self.about, *(f"{start}-{stop}" for start, stop in self.spans)])


def parse_spans(note: str, about: str) -> Spans:
    """The spans of a note; none if it is about something else, or none of us wrote it."""
    noted, *texts = note.split(" ")
    found = [_SPAN.fullmatch(text) for text in texts]
    if noted != about or None in found:
        return Spans(about)
    return Spans(about, tuple((int(match[1]), int(match[2])) for match in found if match is not None))
