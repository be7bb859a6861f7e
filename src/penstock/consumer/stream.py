"""A stream: a bounded queue of chunks (H4) and the iterator over it (H14).

Fetchers put chunks on the queue; the thread that reads the stream decodes them, one after the other, and hands out
messages or Arrow batches. What is handed out counts as consumed, and position and hand-out move together (F18): a batch
under the stream's lock; a message inside the kernel's iterator, which `release` closes and asks for its position in one
step. So nothing of a partition leaves the stream once it is released (H8).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa

from penstock._kernel import Batch, Message, Messages
from penstock.columns import checked_columns
from penstock.consumer.chunk import Chunk, Lease
from penstock.consumer.cursor import Cursor
from penstock.errors import ConsumerTimeout, CorruptBatch, RecordTooLarge
from penstock.fetch.chunk import ChunkDecoder
from penstock.fetch.reader import CORRUPT_TRIES
from penstock.wire.config import ClientConfig
from penstock.wire.fetch import FetchedPartition

if TYPE_CHECKING:
    from penstock.consumer.typed import TypedBatches
    from penstock.formats.plan import TypedSource

log = logging.getLogger(__name__)
Decode: TypeAlias = Callable[[bytes], Any]
Handed = TypeVar("Handed")
AnyBatch = TypeVar("AnyBatch", Batch, pa.RecordBatch)

SMALL_CHUNK = 64 << 10
"""Chunks of a trickle, a message or two each, count together until they come to this size. Counted one by one, two of
them would hold their fetcher back until the reader has woken up."""

MOST_CHUNKS = 1000
"""However small they are."""

DECODERS_KEPT = 4
"""Of the partitions read last. Each keeps its working memory, which may have grown to that of the largest batch."""

MESSAGE_COLUMNS = ("key", "value", "offset", "timestamp", "timestampType", "headers")
"""What a message is built from; topic and partition are the chunk's."""


