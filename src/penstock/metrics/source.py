"""The source's metrics (F26): their names, and their values from Spark's progress of one source.

All values come from the progress, because a source in Spark has no other way to report. Values that a source does not
report are None: Spark's own Kafka source reports offsets, but no commits and no bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from penstock.eventtime.tracker import EventTimeStatus
from penstock.metrics.families import (
    COMMITS_FAILED,
    COMMITS_SUCCEEDED,
    COMMITTED_OFFSET,
    CURRENT_OFFSET,
    DROPPED_RECORDS,
    EVENT_TIME_LAG,
    EVENT_TIME_WATERMARK,
    LATE_RECORDS,
    LATEST_OFFSET,
    MALFORMED_RECORDS,
    PARTITION_HELD,
    PARTITION_IDLE,
    PARTITION_WATERMARK,
    PASSED_RECORDS,
    PENDING_RECORDS,
    READ_RECORDS,
    RECORDS_LAG,
    SKIPPED_RECORDS,
)
from penstock.metrics.metric import Metric, Sample, samples_of, seconds
from penstock.metrics.partition import PartitionMetrics, total_lag
from penstock.metrics.worker import WORKER_FAMILIES, WorkerMetrics, read_worker_figures
from penstock.model.topic_partition import TopicPartition

REPORT_KEY = "#penstock"
"""The key, next to the topics, of the metrics that a Penstock source reports. No topic can have this name."""

LARGEST = 2**63


LOST_RANGES = Metric(
    "lostRanges", "counter", "Offset ranges that were lost before they were read (failOnDataLoss=false)"
)
DEAD_LETTERS = Metric("deadLetters", "counter", "Malformed records written to deadLetterTopic (mode DEADLETTER)")
RECORDS_PER_SECOND = Metric("numRecordsInPerSecond", "gauge", "Records per second in the last batch; 0 while idle")
BYTES_PER_SECOND = Metric(
    "numBytesInPerSecond",
    "gauge",
    "Bytes per second, as Kafka stores them, in the last batch (estimated); 0 while idle",
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
    READ_RECORDS,
    PASSED_RECORDS,
    EVENT_TIME_WATERMARK,
    EVENT_TIME_LAG,
    LATE_RECORDS,
    PARTITION_WATERMARK,
    PARTITION_IDLE,
    PARTITION_HELD,
    RECORDS_PER_SECOND,
    BYTES_PER_SECOND,
    *WORKER_FAMILIES,
)


@dataclass(frozen=True, slots=True)
class SourceMetrics:
    """One source of one query, as of its last progress. Values that were not reported are None."""

    partitions: tuple[PartitionMetrics, ...] = ()
    """The partitions that the query reads, ordered by topic and partition. Partitions of the checkpoint outside the
    subscription are left out."""
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
    read_records: int | None = None
    passed_records: int | None = None
    watermark: int | None = None
    """The combined event-time watermark, in milliseconds since 1970."""
    event_time_lag: float | None = None
    """Seconds by which the watermark lags the time of the progress; below 0 if records are from the future."""
    late_records: int | None = None
    workers: tuple[WorkerMetrics, ...] = ()
    """What the worker processes of executors have done at the brokers, ordered by name."""
    finished: bool | None = None
    """Whether the stream has reached the end that its options or its deserializer set; None without an end, or if it
    was not reported."""
    reported: bool = False
    """Whether a Penstock source reported its own metrics (option reportMetrics)."""

    @property
    def lag(self) -> int | None:
        """Records that wait in all partitions whose end is known; None if none is known."""
        return total_lag(self.partitions)

    @property
    def worst(self) -> PartitionMetrics | None:
        """The partition with the highest lag."""
        return max(self.partitions, key=lambda partition: partition.lag or 0, default=None)

    def samples(self) -> Iterator[Sample]:
        """Samples of all known values."""
        values = (
            (PENDING_RECORDS, self.lag),
            (COMMITS_SUCCEEDED, self.commits_succeeded),
            (COMMITS_FAILED, self.commits_failed),
            (LOST_RANGES, self.lost_ranges),
            (MALFORMED_RECORDS, self.malformed_records),
            (DROPPED_RECORDS, self.dropped_records),
            (DEAD_LETTERS, self.dead_letters),
            (SKIPPED_RECORDS, self.skipped_records),
            (READ_RECORDS, self.read_records),
            (PASSED_RECORDS, self.passed_records),
            (EVENT_TIME_WATERMARK, seconds(self.watermark)),
            (EVENT_TIME_LAG, self.event_time_lag),
            (LATE_RECORDS, self.late_records),
            (RECORDS_PER_SECOND, self.records_per_second),
            (BYTES_PER_SECOND, self.bytes_per_second),
        )
        yield from samples_of(values)
        for partition in self.partitions:
            yield from partition.samples()
        for worker in self.workers:
            yield from worker.samples()

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
        """Read the offsets in a source's progress, and its timestamp. None for a source that does not read Kafka, or
        that has reported nothing yet: offsets of other sources have another form, which is not an error."""
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
            read_records=_count(figures.get("readRecords")),
            passed_records=_count(figures.get("passedRecords")),
            watermark=event_time.combined,
            event_time_lag=event_time.lag(timestamp),
            late_records=_count(figures.get("lateRecords")),
            workers=read_worker_figures(figures.get("workers")),
            finished=finished if isinstance(finished := figures.get("finished"), bool) else None,
            reported=isinstance(report, dict),
        )


def _bytes(
    start: Mapping[TopicPartition, int] | None,
    end: Mapping[TopicPartition, int],
    rows: int,
    per_record: Mapping[TopicPartition, float],
) -> float | None:
    """Bytes of a batch; None if the size of its records is unknown."""
    read = {tp: max(0, offset - start.get(tp, offset)) for tp, offset in end.items()} if start is not None else {}
    if rows == 0 and not any(read.values()):
        return 0.0
    if not per_record:
        return None
    average = sum(per_record.values()) / len(per_record)
    if start is None:  # Spark's progress has no start for a query's first batch
        return rows * average
    return sum(count * per_record.get(tp, average) for tp, count in read.items())


# --- event time -------------------------------------------------------------------------------------------------------


def event_time_figures(status: EventTimeStatus, late: int) -> dict[str, Any]:
    """The event-time part of a source's report."""
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
    """Partitions in the form of a source's report: `{"topic": [0, 1]}`."""
    document: dict[str, list[int]] = {}
    for tp in partitions:
        document.setdefault(tp.topic, []).append(tp.partition)
    return document


