"""WHAT CAN BE ASKED about records that were not read: brokers by their index of times, and a look at payloads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.planner.alignment.pace import Ahead


class TimeLookup(Protocol):
    """What brokers know of record timestamps (milliseconds)."""

    def max_timestamps(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The highest timestamp of the records before an offset; None if there are none."""

    def by_time(
        self, times: Mapping[TopicPartition, int]
    ) -> tuple[Mapping[TopicPartition, tuple[int, int]], Collection[TopicPartition]]:
        """Offset and timestamp of the first record, marker or aborted record that is not older than a time; and the
        partitions of which brokers do not know it. In all others every record is older."""

    def timestamps_of(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The timestamps of single records; None where a reader gets none."""


class Peek(Protocol):
    """A look at few records, for event times in the payload."""

    def before(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | None]:
        """The highest event time of the last records before an offset; None if there is none."""

    def after(
        self, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Ahead | None]:
        """The records from an offset on; None if they have no event time."""


class Newest:
    """The highest timestamp of each log, remembered for as long as the log ends where it did when it was asked for."""

    def __init__(self, lookup: TimeLookup) -> None:
        self._lookup = lookup
        self._found: dict[TopicPartition, tuple[int, int | None]] = {}
        """The end of a log when it was looked at, and the highest timestamp before it."""

    def look(self, ends: Offsets) -> None:
        """Ask for those of logs that have grown since."""
        grown = {tp: end for tp, end in ends.items() if not self.knows(tp, end)}
        if grown:
            self._found |= {tp: (grown[tp], found) for tp, found in self._lookup.max_timestamps(grown).items()}

    def knows(self, tp: TopicPartition, end: int) -> bool:
        return tp in self._found and self._found[tp][0] == end

    def of(self, tp: TopicPartition) -> int | None:
        """Of a log that was looked at; None if no record has one."""
        return self._found[tp][1]

    def forget(self, tp: TopicPartition) -> None:
        self._found.pop(tp, None)