class Stream:
    """What one thread of a consumer reads. Iterate it for messages, or its `batches()` for Arrow.

    One thread reads a stream at a time; every other method may come from any thread.
    """

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
        self.thread_id = thread_id
        self._client = client
        self._bound = queued_chunks
        self.timeout = timeout
        self._typed = typed
        self._group = group
        self._key_decoder = key_decoder
        self._value_decoder = value_decoder
        self._on_room = on_room
        self._on_consumed = on_consumed
        self._on_corrupt = on_corrupt
        self._on_typed = on_typed
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._queue: deque[Chunk] = deque()
        self._errors: deque[tuple[Cursor | None, BaseException]] = deque()
        self._failure: BaseException | None = None
        """What has ended the connector: raised again and again."""
        self._closed = False
        self._is_read = False
        self._held_back = False
        """Whether a fetcher has found the queue full since the reader took something from it."""
        self.on_ready: Callable[[], None] | None = None
        """Called, with the lock held, when there is something for the reader: for readers that cannot block."""
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

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Arrow batches as they come, with the columns asked for; without a wish, all of them; typed, if the connector
        was given formats. A batch holds records of one partition. The iteration ends, or times out, as that over
        messages does."""
        typed = self.typed_batches(columns)
        if typed is not None:
            while typed.ended_at is None and (made := self.next_typed(typed, self.timeout)) is not None:
                if made.num_rows:
                    yield made
            return
        wanted = tuple(checked_columns(columns, include_headers=True))
        while (batch := self.next_batch(wanted, self.timeout)) is not None:
            yield pa.record_batch(batch)

    def typed_batches(self, columns: Sequence[str] | None) -> TypedBatches | None:
        """What makes this stream's batches typed, if formats were set."""
        if self._typed is None:
            return None
        from penstock.consumer.typed import TypedBatches

        return TypedBatches(self._typed.picked(columns), self._client, self._group, self._on_typed)

    def next_messages(self, timeout: float | None) -> Messages | None:
        """What is left of the batch that is handed out, or the next one; None after a shutdown. Raises ConsumerTimeout
        if none comes in time; None waits for ever."""
        messages = self._messages
        if messages is not None and messages.remaining:
            return messages  # the iteration was left in the middle of a batch
        return self._next(MESSAGE_COLUMNS, self._hand_out_messages, timeout)

    def next_batch(self, columns: tuple[str, ...], timeout: float | None) -> Batch | None:
        """The same as one Arrow batch."""
        return self._next(columns, self._hand_out_batch, timeout)

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
        if typed.ended_at is None:
            return self._hand_out_batch(chunk, batch, end)
        chunk.rewind()  # whoever reads on after the end reads what follows it
        return self._hand_out_batch(chunk, batch, typed.ended_at + 1)

    def _next(
        self,
        columns: tuple[str, ...],
        hand_out: Callable[[Chunk, Any, int], Handed],
        timeout: float | None,
        make: Callable[[Cursor, Batch], Any] | None = None,
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
            while True:
                chunk = self._opened or (self._open(deadline, timeout) if opens else None)
                if chunk is None:
                    return None
                before = chunk.cursor.consumed
                try:
                    batch: Any = chunk.next_batch(self._decoder(chunk.cursor, columns)) if chunk.counts else None
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
        return left

    def _count(self, chunk: Chunk, messages: int) -> None:
        self._on_consumed(chunk.cursor.tp.topic, messages, chunk.take_size())

    def _open(self, deadline: float | None, timeout: float | None) -> Chunk | None:
        """Wait for the next chunk. None after a shutdown; raises what was met in fetching, and the time-out."""
        with self.lock:
            while True:
                if self._closed:
                    return None
                if self._failure is not None:
                    raise self._failure.with_traceback(None)
                if self._errors:
                    raise self._errors.popleft()[1].with_traceback(None)
                for at, chunk in enumerate(self._queue):
                    if not chunk.cursor.paused:
                        del self._queue[at]
                        self._opened = chunk
                        break
                else:
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        raise ConsumerTimeout(self.thread_id, timeout or 0.0)
                    self._changed.wait(left)
                    continue
                break
            self._make_room()
            return chunk

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

    def _hand_out_messages(self, chunk: Chunk, batch: Batch, end: int) -> Messages:
        tp = chunk.cursor.tp
        chunk.rows = batch.num_rows
        self._messages = Messages(batch, tp.topic, tp.partition, end, self._key_decoder, self._value_decoder)
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
        decoder = self._decoders.pop(key, None)
        if decoder is None:
            decoder = ChunkDecoder(cursor.tp.topic, cursor.tp.partition, columns, self._client)
            while len(self._decoders) >= DECODERS_KEPT:
                del self._decoders[next(iter(self._decoders))]
        self._decoders[key] = decoder  # the last one is the one used last
        return decoder

    # --- filling: fetchers ------------------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Whether its fetchers must hold back (H4): they are told when there is room again."""
        if len(self._queue) < self._bound:
            return False
        with self.lock:
            sizes = [chunk.size for chunk in self._queue if not chunk.cursor.paused]
            full = len(sizes) >= self._bound and (sum(sizes) >= self._bound * SMALL_CHUNK or len(sizes) >= MOST_CHUNKS)
            self._held_back |= full
            return full

    @property
    def queue_size(self) -> int:
        """Chunks that wait for the reader; those of paused partitions wait for somebody else."""
        with self.lock:
            return sum(not chunk.cursor.paused for chunk in self._queue)

    def put(
        self, cursor: Cursor, version: int, asked: int, fetched: FetchedPartition, follows: int, lease: Lease
    ) -> bool:
        """Take what was fetched for a cursor at offset `asked`, if that is still what it wants (H11). `follows` is the
        offset after it, or `asked` if the headers do not tell."""
        with self.lock:
            if self._closed or cursor.released or cursor.version != version or cursor.fetched != asked:
                return False
            end = follows if follows > asked else None
            self._queue.append(Chunk(cursor, fetched, asked, end, lease, aligned=cursor.aligned == asked))
            cursor.fetched = cursor.aligned = end
            self._announce()
            return True

    def fail(self, cursor: Cursor, error: BaseException, version: int) -> None:
        """Let the reader meet what stands in a cursor's way; nothing is fetched for it until somebody seeks."""
        with self.lock:
            if not cursor.released and cursor.version == version:
                self._park(cursor, error)

    def tell(self, cursor: Cursor | None, error: BaseException) -> None:
        """Let the reader meet an error that may heal. What it was not told of yet is not told twice."""
        with self.lock:
            known = any(whose is cursor and str(other) == str(error) for whose, other in self._errors)
            if not known and (cursor is None or not cursor.released):
                self._errors.append((cursor, error))
                self._announce()

    def end_with(self, error: BaseException) -> None:
        """Nothing will come any more, and this is why."""
        with self.lock:
            self._failure = error
            self._announce()

    def _announce(self) -> None:
        """There is something for the reader. With the lock held."""
        self._changed.notify_all()
        if self.on_ready is not None:
            self.on_ready()

    def _park(self, cursor: Cursor, error: BaseException) -> None:
        cursor.parked = True
        self._errors.append((cursor, error))
        self._announce()

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

    def _has_queued(self, cursor: Cursor) -> bool:
        return any(chunk.cursor is cursor for chunk in self._queue)

    def _make_room(self) -> None:
        """Tell fetchers that were held back. With the lock held."""
        if self._held_back:
            self._held_back = False
            self._on_room()

    def _drop(self, cursor: Cursor) -> None:
        """Clear the queue of a cursor's chunks. With the lock held."""
        for chunk in [chunk for chunk in self._queue if chunk.cursor is cursor]:
            self._queue.remove(chunk)
            chunk.release()
        self._make_room()

    def _forget_errors(self, cursor: Cursor) -> None:
        kept = [(whose, error) for whose, error in self._errors if whose is not cursor]
        self._errors.clear()
        self._errors.extend(kept)