@dataclass(frozen=True, slots=True)
class _EventTime:
    """The event-time part of a source's report, parsed."""

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


# --- parsing of reports, which may hold anything ----------------------------------------------------------------------


def _document(text: str | None) -> dict[str, Any] | None:
    """The JSON object in a text; None if it is not one. PySpark writes a missing offset as `None` or as `null`."""
    if text is None:
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _numbers(document: object, fits: Callable[[object], bool] | None = None) -> dict[TopicPartition, float]:
    """Parse `{"topic": {"0": 1.5}}`. Entries of another form are left out."""
    fits = fits or _is_number
    found: dict[TopicPartition, float] = {}
    for topic, partitions in document.items() if isinstance(document, dict) else ():
        for partition, value in partitions.items() if isinstance(partitions, dict) else ():
            if _is_partition(partition) and fits(value):
                found[TopicPartition(topic, int(partition))] = value
    return found


def _partitions(document: object) -> frozenset[TopicPartition]:
    """Parse `{"topic": [0, 1]}`. Entries of another form are left out."""
    return frozenset(
        TopicPartition(topic, partition)
        for topic, partitions in (document.items() if isinstance(document, dict) else ())
        for partition in (partitions if isinstance(partitions, list) else ())
        if _count(partition) is not None
    )


def _offsets(document: object) -> dict[TopicPartition, int] | None:
    """Parse `{"topic": {"0": 123}}`; None for anything else, which is an offset of another source."""
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
    return text.isascii() and text.isdecimal() and len(text) <= 10  # int32; Python refuses to parse very long numbers


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LARGEST


def _is_time(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and _is_number(value) else None
