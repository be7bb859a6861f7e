"""A stream of a connector with a watermark strategy: event time goes with what it hands out, and partitions that are
too far ahead are held back (E4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock._kernel import Batch, Messages
from penstock.consumer.event_time.alignment import EventTime, Reached
from penstock.consumer.event_time.batch import EventBatch
from penstock.consumer.event_time.columns import check_event_column, message_columns, raw_columns, typed_columns
from penstock.consumer.event_time.pieces import EventReading, Piece
from penstock.consumer.fetch.chunk import Chunk, Lease
from penstock.consumer.fetch.cursor import Cursor
from penstock.consumer.stream.stream import MESSAGE_COLUMNS, Stream
from penstock.formats.plan import TypedSource
from penstock.wire.api.fetch import FetchedPartition
from penstock.wire.client_config import ClientConfig


class EventStream(Stream):
    """What was handed out moves event time when the reader asks for more: only then is it done with it. So a
    connector's watermark never covers records that a thread still works on."""

    prepares_typed = False

    def __init__(
        self,
        event_time: EventTime,
        thread_id: str,
        client: ClientConfig,
        *,
        typed: TypedSource | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(thread_id, client, typed=typed, **settings)
        check_event_column(event_time.strategy, typed)
        self._event_time = event_time
        self._message_reading: EventReading | None = None
        self._piece: Piece | None = None
        """What the messages at hand are of."""
        self._handed: tuple[Cursor, Piece, Reached] | None = None
        """The batch at hand, and what its reader was told of event time."""

    # --- filling: fetchers -------------------------------------------------------------------------------------------

    def put(
        self, cursor: Cursor, version: int, asked: int, fetched: FetchedPartition, follows: int, lease: Lease
    ) -> bool:
        with self.lock:
            came = super().put(cursor, version, asked, fetched, follows, lease)
            if came:
                self._event_time.has_records(cursor.tp)
            return came

    # --- reading: the stream's own thread ----------------------------------------------------------------------------

    def next_messages(self, timeout: float | None) -> Messages | None:
        messages = self._messages
        if messages is not None and messages.remaining:
            return messages
        reading = self._message_reading
        if reading is None:
            strategy = self._event_time.strategy
            reading = self._message_reading = EventReading(strategy, message_columns(strategy, MESSAGE_COLUMNS))

        def hand_out(chunk: Chunk, piece: Piece, end: int) -> Messages:
            self._piece, end = self._part(reading, chunk, piece, end)
            self._event_time.hands_out(chunk.cursor.tp, self._piece)
            batch = self._piece.native or Batch.from_arrow(self._piece.records)
            own = self._event_time.strategy.timestamps is None  # the record's own timestamp, which messages have
            return self._hand_out_messages(chunk, batch, end, None if own else self._piece.times.milliseconds())

        return self._next(reading.decoded, hand_out, timeout, reading.make, reading)

    def batch_source(self, columns: Sequence[str] | None) -> Callable[[float | None], Any]:
        reading = self._batch_reading(columns)

        def take(timeout: float | None) -> EventBatch | None:
            if reading.ended_at is None:
                return self._next_event_batch(reading, timeout)
            self._settled()
            return None

        return take

    def _batch_reading(self, columns: Sequence[str] | None) -> EventReading:
        strategy = self._event_time.strategy
        if self._typed is None:
            return EventReading(strategy, raw_columns(strategy, columns))
        chosen = typed_columns(strategy, self._typed, columns)
        assert chosen.plan is not None
        return EventReading(strategy, chosen, self._typed_by(chosen.plan))

    def _next_event_batch(self, reading: EventReading, timeout: float | None) -> EventBatch | None:
        def hand_out(chunk: Chunk, piece: Piece, end: int) -> EventBatch:
            cursor = chunk.cursor
            part, end = self._part(reading, chunk, piece, end)
            if part.ended_at is not None:
                chunk.rewind()  # whoever reads on after the end reads what follows it
                end = part.ended_at + 1
            elif part.next_offset is not None:
                chunk.rewind()
                end = part.next_offset
            reached = self._event_time.reached_with(cursor.tp, part)
            batch = EventBatch(reading.shown(part), part.times, *reached)
            self._handed, cursor.in_hand = (cursor, part, reached), True
            self._hand_out_batch(chunk, part.records, end)
            reading.ended_at = part.ended_at
            return batch

        return self._next(reading.decoded, hand_out, timeout, reading.make, reading)

    def _part(self, reading: EventReading, chunk: Chunk, piece: Piece, end: int) -> tuple[Piece, int]:
        """What of a piece is handed out now, and the offset after it: if all of it takes its partition too far ahead,
        the rest waits in its chunk. With the lock held."""
        strategy = self._event_time.strategy
        rows = self._event_time.rows_within(chunk.cursor.tp, piece)
        if rows == piece.rows:
            return piece, end
        rest = piece.after(rows, strategy)
        chunk.keep(reading, rest)
        return piece.first(rows, strategy), reading.offset(rest)

    # --- called by what this is made of ------------------------------------------------------------------------------

    def _must_wait(self, cursor: Cursor) -> bool:
        return self._event_time.is_ahead(cursor)

    def _sets_aside(self, chunk: Chunk) -> bool:
        with self.lock:
            if self._opened is not chunk or self._closed or not chunk.counts:
                return False
            if not self._event_time.is_ahead(chunk.cursor):
                return False
            self._opened = None
            self._queue.appendleft(chunk)  # not rewound: it goes on where it was
            return True

    def _note_messages(self, chunk: Chunk, messages: int) -> None:
        piece, self._piece = self._piece, None
        if piece is not None and messages:
            self._event_time.done_with(chunk.cursor, piece.first(messages, self._event_time.strategy))

    def _settled(self) -> None:
        with self.lock:
            if self._handed is not None:
                self._event_time.done_with(*self._handed)
                self._forget_handed()
        self._event_time.let_go_on()  # what was handed out may be what others waited for

    def _take_back(self, chunk: Chunk, consumed: int | None) -> None:
        with self.lock:
            self._forget_handed()
            super()._take_back(chunk, consumed)

    def _forget_handed(self) -> None:
        if self._handed is not None:
            self._handed[0].in_hand = False
            self._handed = None
