"""What a broker's answer by time proves, and when it hides records.

A ListOffsets request with a time T is answered from one segment (`UnifiedLog.fetchOffsetByTimestamp`, Kafka 4.3): the
first whose largest timestamp is T or later. In that segment the broker looks for the first record that is not older
than T and lies at or past the log's start. If it finds none it answers -1, and does not look into the next segment.

An offset is proof, as all segments before are older by their largest timestamp: no record below it has the time. What
lies there may be a transaction's marker or an aborted record: brokers count both, readers get neither. An offset at or
past the end that was read before is proof that nothing below that end has the time. Therefore brokers are always asked
as one that reads uncommitted: an open transaction then gives an offset, where one that reads committed gets -1.

-1 is proof only if no segment reaches T. Segments that reach T and have no record of it:

- Records were deleted inside of a segment, or a whole segment was and is not gone yet (`kafka-delete-records`).
- Compaction has emptied a batch and kept its header, with its timestamp, for the producer's sequence number.
- No record of a segment has a timestamp (or compaction has left none): its largest is then that of the file.

So after -1 the broker is asked for its largest timestamp (-3, KIP-734; Kafka 3.0). That is the largest over all
segments, deleted records and markers included: if it is older than T, no record has the time. A broker may have no
answer, and brokers before Kafka 3.0 do not know the question: then it is not known whether the -1 hides anything.

Not covered: topics with tiered storage. Of these, -3 knows the local segments only; and where the remote segment that
reaches T has no record of it, brokers go on with the local log and pass over the remote segments in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from penstock.model.topic_partition import TopicPartition


class TimeAnswers(NamedTuple):
    """What is certain about the first records of a time. Partitions in neither have no record that is not older."""

    found: dict[TopicPartition, tuple[int, int]]
    """Offset and timestamp of the first record, marker or aborted record that is not older than the time."""
    unknown: frozenset[TopicPartition]
    """Brokers say that all records are older, and may be wrong."""


class TimeIndex(Protocol):
    """What brokers answer."""

    def times_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int] | None]: ...

    def largest_times(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]: ...


def look_up(times: Mapping[TopicPartition, int], index: TimeIndex) -> TimeAnswers:
    """Ask brokers for the first records that are not older than a time, one request per leader; and one more where they
    say that there is none."""
    answers = index.times_at(times) if times else {}
    silent = [tp for tp, answer in answers.items() if answer is None]
    largest = index.largest_times(silent) if silent else {}
    unknown = {tp for tp in silent if (latest := largest[tp]) is None or latest >= times[tp]}
    return TimeAnswers({tp: answer for tp, answer in answers.items() if answer is not None}, frozenset(unknown))
