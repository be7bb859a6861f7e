"""A chunk on a stream's queue: the records of one partition in one fetch response. The stream's thread decodes it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias

from penstock._kernel import Batch
from penstock.consumer.fetch.cursor import Cursor
from penstock.consumer.fetch.lease import Lease
from penstock.reader.chunk_decoder import ChunkDecoder
from penstock.reader.leftover import find_batch
from penstock.wire.api.fetch import FetchedPartition

LAST_OFFSET = 2**63 - 1

DecoderOf: TypeAlias = Callable[[Cursor, tuple[str, ...]], ChunkDecoder]


class Chunk:
    """Fetched bytes of one partition. A fetcher creates it; one thread at a time reads and releases it."""

    __slots__ = (
        "_at_batch_start",
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
        at_batch_start: bool = False,
    ) -> None:
        self.cursor = cursor
        self.version = cursor.version
        self.fetched = fetched
        self.size = len(fetched.records)
        self.start = start
        self.end = end
        """The offset after its last batch, as the batch headers say; None if they do not reveal it."""
        self._at_batch_start = at_batch_start
        self.rows = 0
        """Rows of the batch that is being handed out as messages."""
        self._uncounted = self.size
        self._lease = lease.hold()
        self._columns: tuple[str, ...] = ()
        self._decoder: ChunkDecoder | None = None
        self._batches: Generator[Batch, None, None] | None = None
        self._rest: tuple[object, Any] | None = None

    @property
    def counts(self) -> bool:
        """Whether its cursor still wants it: no seek, reset or revocation came since. With the stream's lock held."""
        return self.version == self.cursor.version

    @property
    def next_offset(self) -> int:
        """The first offset that is not decoded yet."""
        return self.start if self._decoder is None else self._decoder.next_offset

    @property
    def fully_decoded(self) -> bool:
        """Whether everything is decoded, as far as the batch headers reveal it."""
        if self._batches is None or self._rest is not None:
            return False
        return self.end is not None and self.next_offset >= self.end

    def next_batch(self, columns: tuple[str, ...], decoder_of: DecoderOf) -> Batch | None:
        """Decode the next batch; None at the end. Called without a lock: the kernel releases the GIL."""
        if self._batches is None or columns != self._columns:
            self.rewind()
            start = max(self.start, self.cursor.consumed or 0)
            self._columns, self._decoder = columns, decoder_of(self.cursor, columns)
            decoder = self._decoder
            at, aligned = self._place(start), self._at_batch_start and start == self.start
            self._batches = decoder.native_batches(self.fetched, start, LAST_OFFSET, at=at, aligned=aligned)
        return next(self._batches, None)

    def keep(self, iteration: object, rest: Any) -> None:
        """Keep the part of the last batch that an iteration has not handed out yet."""
        self._rest = (iteration, rest)

    def take_rest(self, iteration: object) -> Any:
        """The part that this iteration kept; None without one. What another iteration kept is decoded again."""
        if self._rest is None:
            return None
        owner, rest = self._rest
        if owner is not iteration:
            self.rewind()
            return None
        self._rest = None
        return rest

    def _place(self, offset: int) -> int:
        """The byte at which the batch of an offset begins."""
        if offset == self.start or self.end is None:  # headers without an end have no usable places either
            return 0
        at = find_batch(self.fetched.records, offset)
        return self.size if at is None else at

    def take_size(self) -> int:
        """Its bytes at the first call, then 0: each chunk counts once."""
        size, self._uncounted = self._uncounted, 0
        return size

    def rewind(self) -> None:
        """Decode again from the cursor's position."""
        self._rest = None
        if self._batches is not None:
            self._batches.close()
            self._batches = None

    def release(self) -> None:
        """Release the bytes."""
        self.rewind()
        self.fetched.records.release()
        self._lease.release()
