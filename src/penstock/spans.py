"""WHICH offsets of a partition are done: a few spans, short enough for the note beside a committed offset. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

SPANS_KEPT = 50
"""Of at most 40 characters each: brokers take notes of 4,096 bytes unless told otherwise."""

_SPAN = re.compile(r"(\d{1,19})-(\d{1,19})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Spans:
    """Spans [start, stop) of one topic's offsets, in the order in which they were done; the oldest are forgotten.

    `topic_id` tells a topic from one of the same name created later, whose offsets are others.
    """

    topic_id: str
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
        return Spans(self.topic_id, (*apart[1 - SPANS_KEPT :], (start, stop)))

    def __str__(self) -> str:
        return " ".join([self.topic_id, *(f"{start}-{stop}" for start, stop in self.spans)])


def parse_spans(note: str, topic_id: str) -> Spans:
    """The spans of a note; none if it is about another topic, or nobody of us wrote it."""
    noted_id, *texts = note.split(" ")
    found = [_SPAN.fullmatch(text) for text in texts]
    if noted_id != topic_id or None in found:
        return Spans(topic_id)
    return Spans(topic_id, tuple((int(match[1]), int(match[2])) for match in found if match is not None))
