"""How far each partition may go, given where all of them stand: the allowed drift ahead of the slowest (E4). Pure."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.model.topic_partition import TopicPartition

NOTHING, EVERYTHING = -(2**63), 2**63
"""Below and above every event-time watermark."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The event-time watermarks that partitions must not pass. A partition does not wait for itself, so the slowest has
    a limit of its own: the drift ahead of the next slowest."""

    others: int
    slowest: int
    which: TopicPartition | None
    """The slowest partition."""

    def of(self, tp: TopicPartition) -> int:
        return self.slowest if tp == self.which else self.others


def limits_of(stands: Mapping[TopicPartition, int | None], drift: int) -> Limits:
    """The limits for active partitions that stand at these event-time watermarks; None and NOTHING are unknown."""
    low = heapq.nsmallest(2, ((NOTHING if mark is None else mark, tp) for tp, mark in stands.items()))
    reach = [mark if mark == NOTHING else mark + drift for mark, _ in low]
    match reach:
        case []:
            return Limits(EVERYTHING, EVERYTHING, None)
        case [others]:
            return Limits(others, EVERYTHING, low[0][1])
        case [others, slowest]:
            return Limits(others, slowest, low[0][1])
    raise AssertionError(reach)
