"""A stream's queue of acquired chunks: fetchers put chunks and errors on it, the stream's thread takes them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from penstock.consumer.share.share_chunk import ShareChunk
from penstock.errors import ConsumerTimeout

AHEAD_SECONDS = 0.05
"""A fetch acquires as many records as its stream has read in this time, if those are more than `max.poll.records`.

The broker answers a fetch when it has stored the acknowledgements that came with it. That takes about as long, however
many records the fetch acquires. Measured with four streams that sum up lengths, on two cores: 0.8 to 1.1 M
rows/s with 500 records per free place, 2.0 to 2.8 when fetches grow. Locks last 30 seconds by default, so a fast stream
does not lose them."""

MOST_RECORDS = 2**31 - 1
"""The largest limit that a request can carry."""


class ShareQueue:
    """Every method may be called by any thread. Its lock guards the state of the stream's chunks, too."""

    def __init__(self, thread_id: str, bound: int, max_records: int) -> None:
        """`bound`: how many chunks wait at most. `max_records`: how many records a chunk should have, unless the stream
        is fast."""
        self.thread_id = thread_id
        self._bound = bound
        self._max_records = max_records
        self._taken: tuple[float, int] | None = None
        """When the last chunk was taken, and how many records it has."""
        self._paces: deque[float] = deque(maxlen=2)
        """Records per second of the last chunks that the stream has read."""
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
    def wanted(self) -> int:
        """How many records to acquire for this stream now. Locks run while a chunk waits, so the queue is short."""
        room = 0 if self.closed else self._bound - len(self._chunks)
        if room <= 0:
            return 0
        with self.lock:
            pace = min(self._paces) if len(self._paces) == self._paces.maxlen else 0.0
        return min(max(self._max_records * room, int(pace * AHEAD_SECONDS)), MOST_RECORDS)

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
            self._note_pace()
            while not self.closed:
                if self._failure is not None:
                    raise self._failure.with_traceback(None)
                if self._errors:
                    raise self._errors.popleft().with_traceback(None)
                if self._chunks:
                    chunk = self._chunks.popleft()
                    self.on_room()
                    if not chunk.is_over:
                        self._taken = time.monotonic(), chunk.acquired.last - chunk.acquired.first + 1
                        return chunk
                    chunk.drop()
                    continue
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise ConsumerTimeout(self.thread_id, timeout or 0.0, self.wait_reason() if timeout else "")
                self.changed.wait(None if left is None else min(left, threading.TIMEOUT_MAX))
            return None

    def _note_pace(self) -> None:
        """The stream has read the chunk that it has taken last."""
        if self._taken is not None:
            at, records = self._taken
            self._paces.append(records / max(time.monotonic() - at, 1e-6))
            self._taken = None

    def close(self) -> list[ShareChunk]:
        """Hand out nothing more. Returns the chunks that were not read."""
        with self.lock:
            self.closed = True
            unread = list(self._chunks)
            self._chunks.clear()
            self.changed.notify_all()
            return unread
