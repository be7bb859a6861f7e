"""A stream's queue (H4): chunks, put by fetchers and taken by the one thread that reads; and errors it is to meet."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from penstock.consumer.fetch.chunk import Chunk, Lease
from penstock.consumer.fetch.cursor import Cursor
from penstock.errors import ConsumerTimeout
from penstock.wire.api.fetch import FetchedPartition

SMALL_CHUNK = 64 << 10
"""Chunks of a trickle, a message or two each, count together until they come to this size. Counted one by one, two of
them would hold their fetcher back until the reader has woken up."""

MOST_CHUNKS = 1000
"""However small they are."""


class ChunkQueue:
    """Bounded by chunks. Its lock guards the cursors whose chunks it holds, too."""

    def __init__(self, thread_id: str, bound: int, on_room: Callable[[], None]) -> None:
        self.thread_id = thread_id
        self._bound = bound
        self._on_room = on_room
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._queue: deque[Chunk] = deque()
        self._errors: deque[tuple[Cursor | None, BaseException]] = deque()
        self._failure: BaseException | None = None
        """What has ended the connector: raised again and again."""
        self._closed = False
        self._held_back = False
        """Whether a fetcher has found the queue full since the reader took something from it."""
        self.on_ready: Callable[[], None] | None = None
        """Called, with the lock held, when there is something for the reader: for readers that cannot block."""

    # --- filling: fetchers ------------------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Whether its fetchers must hold back (H4): they are told when there is room again."""
        if len(self._queue) < self._bound:
            return False
        with self.lock:
            sizes = [chunk.size for chunk in self._queue if not chunk.cursor.waits]
            full = len(sizes) >= self._bound and (sum(sizes) >= self._bound * SMALL_CHUNK or len(sizes) >= MOST_CHUNKS)
            self._held_back |= full
            return full

    @property
    def queue_size(self) -> int:
        """Chunks that wait for the reader; those of paused partitions wait for somebody else, and so do those of
        partitions that are held back."""
        with self.lock:
            return sum(not chunk.cursor.waits for chunk in self._queue)

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

    # --- emptying: the reader, with the lock held ---------------------------------------------------------------------

    def _take(self, deadline: float | None, timeout: float | None) -> Chunk | None:
        """Wait for the next chunk. None after a shutdown; raises what was met in fetching, and the time-out."""
        while not self._closed:
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            if self._errors:
                raise self._errors.popleft()[1].with_traceback(None)
            chunk = self._first()
            self._make_room()
            if chunk is not None:
                return chunk
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise ConsumerTimeout(self.thread_id, timeout or 0.0)
            self._changed.wait(left)
        return None

    def _first(self) -> Chunk | None:
        """Take the first chunk that may be handed out from the queue."""
        waiting: set[Cursor] = set()
        for at, chunk in enumerate(self._queue):
            cursor = chunk.cursor
            if cursor.paused or cursor in waiting:
                continue
            if self._must_wait(cursor):
                # Asked again for its next chunk it might say otherwise, and that one would come before this one.
                waiting.add(cursor)
                continue
            del self._queue[at]
            return chunk
        return None

    def _must_wait(self, cursor: Cursor) -> bool:
        """Whether nothing of a cursor may be handed out now. With the lock held."""
        return False

    def wake(self) -> None:
        """What was held back may go on."""
        with self.lock:
            self._announce()
        self._on_room()

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
