"""A stream's queue (H4): fetchers put chunks and errors on it, the thread that reads the stream takes them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from penstock.consumer.fetch.chunk import Chunk
from penstock.consumer.fetch.cursor import Cursor
from penstock.consumer.fetch.lease import Lease
from penstock.errors import ConsumerTimeout
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.fetch import FetchedPartition

SMALL_CHUNK = 64 << 10
"""Chunks of a slow topic hold a message or two. They count together until they reach this size: counted one by one, two
of them would stop their fetcher until the stream's thread has woken up."""

MAX_CHUNKS = 1000
"""The queue is full with this many chunks, however small they are."""


class ChunkQueue:
    """A queue bounded by chunks. Its lock also guards the cursors whose chunks it holds."""

    def __init__(
        self,
        thread_id: str,
        bound: int,
        on_room: Callable[[], None],
        *,
        holds_back: Callable[[Cursor], bool] | None = None,
        on_records: Callable[[TopicPartition], None] | None = None,
    ) -> None:
        """`on_room` wakes fetchers that left out this stream.

        With event time, `holds_back` decides whether a partition is too far ahead, and `on_records` is notified of
        every partition that has received records. The queue calls both with its lock held.
        """
        self.thread_id = thread_id
        self._bound = bound
        self._on_room = on_room
        self._holds_back = holds_back
        self._on_records = on_records
        self.lock = threading.RLock()
        self._signal = threading.Lock()
        """Released to wake the stream's thread."""
        self.waiting = False
        """Whether the stream's thread waits for `_signal`. Set with the lock held."""
        self._chunks: deque[Chunk] = deque()
        self._errors: deque[tuple[Cursor | None, BaseException]] = deque()
        self._failure: BaseException | None = None
        """The error that ended the connector. Every read raises it."""
        self.closed = False
        self._was_full = False
        """Whether a fetcher has found the queue full since the stream's thread last took a chunk."""
        self.on_ready: Callable[[], None] | None = None
        """Called with the lock held when there is something to read: for readers that cannot block."""
        self.wait_reason: Callable[[], str] = str
        """Why no message comes, for ConsumerTimeout. Takes no lock. Set by the connector."""

    # --- fetchers -----------------------------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Whether fetchers must leave out this stream (H4). `on_room` is called when there is room again."""
        if len(self._chunks) < self._bound:
            return False
        with self.lock:
            sizes = [chunk.size for chunk in self._chunks if not chunk.cursor.waits]
            full = len(sizes) >= self._bound and (sum(sizes) >= self._bound * SMALL_CHUNK or len(sizes) >= MAX_CHUNKS)
            self._was_full |= full
            return full

    @property
    def size(self) -> int:
        """Chunks that the stream's thread can take now. Those of paused and held-back partitions do not count."""
        with self.lock:
            return sum(not chunk.cursor.waits for chunk in self._chunks)

    def put(
        self, cursor: Cursor, version: int, asked: int, fetched: FetchedPartition, follows: int, lease: Lease
    ) -> bool:
        """Queue what was fetched for a cursor at offset `asked`; False if the cursor no longer wants it (H11).

        `follows` is the offset after the chunk, or `asked` if the batch headers do not reveal it.
        """
        with self.lock:
            if self.closed or cursor.revoked or cursor.version != version or cursor.fetched != asked:
                return False
            end = follows if follows > asked else None
            at_batch_start = cursor.batch_start == asked
            self._chunks.append(Chunk(cursor, fetched, asked, end, lease, at_batch_start=at_batch_start))
            cursor.fetched = cursor.batch_start = end
            self.announce()
            if self._on_records is not None:
                self._on_records(cursor.tp)
            return True

    def fail(self, cursor: Cursor, error: BaseException, version: int) -> None:
        """Raise an error to the stream's thread, and fetch nothing for the cursor until a seek."""
        with self.lock:
            if not cursor.revoked and cursor.version == version:
                self.stop_fetching(cursor, error)

    def report(self, cursor: Cursor | None, error: BaseException) -> None:
        """Raise an error to the stream's thread while fetching is retried. An error that is still queued is not queued
        twice."""
        with self.lock:
            known = any(whose is cursor and str(other) == str(error) for whose, other in self._errors)
            if not known and (cursor is None or not cursor.revoked):
                self._errors.append((cursor, error))
                self.announce()

    def fail_all(self, error: BaseException) -> None:
        """The connector has ended with this error: every read raises it."""
        with self.lock:
            self._failure = error
            self.announce()

    def wake(self) -> None:
        """Partitions that were held back may continue."""
        with self.lock:
            self.announce()
        self._on_room()

    # --- the stream's thread and its reader, with the lock held -------------------------------------------------------

    def take(self, deadline: float | None, timeout: float | None) -> Chunk | None:
        """Wait for the next chunk; None after a shutdown. Raises queued errors, and ConsumerTimeout."""
        while not self.closed:
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            if self._errors:
                raise self._errors.popleft()[1].with_traceback(None)
            chunk = self._take_first()
            self.make_room()
            if chunk is not None:
                return chunk
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise ConsumerTimeout(self.thread_id, timeout or 0.0, self.wait_reason() if timeout else "")
            self._wait(left)
        return None

    def _wait(self, seconds: float | None) -> None:
        """Wait for `announce`, which wakes one thread: only one reads a stream. The lock must be held once.

        Not a Condition, which creates a lock for each wait and runs twice as much Python for each message.
        """
        # It is free if an announcement came just after a time-out, or after a signal handler that raised.
        self._signal.acquire(blocking=False)
        self.waiting = True
        self.lock.release()
        try:
            self._signal.acquire(timeout=-1 if seconds is None else min(seconds, threading.TIMEOUT_MAX))
        finally:
            self.lock.acquire()
            self.waiting = False

    def _take_first(self) -> Chunk | None:
        """Remove and return the first chunk that may be handed out."""
        waiting: set[Cursor] = set()
        for at, chunk in enumerate(self._chunks):
            cursor = chunk.cursor
            if cursor.paused or cursor in waiting:
                continue
            if self.holds_back(cursor):
                # Asked again for the cursor's next chunk, the answer could differ, and that chunk would overtake this
                # one.
                waiting.add(cursor)
                continue
            del self._chunks[at]
            return chunk
        return None

    def holds_back(self, cursor: Cursor) -> bool:
        """Whether alignment holds a partition back now (E4)."""
        return self._holds_back is not None and self._holds_back(cursor)

    def put_back(self, chunk: Chunk) -> None:
        """Make a chunk the next one of its partition again."""
        self._chunks.appendleft(chunk)

    def has_chunks_of(self, cursor: Cursor) -> bool:
        return any(chunk.cursor is cursor for chunk in self._chunks)

    def drop(self, cursor: Cursor) -> None:
        """Remove a cursor's chunks."""
        for chunk in [chunk for chunk in self._chunks if chunk.cursor is cursor]:
            self._chunks.remove(chunk)
            chunk.release()
        self.make_room()

    def make_room(self) -> None:
        """Wake the fetchers that found the queue full."""
        if self._was_full:
            self._was_full = False
            self._on_room()

    def announce(self) -> None:
        """Wake the stream's thread."""
        if self.waiting:
            self.waiting = False
            self._signal.release()
        if self.on_ready is not None:
            self.on_ready()

    def stop_fetching(self, cursor: Cursor, error: BaseException) -> None:
        """Raise an error to the stream's thread, and fetch nothing for the cursor until a seek."""
        cursor.failed = True
        self._errors.append((cursor, error))
        self.announce()

    def forget_errors(self, cursor: Cursor) -> None:
        kept = [(whose, error) for whose, error in self._errors if whose is not cursor]
        self._errors.clear()
        self._errors.extend(kept)

    def close(self) -> None:
        """Drop all chunks, and wake the stream's thread: it reads nothing more."""
        self.closed = True
        for chunk in self._chunks:
            chunk.release()
        self._chunks.clear()
        self.announce()
