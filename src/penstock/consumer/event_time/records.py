"""Hands out a stream's records with their event time, and holds back partitions that are too far ahead (E4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from penstock._kernel import Batch, Messages
from penstock.consumer.event_time.batch import EventBatch
from penstock.consumer.event_time.columns import check_event_column, message_columns, raw_columns, typed_columns
from penstock.consumer.event_time.shared_tracker import SharedTracker
from penstock.consumer.event_time.timed_records import EventTimeDecoder, TimedRecords
from penstock.consumer.fetch.chunk import Chunk
from penstock.consumer.fetch.cursor import Cursor
from penstock.consumer.stream.chunk_reader import ChunkReader, Iteration
from penstock.consumer.stream.records import MESSAGE_COLUMNS, Decode
from penstock.consumer.stream.typed import TypedFormats


class EventTimeRecords:
    """The records of a stream of a connector with a watermark strategy. For the thread that reads the stream.

    Records move event time when the stream's thread asks for more, because only then is it done with them. So a
    connector's watermark never covers records that a thread still works on.
    """

    def __init__(
        self,
        reader: ChunkReader,
        tracker: SharedTracker,
        *,
        key_decoder: Decode | None = None,
        value_decoder: Decode | None = None,
        plain: TypedFormats,
        typed: TypedFormats | None = None,
    ) -> None:
        """`plain` builds Kafka's own columns if a predicate filters them. Raises EventTimeError if the strategy names a
        column that event times cannot be read from."""
        check_event_column(tracker.strategy, None if typed is None else typed.source)
        self._reader = reader
        self._tracker = tracker
        self._decoders = key_decoder, value_decoder
        self._typed = typed
        self._plain = plain
        self._messages: Iteration[Messages] | None = None

    # --- messages -----------------------------------------------------------------------------------------------------

    def next_messages(self, timeout: float | None) -> Messages | None:
        if self._messages is None:
            self._messages = self._message_iteration()
        return self._reader.next(self._messages, timeout)

    def _message_iteration(self) -> Iteration[Messages]:
        strategy = self._tracker.strategy
        decoder = EventTimeDecoder(strategy, message_columns(strategy, MESSAGE_COLUMNS))
        messages_have_it = strategy.timestamps is None  # event time is the record's own timestamp

        def hand_out(chunk: Chunk, decoded: TimedRecords, end: int) -> Messages:
            part, end = self._cut(decoder, iteration, chunk, decoded, end)
            self._tracker.hands_out(chunk.cursor.tp, part)
            batch = part.native or Batch.from_arrow(part.records)
            times = None if messages_have_it else part.times.milliseconds()
            messages = Messages(batch, *chunk.cursor.tp, end, *self._decoders, times)
            return self._reader.hand_out_messages(chunk, messages, partial(self._messages_ended, chunk.cursor, part))

        iteration = Iteration(decoder.columns, hand_out, decoder.decode, self._tracker.resume_caught_up)
        return iteration

    def _messages_ended(self, cursor: Cursor, part: TimedRecords, count: int) -> None:
        self._tracker.done_with(cursor, part.first(count, self._tracker.strategy))

    # --- batches ------------------------------------------------------------------------------------------------------

    def batch_source(
        self, columns: Sequence[str] | None, where: str | None
    ) -> Callable[[float | None], EventBatch | None]:
        decoder = self._batch_decoder(columns, where)
        ended = False

        def hand_out(chunk: Chunk, decoded: TimedRecords, end: int) -> EventBatch:
            nonlocal ended
            cursor = chunk.cursor
            part, end = self._cut(decoder, iteration, chunk, decoded, end)
            if part.ended_at is not None:
                chunk.rewind()  # another iteration continues after the end
                end = part.ended_at + 1
            elif part.next_offset is not None:
                chunk.rewind()
                end = part.next_offset
            progress = self._tracker.progress_with(cursor.tp, part)
            batch = EventBatch(decoder.selected(part), part.passed_times, *progress)
            on_done = partial(self._tracker.done_with, cursor, part, progress)
            self._reader.hand_out_batch(chunk, part.rows, end, on_done)
            ended = part.ended_at is not None
            return batch

        def take(timeout: float | None) -> EventBatch | None:
            if not ended:
                batch = self._reader.next(iteration, timeout)
                if batch is None:
                    decoder.close()
                return batch
            self._reader.end_batch()
            self._tracker.resume_caught_up()
            decoder.close()
            return None

        iteration = Iteration(decoder.columns, hand_out, decoder.decode, self._tracker.resume_caught_up)
        return take

    def _batch_decoder(self, columns: Sequence[str] | None, where: str | None) -> EventTimeDecoder:
        strategy = self._tracker.strategy
        if self._typed is None and where is None:
            return EventTimeDecoder(strategy, raw_columns(strategy, columns))
        formats = self._typed or self._plain
        chosen = typed_columns(strategy, formats.source, columns, formats.parse_where(where))
        assert chosen.plan is not None
        return EventTimeDecoder(strategy, chosen, formats.batches_of(chosen.plan, marks_rows=True))

    def _cut(
        self, decoder: EventTimeDecoder, iteration: object, chunk: Chunk, decoded: TimedRecords, end: int
    ) -> tuple[TimedRecords, int]:
        """The records to hand out now, and the offset after them. With the lock held.

        If all of them would take their partition too far ahead, the rest stays in its chunk.
        """
        strategy = self._tracker.strategy
        rows = self._tracker.rows_within(chunk.cursor.tp, decoded)
        if rows == decoded.rows:
            return decoded, end
        rest = decoded.after(rows, strategy)
        chunk.keep(iteration, rest)
        return decoded.first(rows, strategy), decoder.first_offset(rest)
