"""Runs a task: reads its range, builds the columns of its plan, and reports to the driver."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
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
from penstock.reader.worker_counters import counters_of

if TYPE_CHECKING:
    from penstock.dead_letters.scope import LetterScope
    from penstock.dead_letters.task_letters import RangeLetters
    from penstock.eventtime.span import EventTimeSpan

COUNTS_SECONDS, END_SECONDS = 5.0, 10.0
"""How long a task tries to send its report: if it holds only counts, or if it says that the partition has ended."""

FIGURES_SECONDS = 0.5
"""The same for a report that has only figures of its worker. Losing one costs little: the next one repeats them."""

TIMESTAMP = "timestamp"


def read_range(
    range_: OffsetRange,
    columns: Sequence[str] | TypedPlan,
    options: SourceOptions,
    *,
    scope: LetterScope | None = None,
    reports: ReportAddress | None = None,
    watermarks: Watermarks = UNKNOWN,
    on_end: Callable[[int], None] = lambda offset: None,
    on_read: Callable[[pa.RecordBatch], None] | None = None,
) -> Generator[pa.RecordBatch, None, None]:
    """Read a range as Arrow batches, of Kafka's own columns or of typed ones.

    `scope`: whose dead letters these are; needed if the plan has a dead-letter topic. `reports`: where the planner
    receives the task's report. `watermarks`: event-time watermarks when the range was planned. `on_end` is called with
    the offset of the record that has ended the partition (F4), and `on_read` with each batch of Kafka's own columns
    before any record is dropped.
    """
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
        counters=None if reports is None else counters_of(reports.token),
    )
    batches = reader.prefetched() if on_read is None else _counted(reader.prefetched(), on_read)
    task = _Task(reader, options, reports, span, watermarks)
    if isinstance(columns, TypedPlan):
        import penstock.formats.typed  # noqa: F401 (before the caller freezes the heap)

        return task.typed_batches(columns, batches, scope, on_end)
    if reports is None and fetched == list(columns):
        return batches
    return task.raw_batches(columns, batches)


def _counted(
    batches: Generator[pa.RecordBatch, None, None], on_read: Callable[[pa.RecordBatch], None]
) -> Generator[pa.RecordBatch, None, None]:
    try:
        for batch in batches:
            on_read(batch)
            yield batch
    finally:
        batches.close()


def _fetched(columns: Sequence[str], has_event_time: bool) -> list[str]:
    """Kafka's columns among the requested ones, and the column of event times."""
    fetched = [name for name in columns if name in TYPES]
    if has_event_time and TIMESTAMP not in fetched:
        fetched.append(TIMESTAMP)
    return fetched or [CHEAPEST]


@dataclass(frozen=True, slots=True)
class _Task:
    reader: RangeReader
    options: SourceOptions
    reports: ReportAddress | None
    span: EventTimeSpan | None
    watermarks: Watermarks

    def raw_batches(
        self, columns: Sequence[str], batches: Generator[pa.RecordBatch, None, None]
    ) -> Generator[pa.RecordBatch, None, None]:
        schema, watermark_columns = arrow_schema(columns), WatermarkColumns(self.watermarks)
        try:
            for batch in batches:
                if self.span is not None:
                    self.span.observe(batch.column(TIMESTAMP))
                if batch.schema.names == schema.names:
                    yield batch
                    continue
                arrays = [
                    batch.column(name) if name in TYPES else watermark_columns.column(name, batch.num_rows)
                    for name in schema.names
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        finally:
            batches.close()
        self._send(self._report())

    def typed_batches(
        self,
        plan: TypedPlan,
        batches: Generator[pa.RecordBatch, None, None],
        scope: LetterScope | None,
        on_end: Callable[[int], None],
    ) -> Generator[pa.RecordBatch, None, None]:
        from penstock.formats.typed import TypedColumns

        range_ = self.reader.range
        letters = self._letters(plan, scope)
        written, typed = 0, None
        try:
            typed = TypedColumns(
                plan, range_.topic, range_.partition, letters, span=self.span, watermarks=self.watermarks
            )
            yield from typed.batches(batches)
            if letters is not None:
                written = letters.finish(typed.ended_at)
        except BaseException:
            if letters is not None:
                letters.abort()
            raise
        finally:
            batches.close()
            if typed is not None:
                typed.close()
        if typed.ended_at is not None:
            on_end(typed.ended_at)
        report = replace(
            self._report(),
            malformed=typed.malformed,
            dropped=typed.dropped,
            dead_letters=written,
            skipped=typed.skipped,
            read=0 if typed.filter is None else typed.filter.read,
            passed=0 if typed.filter is None else typed.filter.passed,
            ended_at=typed.ended_at,
        )
        self._send(report)

    def _letters(self, plan: TypedPlan, scope: LetterScope | None) -> RangeLetters | None:
        if plan.dead_letter_topic is None:
            return None
        from penstock.dead_letters.task_letters import RangeLetters

        assert scope is not None, "dead letters need a scope"
        transactional = self.options.formats.dead_letter_transactional
        return RangeLetters(self.options.client, plan.dead_letter_topic, self.reader.range, scope, transactional)

    def _report(self) -> TaskReport:
        """The report of a range that was read to its end, without the counts of typed columns."""
        range_, (lost_start, lost_stop) = self.reader.range, self.reader.lost or (None, None)
        report = TaskReport(
            range_.topic, range_.partition, range_.start, range_.stop, lost_start=lost_start, lost_stop=lost_stop
        )
        if self.span is None:
            return report
        return replace(report, has_event_time=True, event_time=self.span.highest, late=self.span.late)

    def _send(self, report: TaskReport) -> None:
        if self.reports is None:
            return
        if self.reports.wants_figures:
            figures = counters_of(self.reports.token).take(always=not report.is_empty)
            report = replace(report, worker=figures)
        if report.is_empty and report.worker is None:
            return
        seconds = COUNTS_SECONDS if report.ended_at is None else END_SECONDS
        send_report(self.reports, report, FIGURES_SECONDS if report.is_empty else seconds)
