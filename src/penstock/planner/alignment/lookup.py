"""What alignment asks about records that were not read: the time index of brokers, and samples of payloads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from penstock.model.topic_partition import Offsets, TopicPartition


class NextRecords(NamedTuple):
    """The next few records of a partition: their lowest and highest event time, and how many offsets they span."""

    lowest: int
    highest: int
    offsets: int


class TimeLookup(Protocol):
    """What brokers know about record timestamps (milliseconds)."""

    def max_timestamps(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The highest timestamp of the records before an offset; None if there are none."""

    def by_time(
        self, times: Mapping[TopicPartition, int]
    ) -> tuple[Mapping[TopicPartition, tuple[int, int]], Collection[TopicPartition]]:
        """Offset and timestamp of the first record, marker or aborted record at or after a time; and the partitions
        where brokers do not know it. In all other partitions every record is older."""

    def timestamps_of(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The timestamps of single records; None where a reader gets no record."""


class PayloadLookup(Protocol):
    """Reads event times from the payloads of a few records."""

    def before(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | None]:
        """The highest event time of the last records before an offset; None if they have none."""

    def after(
        self, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, NextRecords | None]:
        """The records from an offset on; None if they have no event time."""


class NewestTimestamps:
    """The highest timestamp of each log, kept for as long as the log has the same end."""

    def __init__(self, lookup: TimeLookup) -> None:
        self._lookup = lookup
        self._found: dict[TopicPartition, tuple[int, int | None]] = {}
        """The end of a log when it was looked at, and the highest timestamp before it."""

    def look(self, ends: Offsets) -> None:
        """Ask for the logs that have grown since the last look."""
        grown = {tp: end for tp, end in ends.items() if not self.knows(tp, end)}
        if grown:
            self._found |= {tp: (grown[tp], found) for tp, found in self._lookup.max_timestamps(grown).items()}

    def knows(self, tp: TopicPartition, end: int) -> bool:
        return tp in self._found and self._found[tp][0] == end

    def of(self, tp: TopicPartition) -> int | None:
        """The highest timestamp of a log that was looked at; None if no record has one."""
        return self._found[tp][1]

    def forget(self, tp: TopicPartition) -> None:
        self._found.pop(tp, None)
