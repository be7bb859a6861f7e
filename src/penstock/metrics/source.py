"""The metrics (F26): their names, and their values out of what Spark reports of one source.

The names are those of Flink's Kafka source where it has one, so that a dashboard's words carry over. One thing differs:
offsets here name the next record to read, Flink's `currentOffset` the last one read.

Everything is computed from Spark's progress, because that is the only way from a source in Spark to whoever watches.
What a source does not report is None: Spark's own Kafka source reports offsets, but no commits and no bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from penstock.eventtime.tracker import EventTimeStatus
from penstock.model.topic_partition import TopicPartition

REPORT_KEY = "#penstock"
"""The key beside the topics under which a Penstock source reports its own figures. No topic can be called so."""

LARGEST = 2**63


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: Literal["counter", "gauge"]
    help: str
    labels: tuple[str, ...] = ()

    @property
    def prometheus_name(self) -> str:
        """`penstock_pending_records` for `pendingRecords`; a counter's `_total` is not part of it."""
        return "penstock_" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name).lower()


PARTITION = ("topic", "partition")

PENDING_RECORDS = Metric("pendingRecords", "gauge", "Records between the query and the end of the log, all partitions")
RECORDS_LAG = Metric("recordsLag", "gauge", "Records between the query and the end of the log", PARTITION)
CURRENT_OFFSET = Metric("currentOffset", "gauge", "Offset of the next record the query will read", PARTITION)
LATEST_OFFSET = Metric("latestOffset", "gauge", "Offset of the next record that will be produced", PARTITION)
COMMITTED_OFFSET = Metric("committedOffset", "gauge", "Offset that the consumer group was told", PARTITION)
COMMITS_SUCCEEDED = Metric("commitsSucceeded", "counter", "Commits to the consumer group that Kafka took")
COMMITS_FAILED = Metric("commitsFailed", "counter", "Commits to the consumer group that failed")
LOST_RANGES = Metric(
    "lostRanges", "counter", "Offset ranges that were gone before they were read (failOnDataLoss false)"
)
MALFORMED_RECORDS = Metric("malformedRecords", "counter", "Records that did not parse, since the query was started")
DROPPED_RECORDS = Metric("droppedRecords", "counter", "Of those, left out (modes DROPMALFORMED, DEADLETTER)")
DEAD_LETTERS = Metric("deadLetters", "counter", "Of those, written to deadLetterTopic (mode DEADLETTER)")
SKIPPED_RECORDS = Metric("skippedRecords", "counter", "Records that a deserializer of your own left out")
EVENT_TIME_WATERMARK = Metric(
    "eventTimeWatermark", "gauge", "Combined event-time watermark, in seconds since 1970, as of the last batch"
)
EVENT_TIME_LAG = Metric("eventTimeLag", "gauge", "Seconds that the combined event-time watermark is behind the clock")
LATE_RECORDS = Metric("lateRecords", "counter", "Records whose event time the combined watermark had already passed")
PARTITION_WATERMARK = Metric(
    "partitionEventTimeWatermark", "gauge", "Event-time watermark of a partition, in seconds since 1970", PARTITION
)
PARTITION_IDLE = Metric("partitionIdle", "gauge", "1 while a partition is idle and holds no other back", PARTITION)
PARTITION_HELD = Metric(
    "partitionHeld", "gauge", "1 while a partition is held back, because it is too far ahead of others", PARTITION
)
RECORDS_PER_SECOND = Metric("numRecordsInPerSecond", "gauge", "Records per second in the last batch; 0 while idle")
BYTES_PER_SECOND = Metric(
    "numBytesInPerSecond", "gauge", "Bytes per second, as stored by Kafka, in the last batch (estimated); 0 while idle"
)

METRICS = (
    PENDING_RECORDS,
    RECORDS_LAG,
    CURRENT_OFFSET,
    LATEST_OFFSET,
    COMMITTED_OFFSET,
    COMMITS_SUCCEEDED,
    COMMITS_FAILED,
    LOST_RANGES,
    MALFORMED_RECORDS,
    DROPPED_RECORDS,
    DEAD_LETTERS,
    SKIPPED_RECORDS,
    EVENT_TIME_WATERMARK,
    EVENT_TIME_LAG,
    LATE_RECORDS,
    PARTITION_WATERMARK,
    PARTITION_IDLE,
    PARTITION_HELD,
    RECORDS_PER_SECOND,
    BYTES_PER_SECOND,
)

Sample: TypeAlias = tuple[Metric, tuple[str, ...], float]
"""A metric, the values of its labels, its value."""


