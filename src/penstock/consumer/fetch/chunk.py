"""A chunk on a stream's queue: the records of one partition in one response, decoded by whoever reads the stream."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from typing import Any, TypeAlias

from penstock._kernel import Batch
from penstock.consumer.fetch.cursor import Cursor
from penstock.reader.chunk_decoder import ChunkDecoder
from penstock.reader.leftover import place_of
from penstock.wire.api.fetch import FetchedPartition

LAST_OFFSET = 2**63 - 1

DecoderOf: TypeAlias = Callable[[Cursor, tuple[str, ...]], ChunkDecoder]


class Lease:
    """A response's buffer, given back when the last of its chunks is done with. For any thread."""

    def __init__(self, buffer: bytearray, give_back: Callable[[bytearray], None]) -> None:
        self._buffer = buffer
        self._give_back = give_back
        self._holders = 1  # whoever received it
        self._lock = threading.Lock()

    def hold(self) -> Lease:
        with self._lock:
            self._holders += 1
        return self

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            done = self._holders == 0
        if done:
            self._give_back(self._buffer)


class Chunk:
    """Fetched bytes of one partition. Made by a fetcher, read and released by one thread at a time."""

    __slots__ = (
        "_aligned",
        "_batches",
        "_columns",
        "_decoder",
        "_lease",
        "_rest",
        "_uncounted",
        "cursor",
        "end",
        "fetched",
        "rows",
        "size",
        "start",
        "version",
    )

    def __init__(
        self,
        cursor: Cursor,
        fetched: FetchedPartition,
        start: int,
        end: int | None,
        lease: Lease,
        aligned: bool = False,
    ) -> None:
        self.cursor = cursor
        self.version = cursor.version
        self.fetched = fetched
        self.size = len(fetched.records)
        self.start = start
        self.end = end
        """The offset after its last batch, by the headers; None if these do not tell."""
        self._aligned = aligned
        self.rows = 0
        """Of the batch that is handed out as messages."""
        self._uncounted = self.size
        self._lease = lease.hold()
        self._columns: tuple[str, ...] = ()
        self._decoder: ChunkDecoder | None = None
        self._batches: Generator[Batch, None, None] | None = None
        self._rest: tuple[object, Any] | None = None

    @property
    def counts(self) -> bool:
        """Whether it still is what its cursor asked for. With the stream's lock held."""
        return self.version == self.cursor.version

    @property
    def next_offset(self) -> int:
        """The first offset that was not decoded so far."""
        return self.start if self._decoder is None else self._decoder.next_offset

    @property
    def is_used_up(self) -> bool:
        """Whether everything was decoded, as far as that is known without trying."""
        if self._batches is None or self._rest is not None:
            return False
        return self.end is not None and self.next_offset >= self.end

    def next_batch(self, columns: tuple[str, ...], decoder_of: DecoderOf) -> Batch | None:
        """The next batch; None at the end. Called by the reader, without a lock: it works with the GIL released."""
        if self._batches is None or columns != self._columns:
            self.rewind()
            start = max(self.start, self.cursor.consumed or 0)
            self._columns, self._decoder = columns, decoder_of(self.cursor, columns)
            decoder = self._decoder
            at, aligned = self._place(start), self._aligned and start == self.start
            self._batches = decoder.native_batches(self.fetched, start, LAST_OFFSET, at=at, aligned=aligned)
        return next(self._batches, None)

    def keep(self, whose: object, rest: Any) -> None:
        """Of what was decoded last this was not handed out. It is kept for whoever iterates."""
        self._rest = (whose, rest)

    def take_rest(self, whose: object) -> Any:
        """What was kept; None if there is nothing. What was kept for another is decoded again."""
        if self._rest is None:
            return None
        owner, rest = self._rest
        if owner is not whose:
            self.rewind()
            return None
        self._rest = None
        return rest

    def _place(self, offset: int) -> int:
        """Where the rest of a chunk begins whose first part was handed out."""
        if offset == self.start or self.end is None:  # headers that tell no end tell no places
            return 0
        at = place_of(self.fetched.records, offset)
        return self.size if at is None else at

    def take_size(self) -> int:
        """Its bytes, once: for whoever counts them."""
        size, self._uncounted = self._uncounted, 0
        return size

    def rewind(self) -> None:
        """Forget how far it was decoded: the next batch begins at the cursor's position."""
        self._rest = None
        if self._batches is not None:
            self._batches.close()
            self._batches = None

    def release(self) -> None:
        """Let go of the bytes."""
        self.rewind()
        self.fetched.records.release()
        self._lease.release()
