"""What a task does: reads its range, and makes the columns that its plan asks for."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.config.source import SourceOptions
from penstock.formats.plan import CHEAPEST, TypedPlan
from penstock.model.columns import TYPES, arrow_schema
from penstock.model.offset_range import OffsetRange
from penstock.model.task_report import ReportAddress, TaskReport
from penstock.model.watermark_columns import UNKNOWN, WatermarkColumns, Watermarks
from penstock.reader.range_reader import RangeReader
from penstock.reader.report_client import send_report

if TYPE_CHECKING:
    from penstock.eventtime.span import EventTimeSpan

COUNTS_SECONDS, END_SECONDS = 5.0, 10.0
"""How long a task tries to tell its planner: numbers, or that its partition has ended."""

TIMESTAMP = "timestamp"


def read_range(
    range_: OffsetRange,
    columns: Sequence[str] | TypedPlan,
    options: SourceOptions,
    *,
    scope: str = "",
    reports: ReportAddress | None = None,
    watermarks: Watermarks = UNKNOWN,
    on_end: Callable[[int], None] = lambda offset: None,
) -> Iterator[pa.RecordBatch]:
    """A range as Arrow batches: Kafka's columns as they are, or typed. `scope` names who reads, to its dead letters;
    what was met on the way goes to `reports`, and the record that has ended the partition (F4) to `on_end`.
    `watermarks`: those of event time when the range was planned."""
    span = None
    if reports is not None and options.event_time is not None:
        from penstock.eventtime.span import EventTimeSpan

        span = EventTimeSpan(watermarks[0], by_record=options.event_time.by_record)
    fetched = columns.fetched if isinstance(columns, TypedPlan) else _fetched(columns, span is not None)
    reader = RangeReader(
        range_,
        fetched,
        options.client,
        fail_on_data_loss=options.fail_on_data_loss,
        poll_timeout=options.poll_timeout,
    )
    batches = reader.ahead()
    if isinstance(columns, TypedPlan):
        import penstock.formats.typed  # noqa: F401 (before the caller freezes what is loaded)

        return _typed(reader, columns, options, batches, scope, reports, span, watermarks, on_end)
    if reports is None and fetched == list(columns):
        return batches
    return _raw(reader, columns, batches, reports, span, watermarks)


def _fetched(columns: Sequence[str], looks_at_time: bool) -> list[str]:
    """Kafka's columns among those asked for, and the one that event times are in."""
    fetched = [name for name in columns if name in TYPES]
    if looks_at_time and TIMESTAMP not in fetched:
        fetched.append(TIMESTAMP)
    return fetched or [CHEAPEST]


def _raw(
    reader: RangeReader,
    columns: Sequence[str],
    batches: Generator[pa.RecordBatch, None, None],
    reports: ReportAddress | None,
    span: EventTimeSpan | None,
    watermarks: Watermarks,
) -> Iterator[pa.RecordBatch]:
    schema, ours = arrow_schema(columns), WatermarkColumns(watermarks)
    try:
        for batch in batches:
            if span is not None:
                span.observe(batch.column(TIMESTAMP))
            if batch.schema.names == schema.names:
                yield batch
                continue
            arrays = [
                batch.column(name) if name in TYPES else ours.column(name, batch.num_rows) for name in schema.names
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
    finally:
        batches.close()
    if reports is not None:
        _tell(reports, _report(reader, span))


def _typed(
    reader: RangeReader,
    plan: TypedPlan,
    options: SourceOptions,
    batches: Generator[pa.RecordBatch, None, None],
    scope: str,
    reports: ReportAddress | None,
    span: EventTimeSpan | None,
    watermarks: Watermarks,
    on_end: Callable[[int], None],
) -> Iterator[pa.RecordBatch]:
    from penstock.formats.typed import TypedColumns

    range_ = reader.range
    letters = None
    if plan.dead_letter_topic is not None:
        from penstock.dead_letters.task_letters import RangeLetters

        transactional = options.formats.dead_letter_transactional
        letters = RangeLetters(options.client, plan.dead_letter_topic, range_, scope, transactional)
    written = 0
    try:
        made = TypedColumns(plan, range_.topic, range_.partition, letters, span=span, watermarks=watermarks)
        yield from made.batches(batches)
        if letters is not None:
            written = letters.finish(made.ended_at)
    except BaseException:
        if letters is not None:
            letters.abort()
        raise
    finally:
        batches.close()
    if made.ended_at is not None:
        on_end(made.ended_at)
    if reports is not None:
        report = replace(
            _report(reader, span),
            malformed=made.malformed,
            dropped=made.dropped,
            dead_letters=written,
            skipped=made.skipped,
            ended_at=made.ended_at,
        )
        _tell(reports, report)


def _report(reader: RangeReader, span: EventTimeSpan | None) -> TaskReport:
    """What a range that was read to its end tells without its records."""
    range_, (lost_start, lost_stop) = reader.range, reader.lost or (None, None)
    report = TaskReport(
        range_.topic, range_.partition, range_.start, range_.stop, lost_start=lost_start, lost_stop=lost_stop
    )
    if span is None:
        return report
    return replace(report, has_event_time=True, event_time=span.highest, late=span.late)


def _tell(reports: ReportAddress, report: TaskReport) -> None:
    if not report.is_empty:
        send_report(reports, report, COUNTS_SECONDS if report.ended_at is None else END_SECONDS)
