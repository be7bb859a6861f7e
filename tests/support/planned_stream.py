"""Drives the planner of a stream as Spark does, without Spark."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.model.topic_partition import TopicPartition
from penstock.planner.stream import StreamPlanner


class PlannedStream:
    """Asks for the latest offsets, writes the offset log, plans the batch, and repeats."""

    def __init__(
        self, make: Callable[[Callable[[], float]], StreamPlanner], state: dict[TopicPartition, int] | None = None
    ) -> None:
        """`make` gets the clock for the planner that it creates. `state` is the content of a checkpoint."""
        self.later = 0.0
        self.planner = make(self.now)
        self.state = state
        self.read: list[dict[TopicPartition, tuple[int, int]]] = []

    def now(self) -> float:
        return time.monotonic() + self.later

    def trigger(self, everything: bool = False) -> dict[TopicPartition, tuple[int, int]]:
        """One trigger: the ranges of its batch; {} if there is nothing to do."""
        start = self.planner.initial() if self.state is None else self.state
        end = self.planner.latest(dict(start), everything)
        if end == self.state:
            return {}
        if self.state is None:
            start = self.planner.initial()  # Spark calls it again when it runs the first batch
        batch = self.ranges(start, end)
        self.state = end
        self.read.append(batch)
        return batch

    def ranges(self, start: dict[TopicPartition, int], end: dict[TopicPartition, int]):
        ranges = self.planner.ranges(start, end)
        assert len({r.topic_partition for r in ranges}) == len(ranges), "one range per partition without a split"
        return {r.topic_partition: (r.start, r.stop) for r in ranges}

    def run(self, triggers: int = 20) -> dict[TopicPartition, list[int]]:
        """Trigger until there is nothing to do. Returns the offsets read per partition."""
        seen: dict[TopicPartition, list[int]] = {}
        for _ in range(triggers):
            before = self.state
            for tp, (start, stop) in self.trigger().items():
                seen.setdefault(tp, []).extend(range(start, stop))
            if self.state == before:
                return seen
        raise AssertionError(f"still busy after {triggers} triggers")
