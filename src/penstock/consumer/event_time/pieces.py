"""Pieces: decoded records with their event times, of which a part may be handed out now and the rest later (E4)."""

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

LATEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Piece:
    """Some records of one partition."""

    records: pa.RecordBatch
    """All columns that were decoded: the strategy's functions see these."""
    times: EventTimes
    marks: EventTimes | None
    """The watermarks that they carry themselves, if the strategy is punctuated."""
    watermark: int | None
    """The highest event-time watermark that they come to."""
    ended_at: int | None = None
    """The offset of the record by which a user's own class has ended the stream behind these."""
    native: Batch | None = None
    """The same for the kernel, while it is whole."""
    next_offset: int | None = None
    """Where to decode on behind these, if not all of what was decoded is in them."""

    @property
    def rows(self) -> int:
        return int(self.records.num_rows)

    @property
    def timeless(self) -> bool:
        """Whether nothing of it has a time or a watermark: no record does, or none was left by the user's class."""
        return self.times.latest is None and self.watermark is None

    def first(self, rows: int, strategy: WatermarkStrategy) -> Piece:
        return self if rows == self.rows else self._cut(0, rows, strategy)

    def after(self, rows: int, strategy: WatermarkStrategy) -> Piece:
        rest = self._cut(rows, self.rows - rows, strategy)
        return replace(rest, ended_at=self.ended_at, next_offset=self.next_offset)

    def _cut(self, at: int, rows: int, strategy: WatermarkStrategy) -> Piece:
        """Do not simplify: a user's functions get whole batches, once each, and never with a lock held."""
        times = _slice(self.times, at, rows)
        marks = None if self.marks is None else _slice(self.marks, at, rows)
        return Piece(self.records.slice(at, rows), times, marks, _watermark(strategy, times, marks))

    def rows_up_to(self, limit: int, strategy: WatermarkStrategy) -> int:
        """How many rows come until the first that carries a watermark past the limit, and that one: there is one."""
        times = self.times if self.marks is None else self.marks
        latest = limit if self.marks is not None else min(limit + (strategy.out_of_orderness or 0) + 1, LATEST)
        return 1 + int(pc.index(pc.greater(times.milliseconds(), latest), True).as_py())


def _slice(times: EventTimes, at: int, rows: int) -> EventTimes:
    return EventTimes(times.milliseconds().slice(at, rows), "event time")


def _watermark(strategy: WatermarkStrategy, times: EventTimes, marks: EventTimes | None) -> int | None:
    if marks is not None:
        return marks.latest
    return None if times.latest is None else strategy.watermark_of(times.latest)


class EventReading:
    """One iteration, of messages or of batches, that makes pieces of what was decoded. For one thread."""

    def __init__(self, strategy: WatermarkStrategy, columns: EventColumns, typed: TypedBatches | None = None) -> None:
        self._strategy = strategy
        self._columns = columns
        self._typed = typed
        self.decoded = columns.decoded if typed is None else typed.columns
        """Kafka's columns to decode."""
        self.ended_at: int | None = None
        """The offset of the record by which a user's own class has ended the stream (F4), once it was come to."""

    def make(self, cursor: Cursor, batch: Batch) -> Piece:
        """Raises what typed columns raise, and EventTimeError."""
        typed, timestamp = self._typed, self._columns.timestamp
        records = pa.record_batch(batch) if typed is None else typed.make(cursor, batch)
        timed = records
        if timestamp is not None and timestamp != "timestamp":  # a field of the value may be called that
            timed = pa.RecordBatch.from_arrays([records.column(timestamp)], ["timestamp"])
        try:
            times, marks = self._strategy.times_of(timed), self._strategy.marks_of(records)
        except EventTimeError as error:
            raise _placed(error, cursor, int(records.num_rows)) from error
        watermark = _watermark(self._strategy, times, marks)
        if typed is None:
            return Piece(records, times, marks, watermark, native=batch)
        return Piece(records, times, marks, watermark, typed.ended_at, next_offset=typed.next_offset)

    def shown(self, piece: Piece) -> pa.RecordBatch:
        """What the user asked for."""
        if len(self._columns.shown) == len(self._columns.decoded):
            return piece.records
        return piece.records.select(list(self._columns.shown))

    def offset(self, piece: Piece) -> int:
        """That of the first record."""
        return int(piece.records.column(self._columns.offset or "offset")[0].as_py())


def _placed(error: EventTimeError, cursor: Cursor, rows: int) -> EventTimeError:
    """The same error, with the place. The reader's next call meets it again."""
    where = (
        f"{cursor.tp}, {rows} {'record' if rows == 1 else 'records'} from offset {cursor.consumed} on: {error.where}"
    )
    hint = f"{error.hint}. " if error.hint else ""
    return EventTimeError(where, error.reason, f"{hint}To pass over them: ConsumerConnector.seek", error.details)
