"""What a broker's answer by time proves, and when it hides records.

A broker answers a ListOffsets request with a time T from one segment (`UnifiedLog.fetchOffsetByTimestamp`, Kafka 4.3):
the first whose largest timestamp is T or later. In that segment it searches for the first record at or after T that is
not below the log's start. If there is none it answers -1, and does not search the next segment.

An offset is proof: all segments before have smaller timestamps, so no record below the offset has the time. The offset
may be that of a transaction marker or of an aborted record: brokers count both, readers get neither. An offset at or
past the end that was read before proves that no record below that end has the time. So brokers are always asked under
read_uncommitted: an open transaction then gives an offset, where read_committed gives -1.

-1 is proof only if no segment reaches T. These segments reach T and have no record of it:

- Records were deleted inside of a segment, or a segment was deleted and still exists (`kafka-delete-records`).
- Compaction has emptied a batch and kept its header, with its timestamp, for the producer's sequence number.
- No record of a segment has a timestamp (or compaction has left none): its largest is then that of the file.

So after -1 the broker is asked for its largest timestamp (-3, KIP-734; Kafka 3.0). That is the largest over all
segments, including deleted records and markers: if it is before T, no record has the time. If the broker has no answer,
or is older than Kafka 3.0, it is not known whether the -1 hides records.

Not covered: topics with tiered storage. For these, -3 covers the local segments only; and if the remote segment that
reaches T has no record of it, brokers continue with the local log and skip the remote segments in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from penstock.model.topic_partition import TopicPartition


class TimeAnswers(NamedTuple):
    """What is certain about the first records of a time. Partitions in neither field have no record at or after it."""

    found: dict[TopicPartition, tuple[int, int]]
    """Offset and timestamp of the first record, marker or aborted record at or after the time."""
    unknown: frozenset[TopicPartition]
    """Brokers answer that all records are before the time, and may be wrong."""


class TimeIndex(Protocol):
    """The two questions that brokers answer."""

    def times_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int] | None]: ...

    def largest_times(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]: ...


def look_up(times: Mapping[TopicPartition, int], index: TimeIndex) -> TimeAnswers:
    """Ask brokers for the first records at or after a time: one request per leader, and a second one to those that
    answer that there are none."""
    answers = index.times_at(times) if times else {}
    silent = [tp for tp, answer in answers.items() if answer is None]
    largest = index.largest_times(silent) if silent else {}
    unknown = {tp for tp in silent if (latest := largest[tp]) is None or latest >= times[tp]}
    return TimeAnswers({tp: answer for tp, answer in answers.items() if answer is not None}, frozenset(unknown))
