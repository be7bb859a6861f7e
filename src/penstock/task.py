"""What a task does: reads its range, and makes the columns that its plan asks for."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence

import pyarrow as pa

from penstock.fetch.reader import RangeReader
from penstock.formats.plan import TypedPlan
from penstock.options import SourceOptions
from penstock.ranges import OffsetRange
from penstock.reports import ReportAddress

COUNTS_SECONDS, END_SECONDS = 2.0, 10.0
"""How long a task tries to tell its planner: numbers, or that its partition has ended."""


def read_range(
    range_: OffsetRange,
    columns: Sequence[str] | TypedPlan,
    options: SourceOptions,
    *,
    scope: str = "",
    reports: ReportAddress | None = None,
    on_end: Callable[[int], None] = lambda offset: None,
) -> Iterator[pa.RecordBatch]:
    """A range as Arrow batches: Kafka's columns as they are, or typed. `scope` names who reads, to its dead letters;
    what was met on the way goes to `reports`, and the record that has ended the partition (F4) to `on_end`."""
    plan = columns if isinstance(columns, TypedPlan) else None
    reader = RangeReader(
        range_,
        columns.fetched if isinstance(columns, TypedPlan) else columns,
        options.client,
        fail_on_data_loss=options.fail_on_data_loss,
        poll_timeout=options.poll_timeout,
    )
    batches = reader.ahead()
    if plan is not None:
        import penstock.formats.typed  # noqa: F401 (before the caller freezes what is loaded)
    return batches if plan is None else _typed(range_, plan, options, batches, scope, reports, on_end)


def _typed(
    range_: OffsetRange,
    plan: TypedPlan,
    options: SourceOptions,
    batches: Generator[pa.RecordBatch, None, None],
    scope: str,
    reports: ReportAddress | None,
    on_end: Callable[[int], None],
) -> Iterator[pa.RecordBatch]:
    from penstock.formats.typed import TypedColumns
    from penstock.reports import TaskReport, send_report

    letters = None
    if plan.dead_letter_topic is not None:
        from penstock.dead_letters import RangeLetters

        transactional = options.formats.dead_letter_transactional
        letters = RangeLetters(options.client, plan.dead_letter_topic, range_, scope, transactional)
    written = 0
    try:
        made = TypedColumns(plan, range_.topic, range_.partition, letters)
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
        report = TaskReport(
            range_.topic,
            range_.partition,
            range_.start,
            range_.stop,
            malformed=made.malformed,
            dropped=made.dropped,
            dead_letters=written,
            skipped=made.skipped,
            ended_at=made.ended_at,
        )
        if not report.is_empty:
            send_report(reports, report, COUNTS_SECONDS if made.ended_at is None else END_SECONDS)
