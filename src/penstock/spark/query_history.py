"""One run of a query, from Spark's events into reports for the page."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress

from penstock.masking import masked
from penstock.metrics.partition import PartitionMetrics
from penstock.metrics.sink import SinkMetrics
from penstock.metrics.source import SourceMetrics
from penstock.watch.query_report import (
    LARGEST,
    MAX_BATCHES,
    MAX_ERROR,
    MAX_PARTITIONS,
    MAX_PARTS,
    BatchReport,
    OperatorReport,
    PartitionReport,
    PhaseReport,
    QueryReport,
    SourceReport,
    cut,
)

SECRET_LENGTH = 1000
"""Characters at the end of a cut error that are left out: a secret that was cut in two is not recognized there."""


class QueryHistory:
    """Keeps the newest report of a run. The caller guards it by a lock."""

    def __init__(self, query_id: str, run_id: str, name: str | None, started: str | None = None) -> None:
        self._batches: deque[BatchReport] = deque(maxlen=MAX_BATCHES)
        self._late: Counter[int] = Counter()
        """Rows that each operator has dropped as late. Spark reports those of one batch."""
        self.report = QueryReport(
            cut(query_id), cut(run_id), None if name is None else cut(name), started_at=_seconds(started)
        )

    def progressed(
        self, progress: StreamingQueryProgress, sources: Mapping[int, SourceMetrics], sink: SinkMetrics
    ) -> QueryReport:
        durations = {str(name): _whole(value) for name, value in progress.durationMs.items()}
        phases = self.report.phases
        if "addBatch" in durations or not self._batches:  # otherwise the trigger had nothing to do
            phases = tuple(PhaseReport(cut(name), value) for name, value in list(durations.items())[:MAX_PARTS])
        if "addBatch" in durations:
            self._add_batch(progress, durations)
        watermark = _seconds(progress.eventTime.get("watermark"))
        partitions = [(number, each) for number, source in sources.items() for each in source.partitions]
        self.report = replace(
            self.report,
            progress_at=_seconds(progress.timestamp),
            batch=_whole(progress.batchId),
            rows=_whole(progress.numInputRows),
            rows_written=sink.records_out,
            input_rate=_finite(progress.inputRowsPerSecond),
            processing_rate=_finite(progress.processedRowsPerSecond),
            lag=_sum(source.lag for source in sources.values()),
            spark_watermark=None if not watermark else round(watermark * 1000),
            phases=phases,
            sources=tuple(_source(source) for source in list(sources.values())[:MAX_PARTS]),
            operators=tuple(
                _operator(each, self._late[at]) for at, each in enumerate(progress.stateOperators[:MAX_PARTS])
            ),
            batches=tuple(self._batches),
            partitions=_furthest_behind(partitions),
            partition_count=len(partitions),
        )
        return self.report

    def rested(self) -> QueryReport:
        """The query is idle, and Spark has no newer progress."""
        sources = tuple(replace(each, records_per_second=0.0, bytes_per_second=0.0) for each in self.report.sources)
        self.report = replace(self.report, rows=0, input_rate=0.0, processing_rate=0.0, sources=sources)
        return self.report

    def ended(self, error: str | None) -> QueryReport:
        self.report = replace(
            self.report,
            state="finished" if error is None else "failed",
            error=None if error is None else shown_error(error),
            ended_at=time.time(),
            input_rate=None,
            processing_rate=None,
        )
        return self.report

    def _add_batch(self, progress: StreamingQueryProgress, durations: Mapping[str, int]) -> None:
        took = durations.get("triggerExecution", _whole(progress.batchDuration))
        batch = BatchReport(_whole(progress.batchId), _seconds(progress.timestamp), _whole(progress.numInputRows), took)
        if self._batches and self._batches[-1].number == batch.number:
            self._batches.pop()  # Spark reports a batch more than once
        else:
            for at, each in enumerate(progress.stateOperators[:MAX_PARTS]):
                self._late[at] += _whole(each.numRowsDroppedByWatermark)
        self._batches.append(batch)


def shown_error(text: str) -> str:
    """An error without secrets, within its limit."""
    if len(text) <= MAX_ERROR:
        return cut(masked(text), MAX_ERROR)
    # Cut before: a text of megabytes would take seconds.
    return cut(masked(text[: MAX_ERROR + SECRET_LENGTH])[:-SECRET_LENGTH] + "…", MAX_ERROR)


def _furthest_behind(partitions: list[tuple[int, PartitionMetrics]]) -> tuple[PartitionReport, ...]:
    """All partitions, or those with the most lag, ordered by source, topic and number."""
    if len(partitions) > MAX_PARTITIONS:
        partitions = sorted(partitions, key=lambda each: -(each[1].lag or 0))[:MAX_PARTITIONS]
        partitions.sort(key=lambda each: (each[0], each[1].topic, each[1].partition))
    return tuple(
        PartitionReport(
            *(number, cut(each.topic), each.partition, each.current_offset, each.latest_offset),
            *(each.committed_offset, each.lag, each.watermark, each.idle, each.held),
        )
        for number, each in partitions
    )


def _source(source: SourceMetrics) -> SourceReport:
    return SourceReport(
        lag=source.lag,
        records_per_second=_finite(source.records_per_second),
        bytes_per_second=_finite(source.bytes_per_second),
        watermark=source.watermark,
        event_time_lag=_finite(source.event_time_lag),
        late=source.late_records,
        lost_ranges=source.lost_ranges,
        malformed=source.malformed_records,
        dropped=source.dropped_records,
        dead_letters=source.dead_letters,
        skipped=source.skipped_records,
        commits_succeeded=source.commits_succeeded,
        commits_failed=source.commits_failed,
    )


def _operator(operator: Any, dropped: int) -> OperatorReport:
    return OperatorReport(
        name=cut(str(operator.operatorName)),
        rows=_whole(operator.numRowsTotal),
        memory=_whole(operator.memoryUsedBytes),
        updated=_whole(operator.numRowsUpdated),
        dropped=dropped,
    )


def _whole(value: Any) -> int:
    """What Spark counts. 0 for what is not a number: an older Spark does not report everything."""
    return value if type(value) is int and abs(value) < LARGEST else 0


def _finite(value: float | None) -> float | None:
    """A rate. Spark divides by 0 where a trigger takes no time."""
    return None if value is None or not math.isfinite(value) or abs(value) >= LARGEST else float(value)


def _sum(values: Any) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _seconds(timestamp: str | None) -> float | None:
    """Spark's `2025-01-31T12:00:00.000Z`, in seconds since 1970."""
    try:
        moment = datetime.fromisoformat(timestamp or "")
    except (ValueError, TypeError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
