"""Decoded records with their event times. Alignment may hand out a part of them now and the rest later (E4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock._kernel import Batch
from penstock.consumer.event_time.columns import EventColumns
from penstock.consumer.fetch.cursor import Cursor
from penstock.consumer.stream.typed import TypedBatches
from penstock.errors import EventTimeError
from penstock.eventtime.strategy import WatermarkStrategy
from penstock.eventtime.times import EventTimes
from penstock.formats.typed import PASSED

MAX_TIME = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TimedRecords:
    """Some records of one partition."""

    records: pa.RecordBatch
    """All decoded columns, which the strategy's functions see."""
    times: EventTimes
    marks: EventTimes | None
    """The watermarks that the records carry themselves, if the strategy is punctuated."""
    watermark: int | None
    """The highest event-time watermark of these records."""
    ended_at: int | None = None
    """The offset of the record after these at which the user's deserializer ended the stream."""
    native: Batch | None = None
    """The same records for the kernel, while they are one whole batch."""
    next_offset: int | None = None
    """Where decoding continues, if these are only the first part of the decoded batch."""
    passed: pa.BooleanArray | None = None
    """Which records meet the predicate of the iteration; None: all do."""

    @property
    def rows(self) -> int:
        return int(self.records.num_rows)

    @property
    def without_times(self) -> bool:
        """Whether no record has a time or a watermark, or the user's deserializer has skipped all records."""
        return self.times.latest is None and self.watermark is None

    def first(self, rows: int, strategy: WatermarkStrategy) -> TimedRecords:
        return self if rows == self.rows else self._slice(0, rows, strategy)

    def after(self, rows: int, strategy: WatermarkStrategy) -> TimedRecords:
        rest = self._slice(rows, self.rows - rows, strategy)
        return replace(rest, ended_at=self.ended_at, next_offset=self.next_offset)

    def _slice(self, at: int, rows: int, strategy: WatermarkStrategy) -> TimedRecords:
        """Do not simplify: the user's functions get each whole batch once, and never with a lock held."""
        times = _slice(self.times, at, rows)
        marks = None if self.marks is None else _slice(self.marks, at, rows)
        passed = None if self.passed is None else self.passed.slice(at, rows)
        watermark = _watermark(strategy, times, marks)
        return TimedRecords(self.records.slice(at, rows), times, marks, watermark, passed=passed)

    @property
    def passed_times(self) -> EventTimes:
        """The event times of the records that meet the predicate."""
        if self.passed is None:
            return self.times
        return EventTimes(self.times.milliseconds().filter(self.passed), "event time")

    def rows_up_to(self, limit: int, strategy: WatermarkStrategy) -> int:
        """The number of rows up to and including the first whose watermark passes the limit. There must be one."""
        times = self.times if self.marks is None else self.marks
        latest = limit if self.marks is not None else min(limit + (strategy.out_of_orderness or 0) + 1, MAX_TIME)
        return 1 + int(pc.index(pc.greater(times.milliseconds(), latest), True).as_py())


def _slice(times: EventTimes, at: int, rows: int) -> EventTimes:
    return EventTimes(times.milliseconds().slice(at, rows), "event time")


def _watermark(strategy: WatermarkStrategy, times: EventTimes, marks: EventTimes | None) -> int | None:
    if marks is not None:
        return marks.latest
    return None if times.latest is None else strategy.watermark_of(times.latest)


class EventTimeDecoder:
    """Adds event times to decoded batches, for one iteration over messages or batches. For one thread."""

    def __init__(self, strategy: WatermarkStrategy, columns: EventColumns, typed: TypedBatches | None = None) -> None:
        self._strategy = strategy
        self._columns = columns
        self._typed = typed
        self.columns = columns.decoded if typed is None else typed.columns
        """Kafka's columns to decode."""

    def decode(self, cursor: Cursor, batch: Batch) -> TimedRecords:
        """Raises EventTimeError, and errors of typed columns."""
        typed, timestamp = self._typed, self._columns.timestamp
        records = pa.record_batch(batch) if typed is None else typed.convert(cursor, batch)
        passed = None
        if PASSED in records.schema.names:  # the strategy sees all records: event time must not wait for a predicate
            passed = records.column(PASSED)
            records = records.drop_columns([PASSED])
        timed = records
        if timestamp is not None and timestamp != "timestamp":  # a field of the value may have that name
            timed = pa.RecordBatch.from_arrays([records.column(timestamp)], ["timestamp"])
        try:
            times, marks = self._strategy.times_of(timed), self._strategy.marks_of(records)
        except EventTimeError as error:
            raise _with_place(error, cursor, int(records.num_rows)) from error
        watermark = _watermark(self._strategy, times, marks)
        if typed is None:
            return TimedRecords(records, times, marks, watermark, native=batch)
        next_offset = typed.next_offset
        return TimedRecords(records, times, marks, watermark, typed.ended_at, next_offset=next_offset, passed=passed)

    def close(self) -> None:
        """The iteration has ended."""
        if self._typed is not None:
            self._typed.close()

    def selected(self, timed: TimedRecords) -> pa.RecordBatch:
        """The columns that the user selected, of the records that meet the predicate."""
        records = timed.records
        if len(self._columns.selected) < len(self._columns.decoded):
            records = records.select(list(self._columns.selected))
        return records if timed.passed is None else records.filter(timed.passed)

    def first_offset(self, timed: TimedRecords) -> int:
        return int(timed.records.column(self._columns.offset or "offset")[0].as_py())


def _with_place(error: EventTimeError, cursor: Cursor, rows: int) -> EventTimeError:
    """The same error with partition and offset. The next read meets it again."""
    where = (
        f"{cursor.tp}, {rows} {'record' if rows == 1 else 'records'} from offset {cursor.consumed} on: {error.where}"
    )
    hint = f"{error.hint}. " if error.hint else ""
    return EventTimeError(where, error.reason, f"{hint}To skip them: ConsumerConnector.seek", error.details)
