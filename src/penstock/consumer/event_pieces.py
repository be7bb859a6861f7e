"""Pieces: decoded records with their event times, of which a part may be handed out now and the rest later (E4)."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock._kernel import Batch
from penstock.consumer.cursor import Cursor
from penstock.consumer.event_columns import EventColumns
from penstock.consumer.typed import TypedBatches
from penstock.eventtime.strategy import WatermarkStrategy
from penstock.eventtime.times import EventTimes

LATEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Piece:
    """Some records of one partition."""

    records: pa.RecordBatch
    """All columns that were decoded: the strategy's functions see these."""
    times: EventTimes
    watermark: int | None
    """The highest event-time watermark that these records carry."""
    ended_at: int | None = None
    """The offset of the record by which a user's own class has ended the stream behind these."""
    native: Batch | None = None
    """The same for the kernel, while it is whole."""

    @property
    def rows(self) -> int:
        return int(self.records.num_rows)

    def first(self, rows: int, strategy: WatermarkStrategy) -> Piece:
        if rows == self.rows:
            return self
        records, times = self.records.slice(0, rows), self.times.milliseconds().slice(0, rows)
        return Piece(records, _cut(times), strategy.watermark_after(records, times))

    def after(self, rows: int, strategy: WatermarkStrategy) -> Piece:
        records, times = self.records.slice(rows), self.times.milliseconds().slice(rows)
        watermark = strategy.watermark_after(records, times)
        return replace(self, records=records, times=_cut(times), watermark=watermark, native=None)

    def rows_up_to(self, limit: int, strategy: WatermarkStrategy) -> int:
        """How many rows come until the first that carries a watermark past the limit, and that one: there is one."""
        times = self.times.milliseconds()
        if strategy.out_of_orderness is not None:
            latest = min(limit + strategy.out_of_orderness + 1, LATEST)
            return 1 + int(pc.index(pc.greater(times, latest), True).as_py())

        def passes(rows: int) -> bool:
            watermark = strategy.watermark_after(self.records.slice(0, rows), times.slice(0, rows))
            return watermark is not None and watermark > limit

        return 1 + bisect_left(range(1, self.rows), True, key=passes)


def _cut(times: pa.Int64Array) -> EventTimes:
    return EventTimes(times, "event time")


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
        times = self._strategy.times_of(timed)
        watermark = self._strategy.watermark_after(records, times)
        if typed is None:
            return Piece(records, times, watermark, native=batch)
        return Piece(records, times, watermark, typed.ended_at)

    def shown(self, piece: Piece) -> pa.RecordBatch:
        """What the user asked for."""
        if len(self._columns.shown) == len(self._columns.decoded):
            return piece.records
        return piece.records.select(list(self._columns.shown))

    def offset(self, piece: Piece) -> int:
        """That of the first record."""
        return int(piece.records.column(self._columns.offset or "offset")[0].as_py())
