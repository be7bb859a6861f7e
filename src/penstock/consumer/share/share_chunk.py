"""A chunk of acquired records: fetched bytes of one partition, and the state of each acquired offset.

A fetcher creates it, the thread of one stream decodes it, and acknowledgements go back through its fetcher. The bytes
may hold records that were not acquired: they belong to other members, and are left out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from penstock._kernel import Batch
from penstock.consumer.fetch.lease import Lease
from penstock.consumer.share.acquired_records import AcquiredRecords
from penstock.consumer.share.share_partition import SharePartition
from penstock.model.acknowledgement import AckBatch, AcknowledgeType, AcquiredRange
from penstock.reader.chunk_decoder import ChunkDecoder
from penstock.reader.leftover import find_batch
from penstock.wire.api.fetch import FetchedPartition

NO_LIMIT = 2**63 - 1

DecoderOf: TypeAlias = Callable[[SharePartition, tuple[str, ...]], ChunkDecoder]


class Acknowledger(Protocol):
    """Sends acknowledgements: the fetcher of the chunk's broker. Any thread may call every method."""

    def acknowledged(self, chunk: ShareChunk) -> None:
        """Records of a chunk were acknowledged."""

    def flush(self) -> None:
        """Send all acknowledgements now."""

    @property
    def knows_renewals(self) -> bool:
        """Whether the broker can renew locks."""


class AcknowledgementResults(Protocol):
    """Gets the broker's answers: the reader of the chunk's stream. Fetchers call it with the lock of that stream."""

    lock: threading.RLock

    def answered(self, chunk: ShareChunk, error: Exception | None) -> None: ...


@dataclass(slots=True)
class Piece:
    """Decoded records of a chunk, all of them acquired."""

    native: Batch
    records: pa.RecordBatch
    end: int
    """The offset after it."""


