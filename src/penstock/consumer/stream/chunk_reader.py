"""The reading side of a stream: decodes the queue's chunks, hands out records, and keeps each partition's position.

Handed-out records count as consumed, and a position moves together with its records (F18): for a batch under the lock;
for a message inside the kernel's iterator, which `revoke` stops and asks for its position in one step. So no record of
a partition leaves the stream after its revocation (H8).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from penstock._kernel import Batch, Messages
from penstock.consumer.fetch.chunk import Chunk
from penstock.consumer.fetch.cursor import Cursor
from penstock.consumer.fetch.lease import Lease
from penstock.consumer.fetch.queue import ChunkQueue
from penstock.consumer.stream.decoders import DecoderCache
from penstock.errors import CorruptBatch, RecordTooLarge
from penstock.masking import get_logger
from penstock.reader.range_reader import CORRUPT_TRIES
from penstock.wire.api.fetch import FetchedPartition

log = get_logger(__name__)
Handed = TypeVar("Handed")

_DISCARDED: Final = object()
"""The result of decoding a chunk that a seek, pause or revocation has made unwanted meanwhile."""


@dataclass(frozen=True, slots=True, eq=False)
class Iteration(Generic[Handed]):
    """How one iteration over a stream turns decoded batches into what its caller receives."""

    columns: tuple[str, ...]
    """Kafka's columns to decode."""
    hand_out: Callable[[Chunk, Any, int], Handed]
    """Gets the chunk, the decoded (and converted) batch, and the offset after it. Called with the lock held."""
    convert: Callable[[Cursor, Batch], Any] | None = None
    """Converts a decoded batch. Called without the lock: it may be slow, write dead letters, or raise."""
    on_settled: Callable[[], object] | None = None
    """Called without the lock when records handed out before count as consumed."""


