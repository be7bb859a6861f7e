"""A stream: the iterator (H14) over a queue of chunks.

Fetchers put chunks on the queue; the thread that reads the stream decodes them, one after the other, and hands out
messages or Arrow batches. What is handed out counts as consumed, and position and hand-out move together (F18): a batch
under the stream's lock; a message inside the kernel's iterator, which `release` closes and asks for its position in one
step. So nothing of a partition leaves the stream once it is released (H8).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa

from penstock._kernel import Batch, Message, Messages
from penstock.consumer.fetch.chunk import Chunk
from penstock.consumer.fetch.cursor import Cursor
from penstock.consumer.fetch.queue import ChunkQueue
from penstock.errors import CorruptBatch, RecordTooLarge
from penstock.model.columns import checked_columns
from penstock.reader.chunk_decoder import ChunkDecoder
from penstock.reader.range_reader import CORRUPT_TRIES
from penstock.wire.client_config import ClientConfig

if TYPE_CHECKING:
    from penstock.consumer.stream.typed import TypedBatches
    from penstock.formats.plan import TypedPlan, TypedSource

log = logging.getLogger(__name__)
Decode: TypeAlias = Callable[[bytes], Any]
Handed = TypeVar("Handed")
AnyBatch = TypeVar("AnyBatch", Batch, pa.RecordBatch)

DECODERS_KEPT = 4
"""Of the partitions read last. Each keeps its working memory, which may have grown to that of the largest batch."""

MESSAGE_COLUMNS = ("key", "value", "offset", "timestamp", "timestampType", "headers")
"""What a message is built from; topic and partition are the chunk's."""