@dataclass(frozen=True, slots=True)
class PartitionMetrics:
    topic: str
    partition: int
    current_offset: int
    latest_offset: int | None = None
    committed_offset: int | None = None
    watermark: int | None = None
    """Its event-time watermark, in milliseconds since 1970."""
    idle: bool | None = None
    """Whether it had no records for so long that it holds no other back."""
    held: bool | None = None
    """Whether it is held back, because it would run too far ahead of others."""

    @property
    def lag(self) -> int | None:
        """Records behind, never below 0: the log may have been asked for its end before the batch was planned."""
        return None if self.latest_offset is None else max(0, self.latest_offset - self.current_offset)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class SourceMetrics:
    """One source of one query, as of its last progress. What was not reported is None."""

    partitions: tuple[PartitionMetrics, ...] = ()
    """Ordered by topic and number; only those the query reads. Partitions of the checkpoint that the subscription does
    not include are left out."""
    num_input_rows: int = 0
    records_per_second: float | None = None
    bytes_per_second: float | None = None
    commits_succeeded: int | None = None
    commits_failed: int | None = None
    lost_ranges: int | None = None
    malformed_records: int | None = None
    dropped_records: int | None = None
    dead_letters: int | None = None
    skipped_records: int | None = None
    watermark: int | None = None
    """The combined event-time watermark, in milliseconds since 1970."""
    event_time_lag: float | None = None
    """Seconds from that to the time of the progress; below 0 if records are of the future."""
    late_records: int | None = None
    finished: bool | None = None
    """Whether the stream has come to the end that its options set or its deserializer finds; None if it has none, or
    does not say."""
    reported: bool = False
    """Whether a Penstock source told its own figures (option reportMetrics)."""

    @property
    def lag(self) -> int | None:
        """Records behind over all partitions whose end is known; None where none is known."""
        known = [lag for partition in self.partitions if (lag := partition.lag) is not None]
        return sum(known) if known or not self.partitions else None

    @property
    def worst(self) -> PartitionMetrics | None:
        """The partition that is furthest behind."""
        return max(self.partitions, key=lambda partition: partition.lag or 0, default=None)

    def samples(self) -> Iterator[Sample]:
        """Everything that is known, as samples."""
        for metric, value in (
            (PENDING_RECORDS, self.lag),
            (COMMITS_SUCCEEDED, self.commits_succeeded),
            (COMMITS_FAILED, self.commits_failed),
            (LOST_RANGES, self.lost_ranges),
            (MALFORMED_RECORDS, self.malformed_records),
            (DROPPED_RECORDS, self.dropped_records),
            (DEAD_LETTERS, self.dead_letters),
            (SKIPPED_RECORDS, self.skipped_records),
            (EVENT_TIME_WATERMARK, _seconds(self.watermark)),
            (EVENT_TIME_LAG, self.event_time_lag),
            (LATE_RECORDS, self.late_records),
            (RECORDS_PER_SECOND, self.records_per_second),
            (BYTES_PER_SECOND, self.bytes_per_second),
        ):
            if value is not None:
                yield metric, (), value
        for each in self.partitions:
            for metric, value in (
                (RECORDS_LAG, each.lag),
                (CURRENT_OFFSET, each.current_offset),
                (LATEST_OFFSET, each.latest_offset),
                (COMMITTED_OFFSET, each.committed_offset),
                (PARTITION_WATERMARK, _seconds(each.watermark)),
                (PARTITION_IDLE, each.idle),
                (PARTITION_HELD, each.held),
            ):
                if value is not None:
                    yield metric, (each.topic, str(each.partition)), value

    @classmethod
    def from_progress(
        cls,
        start_offset: str | None,
        end_offset: str | None,
        latest_offset: str | None,
        num_input_rows: int = 0,
        batch_duration_ms: float | None = None,
        timestamp: str | None = None,
    ) -> SourceMetrics | None:
        """Out of the offset texts of a source's progress, and the time of that. None for a source that is not one of
        Kafka, or says nothing yet: offsets of other sources look different, and are no error here."""
        document = _document(latest_offset)
        report = document.pop(REPORT_KEY, None) if document is not None else None
        latest, end, start = _offsets(document), _offsets(_document(end_offset)), _offsets(_document(start_offset))
        if end is None or not (end or isinstance(report, dict)):
            return None
        figures = report if isinstance(report, dict) else {}
        committed = _offsets(figures.get("committedOffsets")) or {}
        seconds = None if batch_duration_ms is None else max(1.0, batch_duration_ms) / 1000
        event_time = _EventTime.of(figures)
        unread = _partitions(figures.get("unreadPartitions"))
        size = _bytes(start, end, num_input_rows, _numbers(figures.get("bytesPerRecord")))
        return cls(
            partitions=tuple(
                PartitionMetrics(
                    *(tp.topic, tp.partition, end[tp], (latest or {}).get(tp), committed.get(tp)),
                    *event_time.partition(tp),
                )
                for tp in sorted(end.keys() - unread)
            ),
            num_input_rows=num_input_rows,
            records_per_second=None if seconds is None else num_input_rows / seconds,
            bytes_per_second=None if seconds is None or size is None else size / seconds,
            commits_succeeded=_count(figures.get("commitsSucceeded")),
            commits_failed=_count(figures.get("commitsFailed")),
            lost_ranges=_count(figures.get("lostRanges")),
            malformed_records=_count(figures.get("malformedRecords")),
            dropped_records=_count(figures.get("droppedRecords")),
            dead_letters=_count(figures.get("deadLetters")),
            skipped_records=_count(figures.get("skippedRecords")),
            watermark=event_time.combined,
            event_time_lag=event_time.lag(timestamp),
            late_records=_count(figures.get("lateRecords")),
            finished=finished if isinstance(finished := figures.get("finished"), bool) else None,
            reported=isinstance(report, dict),
        )