class ChunkReader:
    """One thread reads at a time. Methods may be called by any thread unless they say otherwise."""

    def __init__(
        self,
        queue: ChunkQueue,
        decoders: DecoderCache,
        *,
        on_room: Callable[[], None] = lambda: None,
        on_consumed: Callable[[str, int, int], None] = lambda topic, messages, size: None,
        on_corrupt: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_room` wakes the fetchers, `on_consumed` counts records (topic, messages, bytes), `on_corrupt` counts
        damaged chunks that are fetched again."""
        self.queue = queue
        self.lock: threading.RLock = queue.lock
        self.thread_id = queue.thread_id
        self._decoders = decoders
        self._on_room = on_room
        self._on_consumed = on_consumed
        self._on_corrupt = on_corrupt
        self._is_read = False
        # The stream thread's own; guarded by the lock where other threads look:
        self._opened: Chunk | None = None
        self._messages: Messages | None = None
        """The rest of the batch whose messages are handed out, out of `_opened`."""
        self._on_messages_end: Callable[[int], None] | None = None
        """Gets the number of messages of that batch that were handed out."""
        self._in_use: tuple[Cursor, Callable[[], None]] | None = None
        """The batch that the stream's thread may still work on, and what to call when it asks for more."""
        self.prepared: object | None = None
        """Identifies a batch that was decoded from `_opened` in advance and is not handed out yet."""

    # --- reading: the stream's thread ---------------------------------------------------------------------------------

    def messages_left(self) -> Messages | None:
        """The rest of a batch whose iteration stopped in the middle; None if there is none."""
        messages = self._messages
        return messages if messages is not None and messages.remaining else None

    def next(self, iteration: Iteration[Handed], timeout: float | None, *, opens: bool = True) -> Handed | None:
        """Decode until there is something to hand out. None after a shutdown.

        Raises ConsumerTimeout if nothing comes in time; None waits forever. Raises errors of fetching and decoding too.
        Without `opens`, reads only the chunk that is open already: None if nothing is left of it.
        """
        with self.lock:
            if self._is_read:
                raise RuntimeError(f"stream {self.thread_id} is read by another thread: only one may read at a time")
            self._is_read = True
        try:
            deadline = None if timeout is None else time.monotonic() + timeout
            self._settle()
            if iteration.on_settled is not None:
                iteration.on_settled()
            while True:
                chunk = self._opened
                if chunk is None or self._sets_aside(chunk):
                    chunk = self._open(deadline, timeout) if opens else None
                if chunk is None:
                    return None
                before = chunk.cursor.consumed
                try:
                    batch = self._decode(chunk, iteration)
                    with self.lock:
                        if batch is _DISCARDED or not self.still_wanted(chunk):
                            continue
                        if batch is None:
                            self._finish(chunk)
                            continue
                        return iteration.hand_out(chunk, batch, chunk.next_offset)
                except CorruptBatch as error:
                    self._fetch_again(chunk, error)
                except BaseException:  # such as a signal handler that raises: the caller did not get these records
                    self._take_back(chunk, before)
                    raise
        finally:
            self._is_read = False

    def _decode(self, chunk: Chunk, iteration: Iteration[Any]) -> Any:
        """The next batch of a chunk; None at its end."""
        batch: Any = chunk.take_rest(iteration)
        if batch is not None or not chunk.counts:
            return batch
        batch = chunk.next_batch(iteration.columns, self._decoders.get)
        if batch is None or iteration.convert is None:
            return batch
        with self.lock:  # not in vain: converting may write dead letters, or fail
            if not self.still_wanted(chunk):
                return _DISCARDED
        return iteration.convert(chunk.cursor, batch)

    def open_next(self) -> bool:
        """Open a chunk to prepare a batch from, without blocking; False after a shutdown.

        Raises ConsumerTimeout if there is none yet, and errors of fetching.
        """
        with self.lock:
            if self._opened is not None or self._is_read:  # by a preparation whose caller was cancelled
                return not self.queue.closed
            return self._open(time.monotonic(), 0.0) is not None

    def _open(self, deadline: float | None, timeout: float | None) -> Chunk | None:
        with self.lock:
            self._opened = self.queue.take(deadline, timeout)
            return self._opened

    def _sets_aside(self, chunk: Chunk) -> bool:
        """Put the open chunk back if alignment holds its partition back now (E4)."""
        with self.lock:
            if self._opened is not chunk or self.queue.closed or not chunk.counts:
                return False
            if not self.queue.holds_back(chunk.cursor):
                return False
            self._opened = None
            self.queue.put_back(chunk)  # not rewound: it continues where it was
            return True

    def _take_back(self, chunk: Chunk, consumed: int | None) -> None:
        """Undo a hand-out that did not reach the caller."""
        with self.lock:
            if self._in_use is not None:
                self._in_use[0].in_use = False
                self._in_use = None
            if self._opened is chunk:
                self._messages = self._on_messages_end = None
                chunk.rewind()
                if chunk.counts:
                    chunk.cursor.consumed = consumed

    def _settle(self) -> None:
        """Count as consumed what was handed out. What another iteration left of a batch is decoded again."""
        with self.lock:
            chunk = self._opened
            prepared, self.prepared = self.prepared, None
            if chunk is not None:
                if prepared is not None or self._end_messages():
                    chunk.rewind()
                elif chunk.fully_decoded and self.still_wanted(chunk):
                    self._finish(chunk)
            self.end_batch()

    def end_batch(self) -> None:
        """The stream's thread is done with the batch that it got last."""
        with self.lock:
            if self._in_use is not None:
                cursor, done = self._in_use
                done()
                self._in_use, cursor.in_use = None, False

    def _end_messages(self) -> int:
        """Hand out no more messages of the current batch; those handed out are consumed. Returns how many are left.
        With the lock held."""
        chunk, messages, on_end = self._opened, self._messages, self._on_messages_end
        self._messages = self._on_messages_end = None
        if messages is None or chunk is None:
            return 0
        left = messages.remaining
        reached = messages.stop()
        handed_out = chunk.rows - left
        self._count(chunk, handed_out)
        if chunk.counts:
            chunk.cursor.consumed = reached
            if on_end is not None and handed_out:
                on_end(handed_out)
        return left

    # --- handing out: iterations, with the lock held ------------------------------------------------------------------

    def hand_out_messages(
        self, chunk: Chunk, messages: Messages, on_end: Callable[[int], None] | None = None
    ) -> Messages:
        """`on_end` gets the number of messages that were handed out, when no more of them will be."""
        self._note_uncommitted(chunk.cursor)
        chunk.rows = messages.remaining
        self._messages, self._on_messages_end = messages, on_end
        return messages

    def hand_out_batch(self, chunk: Chunk, rows: int, end: int, on_done: Callable[[], None] | None = None) -> None:
        """`on_done` is called when the stream's thread asks for more."""
        self._note_uncommitted(chunk.cursor)
        chunk.cursor.consumed = end
        self._count(chunk, rows)
        if on_done is not None:
            self._in_use, chunk.cursor.in_use = (chunk.cursor, on_done), True

    @staticmethod
    def _note_uncommitted(cursor: Cursor) -> None:
        if cursor.uncommitted_since is None:
            cursor.uncommitted_since = cursor.consumed

    def _count(self, chunk: Chunk, messages: int) -> None:
        self._on_consumed(chunk.cursor.tp.topic, messages, chunk.take_size())

    def still_wanted(self, chunk: Chunk) -> bool:
        """Whether records that were just decoded may be handed out; else the chunk is put back or released. With the
        lock held."""
        if self.queue.closed or not chunk.counts:
            self._opened = None
            chunk.release()
            return False
        if chunk.cursor.paused:
            self._opened = None
            chunk.rewind()
            self.queue.put_back(chunk)
            return False
        return True

    def _finish(self, chunk: Chunk) -> None:
        """The chunk is read to its end. With the lock held."""
        cursor, reached = chunk.cursor, chunk.next_offset
        self._opened = None
        chunk.release()
        cursor.corrupt_tries = 0
        if chunk.end is None and reached <= chunk.start:
            # A fetch returns its first batch whole (KIP-74), so the broker has a limit that the client cannot see.
            error = RecordTooLarge(cursor.tp.topic, cursor.tp.partition, reached, chunk.size)
            self.queue.stop_fetching(cursor, error)
            return
        cursor.consumed = reached
        if chunk.end == reached and cursor.fetched is not None and not self.queue.has_chunks_of(cursor):
            cursor.consumed = cursor.fetched  # the same, unless a reset skipped lost offsets in between (H12)
        if chunk.end is None:  # only decoding revealed where to fetch next
            cursor.fetched = reached
            self._on_room()
        elif reached != chunk.end:
            # The batch headers promised more than there is, so what was fetched after them does not follow.
            log.warning("%s: a chunk ends at offset %d, not at %d; fetching from there", cursor.tp, reached, chunk.end)
            self.queue.drop(cursor)
            cursor.move_to(reached)
            self._on_room()

    def _fetch_again(self, chunk: Chunk, error: CorruptBatch) -> None:
        """Fetch damaged bytes again; raise the error to the stream's thread when they stay damaged."""
        with self.lock:
            if not self.still_wanted(chunk):
                return
            cursor, reached = chunk.cursor, chunk.next_offset
            self._opened = None
            chunk.release()
            tries = cursor.corrupt_tries + 1
            self.queue.drop(cursor)
            cursor.move_to(max(reached, cursor.consumed or 0))
            cursor.corrupt_tries = tries
            if tries < CORRUPT_TRIES:
                log.warning("%s; fetching it again", error)
                self._on_corrupt()
                self._on_room()
            else:
                self.queue.stop_fetching(cursor, error)

    # --- moving: the membership thread, the leader finder, the user ---------------------------------------------------

    def position(self, cursor: Cursor) -> int | None:
        """The next offset to hand out; None if it is not known yet."""
        with self.lock:
            opened = self._opened
            if self._messages is not None and opened is not None and opened.cursor is cursor and opened.counts:
                return self._messages.position
            return cursor.consumed

    def lag(self, cursor: Cursor) -> int | None:
        """Records between the position and the end of the readable log, never below 0 (H11); None if unknown."""
        position, readable = self.position(cursor), cursor.readable
        return None if position is None or readable is None else max(0, readable - position)

    def move(self, cursor: Cursor, offset: int | None) -> None:
        """Continue from another offset, whose leader epoch is unknown."""
        with self.lock:
            if cursor.revoked:
                return
            if self.position(cursor) == cursor.uncommitted_since:
                cursor.uncommitted_since = None  # an aborted transaction must not undo this move
            self._stop(cursor)
            cursor.move_to(offset)
            cursor.epoch = -1
            self.queue.forget_errors(cursor)

    def reset(self, cursor: Cursor, offset: int) -> None:
        """Fetch from another offset, because the broker no longer has the wanted one.

        Records fetched before are handed out first, unless they lie past the new offset: then the log was truncated.
        """
        with self.lock:
            position, fetched = self.position(cursor), cursor.fetched
            if position is None or fetched is None or position == fetched:
                self.move(cursor, offset)
            elif offset < fetched:
                self.move(cursor, min(offset, position))
            elif not cursor.revoked:
                cursor.fetched, cursor.batch_start, cursor.lost = offset, None, False

    def pause(self, cursor: Cursor) -> None:
        """Hand out nothing of this partition until it is resumed. Fetched chunks are kept."""
        with self.lock:
            cursor.paused = True
            chunk = self._opened
            if self._messages is not None and chunk is not None and chunk.cursor is cursor:
                self._end_messages()
                self._opened = None
                chunk.rewind()
                self.queue.put_back(chunk)
            self.queue.make_room()

    def resume(self, cursor: Cursor) -> None:
        with self.lock:
            cursor.paused = False
            self.queue.announce()

    def revoke(self, cursor: Cursor) -> int | None:
        """Hand out nothing more of this partition (H8). Returns its position; None if it never had one."""
        with self.lock:
            self._stop(cursor)
            cursor.revoked = True
            cursor.version += 1
            cursor.fetched = None
            self.queue.forget_errors(cursor)
            self._decoders.forget(cursor)
            return cursor.consumed

    def close(self) -> None:
        """End the iteration: hand out nothing more of any partition."""
        with self.lock:
            self.queue.closed = True
            self._end_messages()
            self.queue.close()

    def _stop(self, cursor: Cursor) -> None:
        """Hand out nothing that was fetched so far; then `consumed` is the cursor's position. With the lock held."""
        if self._opened is not None and self._opened.cursor is cursor:
            self._end_messages()
        self.queue.drop(cursor)

    # --- the queue, for fetchers --------------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        return self.queue.full

    @property
    def waiting(self) -> bool:
        return self.queue.waiting

    def put(
        self, cursor: Cursor, version: int, asked: int, fetched: FetchedPartition, follows: int, lease: Lease
    ) -> bool:
        return self.queue.put(cursor, version, asked, fetched, follows, lease)

    def fail(self, cursor: Cursor, error: BaseException, version: int) -> None:
        self.queue.fail(cursor, error, version)

    def report(self, cursor: Cursor | None, error: BaseException) -> None:
        self.queue.report(cursor, error)

    def wake(self) -> None:
        self.queue.wake()