class Stream(ChunkQueue):
    """What one thread of a consumer reads. Iterate it for messages, or its `batches()` for Arrow.

    One thread reads a stream at a time; every other method may come from any thread.
    """

    prepares_typed = True
    """Whether `prepare_typed` gives its typed batches; else `batch_source` alone does."""

    def __init__(
        self,
        thread_id: str,
        client: ClientConfig,
        *,
        queued_chunks: int = 2,
        timeout: float | None = None,
        typed: TypedSource | None = None,
        group: str = "",
        key_decoder: Decode | None = None,
        value_decoder: Decode | None = None,
        on_room: Callable[[], None] = lambda: None,
        on_consumed: Callable[[str, int, int], None] = lambda topic, messages, size: None,
        on_corrupt: Callable[[], None] = lambda: None,
        on_typed: Callable[[int, int, int], None] = lambda malformed, dropped, skipped: None,
    ) -> None:
        super().__init__(thread_id, queued_chunks, on_room)
        self._client = client
        self.timeout = timeout
        self._typed = typed
        self._group = group
        self._key_decoder = key_decoder
        self._value_decoder = value_decoder
        self._on_consumed = on_consumed
        self._on_corrupt = on_corrupt
        self._on_typed = on_typed
        self._is_read = False
        # The reader's own, guarded by the lock where others look at it:
        self._opened: Chunk | None = None
        self._messages: Messages | None = None
        """What is left of the batch whose messages are handed out, out of `_opened`."""
        self._decoders: dict[tuple[Cursor, tuple[str, ...]], ChunkDecoder] = {}
        self._prepared: Callable[[], Any] | None = None
        """What hands out the typed batch that was prepared from `_opened`."""
        self._preparer = ThreadPoolExecutor(1, f"penstock-typed-{thread_id}")
        """Prepares typed batches for readers that cannot block; without one it has no thread."""

    def __repr__(self) -> str:
        return f"Stream({self.thread_id})"

    # --- reading: the stream's own thread ---------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Message]:
        """Messages as they come, for ever: until a shutdown, or a ConsumerTimeout if `consumer.timeout.ms` is set;
        after that one the stream can be iterated again."""
        while (messages := self.next_messages(self.timeout)) is not None:
            yield from messages

    def __next__(self) -> Message:
        while (messages := self.next_messages(self.timeout)) is not None:
            for message in messages:
                return message
        raise StopIteration

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Arrow batches as they come, with the columns asked for; without a wish, all of them; typed, if the connector
        was given formats. A batch holds records of one partition. The iteration ends, or times out, as that over
        messages does. With a watermark strategy they are EventBatches, else pyarrow's RecordBatches."""
        take = self.batch_source(columns)
        while (batch := take(self.timeout)) is not None:
            if batch.num_rows:
                yield batch

    def batch_source(self, columns: Sequence[str] | None) -> Callable[[float | None], Any]:
        """What gives the next batch, maybe without rows, if it comes within a time; None at the end. Raises as
        `next_messages`."""
        typed = self.typed_batches(columns)
        if typed is not None:
            return lambda timeout: None if typed.ended_at is not None else self.next_typed(typed, timeout)
        wanted = tuple(checked_columns(columns, include_headers=True))
        return lambda timeout: self.next_batch(wanted, timeout)

    def typed_batches(self, columns: Sequence[str] | None) -> TypedBatches | None:
        """What makes this stream's batches typed, if formats were set."""
        return None if self._typed is None else self._typed_by(self._typed.picked(columns))

    def _typed_by(self, plan: TypedPlan) -> TypedBatches:
        from penstock.consumer.stream.typed import TypedBatches

        return TypedBatches(plan, self._client, self._group, self._on_typed)

    def next_messages(self, timeout: float | None) -> Messages | None:
        """What is left of the batch that is handed out, or the next one; None after a shutdown. Raises ConsumerTimeout
        if none comes in time; None waits for ever."""
        messages = self._messages
        if messages is not None and messages.remaining:
            return messages  # the iteration was left in the middle of a batch
        return self._next(MESSAGE_COLUMNS, self._hand_out_messages, timeout)

    def next_batch(self, columns: tuple[str, ...], timeout: float | None) -> pa.RecordBatch | None:
        """The same as one Arrow batch."""
        batch = self._next(columns, self._hand_out_batch, timeout)
        return None if batch is None else pa.record_batch(batch)

    def next_typed(self, typed: TypedBatches, timeout: float | None) -> pa.RecordBatch | None:
        """The same with typed columns; maybe without rows. What does not parse and may not be passed over is raised,
        and is met again by the next call."""

        return self._next(typed.columns, partial(self._hand_out_typed, typed), timeout, typed.make)

    def open_next(self) -> bool:
        """Have something to prepare a typed batch from. Raises ConsumerTimeout if there is nothing yet, and what was
        met in fetching; False after a shutdown. Never blocks."""
        with self.lock:
            if self._opened is not None or self._is_read:  # by a preparation that nobody waits for any more
                return not self._closed
            return self._open(time.monotonic(), 0.0) is not None

    def prepare_typed(self, typed: TypedBatches) -> Future[Callable[[], pa.RecordBatch | None] | None]:
        """The slow part of `next_typed`, in a thread: to make a batch may take a registry's answer, or letters that are
        written. The future holds what hands the batch out; that gives None if the batch is not wanted any more. None:
        open the next one. Nothing is consumed before it is handed out, so nothing is lost if nobody waits for it."""

        def prepare(chunk: Chunk, batch: pa.RecordBatch, end: int) -> Callable[[], pa.RecordBatch | None]:
            def take() -> pa.RecordBatch | None:
                with self.lock:
                    if self._prepared is not take:  # something else was read meanwhile
                        return None
                    made = self._hand_out_typed(typed, chunk, batch, end) if self._still_wanted(chunk) else None
                    self._prepared = None
                    return made

            self._prepared = take
            return take

        with self.lock:
            if not self._closed:
                return self._preparer.submit(self._next, typed.columns, prepare, 0.0, typed.make, opens=False)
        ended: Future[Callable[[], pa.RecordBatch | None] | None] = Future()
        ended.set_result(None)
        return ended

    def _hand_out_typed(self, typed: TypedBatches, chunk: Chunk, batch: pa.RecordBatch, end: int) -> pa.RecordBatch:
        if typed.ended_at is not None:
            end = typed.ended_at + 1
        elif typed.next_offset is not None:
            end = typed.next_offset
        else:
            return self._hand_out_batch(chunk, batch, end)
        chunk.rewind()  # the next read continues with what follows
        return self._hand_out_batch(chunk, batch, end)

    def _next(
        self,
        columns: tuple[str, ...],
        hand_out: Callable[[Chunk, Any, int], Handed],
        timeout: float | None,
        make: Callable[[Cursor, Batch], Any] | None = None,
        whose: object = None,
        *,
        opens: bool = True,
    ) -> Handed | None:
        """Decode on until there is something to hand out; None after a shutdown. Without `opens`, only what is opened:
        None if there is nothing left of it."""
        with self.lock:
            if self._is_read:
                raise RuntimeError(f"stream {self.thread_id} is read by another thread: a stream is for one at a time")
            self._is_read = True
        try:
            deadline = None if timeout is None else time.monotonic() + timeout
            self._settle()
            self._settled()
            while True:
                chunk = self._opened
                if chunk is None or self._sets_aside(chunk):
                    chunk = self._open(deadline, timeout) if opens else None
                if chunk is None:
                    return None
                before = chunk.cursor.consumed
                try:
                    batch: Any = chunk.take_rest(whose)
                    if batch is None and chunk.counts:
                        batch = chunk.next_batch(columns, self._decoder)
                        if make is not None and batch is not None:
                            with self.lock:  # not for nothing: it may write letters, or fail
                                if not self._still_wanted(chunk):
                                    continue
                            batch = make(chunk.cursor, batch)
                    with self.lock:
                        if not self._still_wanted(chunk):
                            continue
                        if batch is None:
                            self._finish(chunk)
                            continue
                        return hand_out(chunk, batch, chunk.next_offset)
                except CorruptBatch as error:
                    self._damaged(chunk, error)
                except BaseException:  # a signal's handler that raises: what nobody got is decoded again
                    self._take_back(chunk, before)
                    raise
        finally:
            self._is_read = False

    def _take_back(self, chunk: Chunk, consumed: int | None) -> None:
        with self.lock:
            if self._opened is chunk:
                self._messages = None
                chunk.rewind()
                if chunk.counts:
                    chunk.cursor.consumed = consumed

    def _settle(self) -> None:
        """What was handed out is consumed; what another iteration left of a batch or did not take is decoded again."""
        with self.lock:
            chunk = self._opened
            prepared, self._prepared = self._prepared, None
            if chunk is None:
                return
            if prepared is not None or self._end_messages():
                chunk.rewind()
            elif chunk.is_used_up and self._still_wanted(chunk):
                self._finish(chunk)

    def _end_messages(self) -> int:
        """Hand out no more messages of the batch at hand: what was handed out is consumed. Returns how many are left.
        With the lock held."""
        chunk, messages, self._messages = self._opened, self._messages, None
        if messages is None or chunk is None:
            return 0
        left = messages.remaining
        reached = messages.stop()
        self._count(chunk, chunk.rows - left)
        if chunk.counts:
            chunk.cursor.consumed = reached
            self._note_messages(chunk, chunk.rows - left)
        return left

    def _count(self, chunk: Chunk, messages: int) -> None:
        self._on_consumed(chunk.cursor.tp.topic, messages, chunk.take_size())

    def _open(self, deadline: float | None, timeout: float | None) -> Chunk | None:
        """Wait for the next chunk. None after a shutdown; raises what was met in fetching, and the time-out."""
        with self.lock:
            self._opened = self._take(deadline, timeout)
            return self._opened

    # What event time adds (EventStream); here there is none.

    def _sets_aside(self, chunk: Chunk) -> bool:
        """Put the opened chunk back if it is to be held back. Without the lock."""
        return False

    def _note_messages(self, chunk: Chunk, messages: int) -> None:
        """So many messages of what was decoded last were handed out. With the lock held."""

    def _settled(self) -> None:
        """What was handed out is consumed. Without the lock."""

    def _still_wanted(self, chunk: Chunk) -> bool:
        """Whether what was just decoded may be handed out. With the lock held."""
        if self._closed or not chunk.counts:
            self._opened = None
            chunk.release()
            return False
        if chunk.cursor.paused:
            self._opened = None
            chunk.rewind()
            self._queue.appendleft(chunk)
            return False
        return True

    def _hand_out_messages(
        self, chunk: Chunk, batch: Batch, end: int, event_times: pa.Int64Array | None = None
    ) -> Messages:
        decoders = self._key_decoder, self._value_decoder
        chunk.rows = batch.num_rows
        self._messages = Messages(batch, *chunk.cursor.tp, end, *decoders, event_times)
        return self._messages

    def _hand_out_batch(self, chunk: Chunk, batch: AnyBatch, end: int) -> AnyBatch:
        chunk.cursor.consumed = end
        self._count(chunk, batch.num_rows)
        return batch

    def _finish(self, chunk: Chunk) -> None:
        """A chunk is used up. With the lock held."""
        cursor, reached = chunk.cursor, chunk.next_offset
        self._opened = None
        chunk.release()
        cursor.corrupt_tries = 0
        if chunk.end is None and reached <= chunk.start:
            # A fetch returns its first batch whole (KIP-74), so there is a limit that we do not see.
            self._park(cursor, RecordTooLarge(cursor.tp.topic, cursor.tp.partition, reached, chunk.size))
            return
        cursor.consumed = reached
        if chunk.end == reached and cursor.fetched is not None and not self._has_queued(cursor):
            cursor.consumed = cursor.fetched  # the same, unless what lay in between is gone (H12)
        if chunk.end is None:  # only now it is known what to fetch next
            cursor.fetched = reached
            self._on_room()
        elif reached != chunk.end:
            # The headers promised more than decoding found: what was fetched behind them is not what comes next.
            log.warning("%s: a chunk ends at offset %d, not at %d; fetching from there", cursor.tp, reached, chunk.end)
            self._drop(cursor)
            cursor.move_to(reached)
            self._on_room()

    def _damaged(self, chunk: Chunk, error: CorruptBatch) -> None:
        """Damaged bytes: fetch them again first, raise the error when they come again."""
        with self.lock:
            if not self._still_wanted(chunk):
                return
            cursor, reached = chunk.cursor, chunk.next_offset
            self._opened = None
            chunk.release()
            tries = cursor.corrupt_tries + 1
            self._drop(cursor)
            cursor.move_to(max(reached, cursor.consumed or 0))
            cursor.corrupt_tries = tries
            if tries < CORRUPT_TRIES:
                log.warning("%s; fetching it again", error)
                self._on_corrupt()
                self._on_room()
            else:
                self._park(cursor, error)

    def _decoder(self, cursor: Cursor, columns: tuple[str, ...]) -> ChunkDecoder:
        key = (cursor, columns)
        with self.lock:  # a release takes out the decoders of its cursor meanwhile
            decoder = self._decoders.pop(key, None)
            if decoder is None:
                decoder = ChunkDecoder(cursor.tp.topic, cursor.tp.partition, columns, self._client)
                while len(self._decoders) >= DECODERS_KEPT:
                    del self._decoders[next(iter(self._decoders))]
            self._decoders[key] = decoder  # the last one is the one used last
            return decoder

    # --- moving: the membership thread, the leader finder, the user ---------------------------------------------------

    def position(self, cursor: Cursor) -> int | None:
        """The next offset to hand out; None if it is not known yet."""
        with self.lock:
            opened = self._opened
            if self._messages is not None and opened is not None and opened.cursor is cursor and opened.counts:
                return self._messages.position
            return cursor.consumed

    def lag(self, cursor: Cursor) -> int | None:
        """Records between the position and the end of what may be read, never below 0 (H11); None if unknown."""
        position, readable = self.position(cursor), cursor.readable
        return None if position is None or readable is None else max(0, readable - position)

    def move(self, cursor: Cursor, offset: int | None) -> None:
        """Go on from another offset, of which no leader epoch is known."""
        with self.lock:
            if cursor.released:
                return
            self._stop(cursor)
            cursor.move_to(offset)
            cursor.epoch = -1
            self._forget_errors(cursor)

    def reset(self, cursor: Cursor, offset: int) -> None:
        """Fetch on from another offset, because what was to be fetched is gone. What was fetched before it is handed
        out first, unless that lies behind the new place: then the log is another one from there on."""
        with self.lock:
            position, fetched = self.position(cursor), cursor.fetched
            if position is None or fetched is None or position == fetched:
                self.move(cursor, offset)
            elif offset < fetched:
                self.move(cursor, min(offset, position))
            elif not cursor.released:
                cursor.fetched, cursor.aligned, cursor.lost = offset, None, False

    def pause(self, cursor: Cursor) -> None:
        """Hand out nothing of it for a while. What was fetched stays."""
        with self.lock:
            cursor.paused = True
            chunk = self._opened
            if self._messages is not None and chunk is not None and chunk.cursor is cursor:
                self._end_messages()
                self._opened = None
                chunk.rewind()
                self._queue.appendleft(chunk)
            self._make_room()

    def resume(self, cursor: Cursor) -> None:
        with self.lock:
            cursor.paused = False
            self._announce()

    def release(self, cursor: Cursor) -> int | None:
        """Hand out nothing more of it, ever (H8). Returns its position, None if it never had one."""
        with self.lock:
            self._stop(cursor)
            cursor.released = True
            cursor.version += 1
            cursor.fetched = None
            self._forget_errors(cursor)
            for key in [key for key in self._decoders if key[0] is cursor]:
                self._decoders.pop(key, None)
            return cursor.consumed

    def close(self) -> None:
        """End the iteration: hand out nothing more, of no partition."""
        with self.lock:
            self._closed = True
            self._end_messages()
            for chunk in self._queue:
                chunk.release()
            self._queue.clear()
            self._preparer.shutdown(wait=False)
            self._announce()

    def _stop(self, cursor: Cursor) -> None:
        """Hand out nothing of what was fetched for a cursor; `consumed` is its position then. With the lock held."""
        if self._opened is not None and self._opened.cursor is cursor:
            self._end_messages()
        self._drop(cursor)