def _bytes(
    start: Mapping[TopicPartition, int] | None,
    end: Mapping[TopicPartition, int],
    rows: int,
    per_record: Mapping[TopicPartition, float],
) -> float | None:
    """Bytes of a batch, None if nothing is known of its records' size."""
    read = {tp: max(0, offset - start.get(tp, offset)) for tp, offset in end.items()} if start is not None else {}
    if rows == 0 and not any(read.values()):
        return 0.0
    if not per_record:
        return None
    average = sum(per_record.values()) / len(per_record)
    if start is None:  # Spark's progress names no start for a query's first batch
        return rows * average
    return sum(count * per_record.get(tp, average) for tp, count in read.items())


# --- event time -------------------------------------------------------------------------------------------------------


def event_time_figures(status: EventTimeStatus, late: int) -> dict[str, Any]:
    """What a source reports of event time."""
    watermarks: dict[str, dict[str, int]] = {}
    for tp, each in sorted(status.partitions.items()):
        if each.watermark is not None:
            watermarks.setdefault(tp.topic, {})[str(tp.partition)] = each.watermark
    return {
        "watermark": status.combined,
        "watermarks": watermarks,
        "idlePartitions": by_topic(status.idle),
        "heldPartitions": by_topic(status.held),
        "lateRecords": late,
    }


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partitions as a source reports them: `{"topic": [0, 1]}`."""
    document: dict[str, list[int]] = {}
    for tp in partitions:
        document.setdefault(tp.topic, []).append(tp.partition)
    return document


@dataclass(frozen=True, slots=True)
class _EventTime:
    """The same, read again."""

    is_known: bool
    combined: int | None
    watermarks: Mapping[TopicPartition, int]
    idle: frozenset[TopicPartition]
    held: frozenset[TopicPartition]

    @classmethod
    def of(cls, figures: Mapping[str, Any]) -> _EventTime:
        combined, watermarks = figures.get("watermark"), _numbers(figures.get("watermarks"), _is_time)
        return cls(
            "watermarks" in figures,
            combined if _is_time(combined) else None,
            {tp: int(watermark) for tp, watermark in watermarks.items()},
            _partitions(figures.get("idlePartitions")),
            _partitions(figures.get("heldPartitions")),
        )

    def partition(self, tp: TopicPartition) -> tuple[int | None, bool | None, bool | None]:
        """Its watermark, and whether it is idle and held back."""
        if not self.is_known:
            return None, None, None
        return self.watermarks.get(tp), tp in self.idle, tp in self.held

    def lag(self, timestamp: str | None) -> float | None:
        try:
            moment = datetime.fromisoformat(timestamp or "")
        except ValueError:
            return None
        if self.combined is None:
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - self.combined / 1000


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


# --- texts that others wrote ------------------------------------------------------------------------------------------


def _document(text: str | None) -> dict[str, Any] | None:
    """The JSON object in a text; None if there is none. PySpark writes a missing offset as `None` or as `null`."""
    if text is None:
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _numbers(document: object, fits: Callable[[object], bool] | None = None) -> dict[TopicPartition, float]:
    """`{"topic": {"0": 1.5}}`, without whatever is not like that."""
    fits = fits or _is_number
    found: dict[TopicPartition, float] = {}
    for topic, partitions in document.items() if isinstance(document, dict) else ():
        for partition, value in partitions.items() if isinstance(partitions, dict) else ():
            if _is_partition(partition) and fits(value):
                found[TopicPartition(topic, int(partition))] = value
    return found


def _partitions(document: object) -> frozenset[TopicPartition]:
    """`{"topic": [0, 1]}`, without whatever is not like that."""
    return frozenset(
        TopicPartition(topic, partition)
        for topic, partitions in (document.items() if isinstance(document, dict) else ())
        for partition in (partitions if isinstance(partitions, list) else ())
        if _count(partition) is not None
    )


def _offsets(document: object) -> dict[TopicPartition, int] | None:
    """`{"topic": {"0": 123}}`; None for anything else, because then it is an offset of some other source."""
    if not isinstance(document, dict):
        return None
    found: dict[TopicPartition, int] = {}
    for topic, partitions in document.items():
        if not isinstance(partitions, dict):
            return None
        for partition, offset in partitions.items():
            if not _is_partition(partition) or _count(offset) is None:
                return None
            found[TopicPartition(topic, int(partition))] = offset
    return found


def _is_partition(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10  # int32; Python refuses to read very long numbers


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LARGEST


def _is_time(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and _is_number(value) else None
