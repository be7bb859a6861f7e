"""A stream's queue of acquired chunks: fetchers put chunks and errors on it, the stream's thread takes them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from penstock.consumer.share.share_chunk import ShareChunk
from penstock.errors import ConsumerTimeout


class ShareQueue:
    """Every method may be called by any thread. Its lock guards the state of the stream's chunks, too."""

    def __init__(self, thread_id: str, bound: int) -> None:
        self.thread_id = thread_id
        self._bound = bound
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        """Notified of chunks, errors, answers and the end."""
        self._chunks: deque[ShareChunk] = deque()
        self._errors: deque[BaseException] = deque()
        self._failure: BaseException | None = None
        self.closed = False
        self.on_room: Callable[[], None] = lambda: None
        """Wakes the fetchers. Set by the connector."""
        self.wait_reason: Callable[[], str] = str
        """Why no message comes, for ConsumerTimeout. Takes no lock. Set by the connector."""

    @property
    def size(self) -> int:
        return len(self._chunks)

    @property
    def room(self) -> int:
        """How many chunks may be acquired for this stream. Locks run while a chunk waits, so the queue is short."""
        return 0 if self.closed else max(0, self._bound - len(self._chunks))

    def put(self, chunk: ShareChunk) -> bool:
        """False if the stream is closed: the chunk was not handed out."""
        with self.lock:
            if self.closed:
                return False
            self._chunks.append(chunk)
            self.changed.notify_all()
            return True

    def report(self, error: BaseException) -> None:
        """Raise an error to the stream's thread while fetching is retried. One that is queued is not queued twice."""
        with self.lock:
            if all(str(other) != str(error) for other in self._errors):
                self._errors.append(error)
                self.changed.notify_all()

    def fail_all(self, error: BaseException) -> None:
        """The connector has ended with this error: every read raises it."""
        with self.lock:
            self._failure = error
            self.changed.notify_all()

    def take(self, deadline: float | None, timeout: float | None) -> ShareChunk | None:
        """Wait for the next chunk whose locks still hold; None after a shutdown. Raises queued errors, and
        ConsumerTimeout."""
        with self.lock:
            while not self.closed:
                if self._failure is not None:
                    raise self._failure.with_traceback(None)
                if self._errors:
                    raise self._errors.popleft().with_traceback(None)
                if self._chunks:
                    chunk = self._chunks.popleft()
                    self.on_room()
                    if not chunk.is_over:
                        return chunk
                    chunk.drop()
                    continue
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise ConsumerTimeout(self.thread_id, timeout or 0.0, self.wait_reason() if timeout else "")
                self.changed.wait(None if left is None else min(left, threading.TIMEOUT_MAX))
            return None

    def close(self) -> list[ShareChunk]:
        """Hand out nothing more. Returns the chunks that were not read."""
        with self.lock:
            self.closed = True
            unread = list(self._chunks)
            self._chunks.clear()
            self.changed.notify_all()
            return unread