class ShareChunk:
    """One thread at a time decodes it. The lock of its stream guards the state of its records."""

    __slots__ = (
        "_batches",
        "_columns",
        "_decoder",
        "_is_released",
        "_lease",
        "_position",
        "acquired",
        "alone",
        "deadline",
        "fetched",
        "fetcher",
        "in_flight",
        "lost",
        "partition",
        "results",
        "size",
        "unsent_since",
    )

    def __init__(
        self,
        partition: SharePartition,
        records: memoryview,
        ranges: Sequence[AcquiredRange],
        lease: Lease,
        deadline: float,
        fetcher: Acknowledger,
    ) -> None:
        """`deadline`: the time (monotonic) at which the locks end. Later no record is handed out."""
        tp = partition.tp
        self.partition = partition
        self.fetched = FetchedPartition(tp.topic, tp.partition, 0, NO_LIMIT, NO_LIMIT, [], -1, records)
        self.acquired = AcquiredRecords(ranges)
        self.deadline = deadline
        self.fetcher = fetcher
        self.results: AcknowledgementResults | None = None
        self.size = len(records)
        self.lost = False
        """Whether the session that acquired the records has ended: they are not acquired any more."""
        self.alone = False
        """Whether its acknowledgements are sent without those of other chunks: the broker has refused them together."""
        self.in_flight = 0
        """Requests with acknowledgements of this chunk that are not answered."""
        self.unsent_since: float | None = None
        """Since when acknowledgements wait to be sent."""
        self._lease = lease.hold()
        self._is_released = False
        self._columns: tuple[str, ...] = ()
        self._decoder: ChunkDecoder | None = None
        self._batches: Generator[Batch, None, None] | None = None
        self._position = self.acquired.first

    def __repr__(self) -> str:
        return f"ShareChunk({self.partition.tp}, {self.acquired.first} to {self.acquired.last})"

    @property
    def lock(self) -> threading.RLock:
        assert self.results is not None, "set when the chunk is put on a queue"
        return self.results.lock

    @property
    def is_unanswered(self) -> bool:
        """Whether acknowledgements are not sent, or not answered."""
        return self.in_flight > 0 or (not self.lost and self.acquired.has_unsent)

    def take_size(self) -> int:
        """Its bytes at the first call, then 0: each chunk counts once."""
        size, self.size = self.size, 0
        return size

    @property
    def is_over(self) -> bool:
        """Whether its records must not be handed out any more."""
        return self.lost or time.monotonic() >= self.deadline

    # --- decoding: the stream's thread --------------------------------------------------------------------------------

    def next_piece(self, columns: tuple[str, ...], decoder_of: DecoderOf, lock: threading.RLock) -> Piece | None:
        """Decode the next records that are still acquired; None at the end. `columns` must have the offset."""
        if self._batches is None or columns != self._columns:
            self.rewind()
            self._columns, self._decoder = columns, decoder_of(self.partition, columns)
            at = find_batch(self.fetched.records, self._position)
            self._batches = self._decoder.native_batches(
                self.fetched, self._position, self.acquired.last + 1, at=len(self.fetched.records) if at is None else at
            )
        assert self._decoder is not None
        for native in self._batches:
            begin, self._position = self._position, min(self._decoder.next_offset, self.acquired.last + 1)
            with lock:
                piece = self._acquired_of(native, begin, self._position)
            if piece is not None:
                return piece
        with lock:
            self.acquired.settle(self._position, self.acquired.last + 1, AcknowledgeType.GAP)
        self._position = self.acquired.last + 1
        return None

    def _acquired_of(self, native: Batch, begin: int, end: int) -> Piece | None:
        """The records of a batch that are acquired; offsets of [begin, end) without one are gaps."""
        records = pa.record_batch(native)
        if records.num_rows == end - begin and self.acquired.are_all_open(begin, end):
            return Piece(native, records, end)
        offsets = records.column("offset").to_pylist()
        self.acquired.settle_absent(begin, end, offsets, AcknowledgeType.GAP)
        are_open = self.acquired.open_of(offsets)
        if not any(are_open):
            return None
        if not all(are_open):
            records = records.filter(pa.array(are_open))
            native = Batch.from_arrow(records)
        return Piece(native, records, end)

    def rewind(self) -> None:
        """Decode again, from the first record that was not handed out."""
        if self._batches is not None:
            self._batches.close()
            self._batches = None
        self._position = self.acquired.handed

    def release_bytes(self) -> None:
        """Release the fetched bytes. Acknowledgements may follow."""
        if self._batches is not None:
            self._batches.close()
            self._batches = None
        if not self._is_released:
            self._is_released = True
            self.fetched.records.release()
            self._lease.release()

    # --- acknowledging: with the lock of the stream -------------------------------------------------------------------

    def note_unsent(self) -> None:
        """Records may have been acknowledged: tell the fetcher."""
        if self.lost or not self.acquired.has_unsent:
            return
        if self.unsent_since is None:
            self.unsent_since = time.monotonic()
            self.fetcher.acknowledged(self)
        elif self.acquired.are_acknowledged:
            self.fetcher.acknowledged(self)

    def take(self) -> list[AckBatch]:
        """The acknowledgements to send now. Call `answered` or `unanswered` after."""
        batches = self.acquired.take()
        self.unsent_since = None
        if batches:
            self.in_flight += 1
        return batches

    def unanswered(self, batches: Sequence[AckBatch], *, alone: bool = False) -> None:
        """The broker has not carried out these acknowledgements: send them again. `alone`: without other chunks."""
        self.in_flight -= 1
        self.alone = self.alone or alone
        if not self.lost:
            self.acquired.give_back(batches)
            self.unsent_since = time.monotonic()

    def answered(self, error: Exception | None) -> None:
        """The broker has carried out or refused acknowledgements that were taken."""
        self.in_flight -= 1
        if self.results is not None:
            self.results.answered(self, error)

    def lose(self, error: Exception) -> None:
        """The session has ended, and with it the locks."""
        if self.lost:
            return
        unsent = self.acquired.has_unsent
        self.lose_locks()
        if self.results is not None and unsent:
            self.results.answered(self, error)

    def drop(self) -> None:
        """Its locks have ended before a record was handed out: the broker delivers them again."""
        self.lose_locks()
        self.release_bytes()
        self.fetcher.acknowledged(self)

    def lose_locks(self) -> None:
        self.lost, self.unsent_since = True, None
        self.acquired.lose()

    @property
    def is_done(self) -> bool:
        """Whether nothing more can be acknowledged, and everything is answered."""
        return self.in_flight == 0 and (self.lost or self.acquired.are_settled)
