"""Leftovers: the records that the last response of a range held beyond it, kept for the range that follows.

A range seldom ends where a response does, and the next micro-batch begins where the last one ended. Spark reuses its
workers for several tasks, so the worker that gets the next range may already hold its first bytes. If it holds them
all, it reads the range without a broker. A leftover serves every range that begins inside it, not only one that begins
at its first offset: Spark gives tasks to its idle workers in turn, so each worker sees every n-th micro-batch.

A leftover is used only for ranges of the same client settings, topic id and leader epoch. A new leader may have
truncated the log and given the offsets to other records. Old brokers send no topic id or no leader epoch: then nothing
is kept.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from dataclasses import dataclass, replace
from typing import TypeAlias

from penstock.model.offset_range import OffsetRange
from penstock.wire.api.fetch import FetchedPartition
from penstock.wire.batch_headers import producer_id, scan_headers
from penstock.wire.client_config import ClientConfig

KEPT_BYTES = 32 << 20
"""Per process. With small ranges, a leftover has a quarter of a megabyte: these are the leftovers of some hundred
partitions. Sixteen workers on one machine hold half a gigabyte at most."""

KEPT_SECONDS = 60.0
"""Spark ends a worker that had no task for a minute. A plain Python program gets its memory back after that time."""

ESTIMATES_KEPT = 10_000
"""Partitions whose bytes per offset are remembered: a few megabytes at most."""

Key: TypeAlias = tuple[ClientConfig, str, uuid.UUID | None, int]


@dataclass(frozen=True, slots=True)
class Leftover:
    """A part of a fetched chunk that owns its memory: the records of offsets [start, stop)."""

    chunk: FetchedPartition
    at: int
    """First byte of the batch that holds `start`. Before it are only the markers of earlier transactions."""
    start: int
    stop: int
    """End of the last whole batch that was readable when this was fetched."""
    leader_epoch: int

    @classmethod
    def of(
        cls, fetched: FetchedPartition, at: int, start: int, end: int, *, leader_epoch: int, read_committed: bool
    ) -> Leftover:
        """Copy a chunk from byte `at` on, the first byte of the batch that holds offset `start`."""
        before = _markers(fetched, at) if read_committed and fetched.aborted else b""
        own = memoryview(b"".join((before, fetched.records[at:])))
        stop = min(end, fetched.readable(read_committed))
        return cls(replace(fetched, records=own), len(before), start, stop, leader_epoch)

    def starting_at(self, offset: int) -> Leftover | None:
        """The same records from `offset` on; None if no batch reaches that far."""
        at = find_batch(self.chunk.records, offset, self.at)
        return None if at is None else replace(self, at=at, start=offset)


def find_batch(records: memoryview, offset: int, at: int = 0) -> int | None:
    """First byte of the batch that holds an offset, or of the first batch after it; None if there is none."""
    return next((header.at for header in scan_headers(records, 0, at, whole=True) if header.last >= offset), None)


def _markers(fetched: FetchedPartition, end: int) -> bytes:
    """The transaction markers before byte `end` of producers with aborted transactions.

    The list of aborted transactions has the first offset of each; only its marker tells where it ended. Without the
    markers before it, a leftover would drop a committed transaction of a producer whose previous one was aborted.
    """
    producers = {producer for producer, _ in fetched.aborted}
    return b"".join(
        fetched.records[header.at : header.at + header.size]
        for header in scan_headers(fetched.records[:end], 0, whole=True)
        if header.is_control and producer_id(fetched.records, header) in producers
    )


class Leftovers:
    """The leftovers of this process, one per partition, and the bytes per offset there. For any thread."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        """Start empty, also in a forked process: there the lock may be held by a thread that no longer exists."""
        self._lock = threading.Lock()
        self._kept: dict[Key, tuple[float, Leftover]] = {}  # the oldest first
        self._bytes = 0
        self._sweeper: threading.Timer | None = None
        self._bytes_per_offset: dict[Key, float] = {}

    def keep(self, config: ClientConfig, range_: OffsetRange, leftover: Leftover) -> None:
        """Keep the records beyond a range. They replace the leftover of the same partition."""
        size = len(leftover.chunk.records)
        if leftover.stop <= leftover.start or size > KEPT_BYTES:
            return
        if range_.topic_id is None or leftover.leader_epoch < 0:
            return
        key = _key(config, range_)
        with self._lock:
            self._drop(key)
            self._kept[key] = (time.monotonic(), leftover)
            self._bytes += size
            while self._bytes > KEPT_BYTES:
                self._drop(next(iter(self._kept)))
            self._start_sweeper()

    def take(self, config: ClientConfig, range_: OffsetRange) -> Leftover | None:
        """Remove and return the leftover that holds the first offset of a range, from that offset on."""
        key = _key(config, range_)
        with self._lock:
            kept_at, leftover = self._kept.get(key, (0.0, None))
            if leftover is None:
                return None
            valid = leftover.leader_epoch == range_.leader_epoch and time.monotonic() - kept_at < KEPT_SECONDS
            if valid and not leftover.start <= range_.start < leftover.stop:
                return None  # it stays: another range may begin in it
            self._drop(key)
        return leftover.starting_at(range_.start) if valid else None

    def note_bytes_per_offset(self, config: ClientConfig, range_: OffsetRange, bytes_per_offset: float) -> None:
        key = _key(config, range_)
        with self._lock:
            self._bytes_per_offset.pop(key, None)
            self._bytes_per_offset[key] = bytes_per_offset
            if len(self._bytes_per_offset) > ESTIMATES_KEPT:
                del self._bytes_per_offset[next(iter(self._bytes_per_offset))]

    def bytes_per_offset(self, config: ClientConfig, range_: OffsetRange, otherwise: float) -> float:
        """The last noted value of this partition."""
        key = _key(config, range_)
        with self._lock:
            return self._bytes_per_offset.get(key, otherwise)

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

    def _drop(self, key: Key) -> None:
        """With the lock held."""
        _, leftover = self._kept.pop(key, (0.0, None))
        if leftover is not None:
            self._bytes -= len(leftover.chunk.records)

    def _start_sweeper(self) -> None:
        """With the lock held: start the timer that drops the oldest leftover."""
        if self._sweeper is None and self._kept:
            oldest, _ = next(iter(self._kept.values()))
            self._sweeper = threading.Timer(max(0.0, oldest + KEPT_SECONDS - time.monotonic()), self._sweep)
            self._sweeper.name, self._sweeper.daemon = "penstock-leftovers", True
            self._sweeper.start()

    def _sweep(self) -> None:
        """Runs in the timer's thread, which exists only while something is kept."""
        with self._lock:
            if threading.current_thread() is not self._sweeper:
                return
            old = time.monotonic() - KEPT_SECONDS
            for key in [key for key, (kept_at, _) in self._kept.items() if kept_at <= old]:
                self._drop(key)
            self._sweeper = None
            self._start_sweeper()


def _key(config: ClientConfig, range_: OffsetRange) -> Key:
    return config, range_.topic, range_.topic_id, range_.partition


LEFTOVERS = Leftovers()
os.register_at_fork(after_in_child=LEFTOVERS._reset)
