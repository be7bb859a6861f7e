"""Tails: what the last response of a range held beyond it, kept for the range that follows.

A range seldom ends where a response does, and the next micro-batch begins where the last one ended. Spark's workers
live on from task to task, so the one that gets that range may hold its first bytes already; if it holds them all, the
range is read without a broker. A tail serves every range that begins inside it, not only the one that begins where
it does: Spark hands tasks to its idle workers in turn, so each sees every n-th micro-batch.

A tail is used only for ranges of the same client settings, topic id and leader epoch: a new epoch may have cut the log
and given the offsets to other records. Where a broker is too old to tell these two, nothing is kept.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from dataclasses import dataclass, replace

from penstock.model.offset_range import OffsetRange
from penstock.wire.api.fetch import FetchedPartition
from penstock.wire.batch_headers import producer_id, scan_headers
from penstock.wire.client_config import ClientConfig

TAILS_KEPT_BYTES = 32 << 20
"""Per process. Where ranges are small a tail has a quarter of a megabyte, so these are the tails of some hundred
partitions, and sixteen workers on one machine hold half a gigabyte at the very most."""

TAIL_SECONDS = 60.0
"""Spark ends a worker that had no task for a minute. A plain Python program gets its memory back after that time."""

ESTIMATES_KEPT = 10_000
"""Partitions whose bytes per offset are remembered: a few megabytes at most."""

Place = tuple[ClientConfig, str, uuid.UUID | None, int]


@dataclass(frozen=True, slots=True)
class Tail:
    """A part of a fetched chunk that owns its memory: the records of offsets `start` to `stop`."""

    chunk: FetchedPartition
    at: int
    """The byte where the batch that holds `start` begins. Before it lies only what the decoder needs to know of
    transactions that ended earlier."""
    start: int
    stop: int
    """The end of the last whole batch, and of what a consumer was allowed to read when this was fetched."""
    leader_epoch: int

    @classmethod
    def of(
        cls, fetched: FetchedPartition, at: int, start: int, end: int, *, leader_epoch: int, read_committed: bool
    ) -> Tail:
        """Copy a chunk from byte `at` on, where the batch that holds offset `start` begins."""
        before = _markers(fetched, at) if read_committed and fetched.aborted else b""
        own = memoryview(b"".join((before, fetched.records[at:])))
        stop = min(end, fetched.readable(read_committed))
        return cls(replace(fetched, records=own), len(before), start, stop, leader_epoch)

    def moved_to(self, offset: int) -> Tail | None:
        """The same from `offset` on; None if no batch reaches that far."""
        at = place_of(self.chunk.records, offset, self.at)
        return None if at is None else replace(self, at=at, start=offset)


def place_of(records: memoryview, offset: int, at: int = 0) -> int | None:
    """The byte where the batch begins that holds an offset, or the first one behind it; None if there is none."""
    return next((header.at for header in scan_headers(records, 0, at, whole=True) if header.last >= offset), None)


def _markers(fetched: FetchedPartition, end: int) -> bytes:
    """The transaction markers before byte `end` of producers that have aborted something.

    The list of aborted transactions says where each begins, and only its marker where it ended. A tail without the
    markers before it would drop a committed transaction of a producer whose last one was aborted.
    """
    producers = {producer for producer, _ in fetched.aborted}
    return b"".join(
        fetched.records[header.at : header.at + header.size]
        for header in scan_headers(fetched.records[:end], 0, whole=True)
        if header.is_control and producer_id(fetched.records, header) in producers
    )


class Tails:
    """The tails of this process, one per partition, and how many bytes an offset took there. For any thread."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Begin empty. Also after a fork: the lock may be held by a thread that did not come along."""
        self._lock = threading.Lock()
        self._kept: dict[Place, tuple[float, Tail]] = {}  # in the order of age, the oldest first
        self._bytes = 0
        self._sweeper: threading.Timer | None = None
        self._bytes_per_offset: dict[Place, float] = {}

    def keep(self, config: ClientConfig, range_: OffsetRange, tail: Tail) -> None:
        """Keep what lies beyond a range, in place of what was kept of its partition."""
        size = len(tail.chunk.records)
        if tail.stop <= tail.start or size > TAILS_KEPT_BYTES:
            return
        if range_.topic_id is None or tail.leader_epoch < 0:
            return
        place = _place(config, range_)
        with self._lock:
            self._drop(place)
            self._kept[place] = (time.monotonic(), tail)
            self._bytes += size
            while self._bytes > TAILS_KEPT_BYTES:
                self._drop(next(iter(self._kept)))
            self._await_age()

    def take(self, config: ClientConfig, range_: OffsetRange) -> Tail | None:
        """The tail that holds the first offset of a range, from there on. It is the taker's."""
        place = _place(config, range_)
        with self._lock:
            kept_at, tail = self._kept.get(place, (0.0, None))
            if tail is None:
                return None
            valid = tail.leader_epoch == range_.leader_epoch and time.monotonic() - kept_at < TAIL_SECONDS
            if valid and not tail.start <= range_.start < tail.stop:
                return None  # another range may begin in it
            self._drop(place)
        return tail.moved_to(range_.start) if valid else None

    def note_bytes_per_offset(self, config: ClientConfig, range_: OffsetRange, bytes_per_offset: float) -> None:
        place = _place(config, range_)
        with self._lock:
            self._bytes_per_offset.pop(place, None)
            self._bytes_per_offset[place] = bytes_per_offset
            if len(self._bytes_per_offset) > ESTIMATES_KEPT:
                del self._bytes_per_offset[next(iter(self._bytes_per_offset))]

    def bytes_per_offset(self, config: ClientConfig, range_: OffsetRange, otherwise: float) -> float:
        """As noted last for this partition."""
        place = _place(config, range_)
        with self._lock:
            return self._bytes_per_offset.get(place, otherwise)

    @property
    def kept_bytes(self) -> int:
        return self._bytes

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._bytes = 0
            self._bytes_per_offset.clear()
            if self._sweeper is not None:
                self._sweeper.cancel()
                self._sweeper = None

    def _drop(self, place: Place) -> None:
        """With the lock held."""
        _, tail = self._kept.pop(place, (0.0, None))
        if tail is not None:
            self._bytes -= len(tail.chunk.records)

    def _await_age(self) -> None:
        """With the lock held: see to it that the oldest tail goes when its time has come."""
        if self._sweeper is None and self._kept:
            oldest, _ = next(iter(self._kept.values()))
            self._sweeper = threading.Timer(max(0.0, oldest + TAIL_SECONDS - time.monotonic()), self._sweep)
            self._sweeper.name, self._sweeper.daemon = "penstock-idle-tails", True
            self._sweeper.start()

    def _sweep(self) -> None:
        """Runs in the sweeper's thread, which lives only while something is kept."""
        with self._lock:
            if threading.current_thread() is not self._sweeper:
                return
            old = time.monotonic() - TAIL_SECONDS
            for place in [place for place, (kept_at, _) in self._kept.items() if kept_at <= old]:
                self._drop(place)
            self._sweeper = None
            self._await_age()


def _place(config: ClientConfig, range_: OffsetRange) -> Place:
    return config, range_.topic, range_.topic_id, range_.partition


TAILS = Tails()
os.register_at_fork(after_in_child=TAILS._forget)
