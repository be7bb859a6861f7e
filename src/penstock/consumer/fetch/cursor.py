"""A cursor: one assigned partition, with the offsets that fetching and reading have reached."""

from __future__ import annotations

import threading
import uuid
from typing import Protocol

from penstock.consumer.fetch.lease import Lease
from penstock.model.offset_spec import StartMode
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.fetch import FetchedPartition, FetchPosition


class CursorReader(Protocol):
    """The reading side of a stream, as fetchers, the leader finder and the connector see it.

    Every method may be called by any thread.
    """

    @property
    def lock(self) -> threading.RLock:
        """Guards the cursors of the stream."""

    @property
    def thread_id(self) -> str: ...

    # --- fetchers ---

    @property
    def full(self) -> bool:
        """Whether fetchers must leave out the cursors of this stream for now (H4)."""

    @property
    def waiting(self) -> bool:
        """Whether the stream's thread waits for records. Takes no lock."""

    def put(
        self, cursor: Cursor, version: int, asked: int, fetched: FetchedPartition, follows: int, lease: Lease
    ) -> bool:
        """Queue what was fetched for a cursor; False if the cursor no longer wants it (H11)."""

    def fail(self, cursor: Cursor, error: BaseException, version: int) -> None:
        """Raise an error to the stream's thread. Nothing is fetched for the cursor until a seek."""

    def report(self, cursor: Cursor | None, error: BaseException) -> None:
        """Raise an error to the stream's thread while fetching is retried."""

    def wake(self) -> None:
        """Partitions that were held back may continue."""

    # --- positions ---

    def position(self, cursor: Cursor) -> int | None: ...
    def lag(self, cursor: Cursor) -> int | None: ...
    def move(self, cursor: Cursor, offset: int | None) -> None: ...
    def reset(self, cursor: Cursor, offset: int) -> None: ...
    def pause(self, cursor: Cursor) -> None: ...
    def resume(self, cursor: Cursor) -> None: ...
    def revoke(self, cursor: Cursor) -> int | None: ...


class Cursor:
    """Belongs to one stream from its assignment to its revocation. The lock of that stream's reader guards it.

    Life: created with the group's offset, or without a position -> the leader finder resolves a missing position and
    passes the cursor to its leader's fetcher -> the fetcher puts chunks on the stream's queue -> the stream's thread
    hands them out -> revoked.
    """

    __slots__ = (
        "_end_known",
        "_request",
        "answered_at",
        "batch_start",
        "committed",
        "consumed",
        "corrupt_tries",
        "epoch",
        "failed",
        "fetched",
        "held_back",
        "in_use",
        "lost",
        "paused",
        "readable",
        "reader",
        "revoked",
        "start",
        "topic_id",
        "tp",
        "uncommitted_since",
        "version",
    )

    def __init__(self, tp: TopicPartition, reader: CursorReader, position: int | None, epoch: int = -1) -> None:
        self.tp = tp
        self.reader = reader
        self.consumed = position
        """The next offset to hand out; None until it is known."""
        self.fetched = position
        """The next offset to fetch; None while it is unknown: there is no position yet, or only decoding the last chunk
        reveals where it ends."""
        self.start: StartMode | None = None
        """Where to begin without a position; None: where `auto.offset.reset` says."""
        self.version = 0
        """Incremented by every seek, reset and revocation, so that responses to earlier requests are dropped (H11)."""
        self.topic_id: uuid.UUID | None = None
        self.epoch = epoch
        """The leader epoch of the position; -1 if unknown."""
        self.committed: int | None = None
        """The offset that this consumer committed last."""
        self.uncommitted_since: int | None = None
        """The position that the last commit covers, or before the first record that was handed out if there was no
        commit. Records between it and the position are not committed. None: nothing was handed out."""
        self.readable: int | None = None
        """Where reading ends now: the high watermark, or the last stable offset under read_committed."""
        self.paused = False
        """Whether the user paused the partition."""
        self.held_back = False
        """Whether alignment holds the partition back, because its event time is too far ahead of others (E4)."""
        self.failed = False
        """Whether an error was raised to the stream's thread. Nothing is fetched until a seek."""
        self.revoked = False
        """Whether the partition is no longer assigned to this consumer. A revoked cursor is never used again."""
        self.lost = False
        """Whether the broker no longer has the position, so that `auto.offset.reset` decides (H12)."""
        self.corrupt_tries = 0
        self.batch_start: int | None = None
        """An offset at which a batch certainly begins, because the batch before it was fetched."""
        self.answered_at: float | None = None
        """When a broker last answered for this partition (time.monotonic), which made `readable` current. None: not
        since the cursor was moved."""
        self.in_use = False
        """Whether the stream's thread may still work on a batch of this partition that carried event time."""
        self._end_known: tuple[int, float] | None = None
        """The offset at which the partition had nothing to read, and the time of the first answer that said so."""
        self._request: FetchPosition | None = None

    @property
    def waits(self) -> bool:
        """Whether its chunks stay in the queue for now."""
        return self.paused or self.held_back

    def empty_since(self, still_right: float) -> float | None:
        """Since when the partition has had nothing to read. Called by the event-time thread.

        None means that it has records, or that this is unknown because no broker answered after `still_right`: the
        partition is paused, its stream is full, or it has no leader.

        An answer that finds the same end as the answer before proves that no record came in between.
        """
        consumed, readable, answered_at = self.consumed, self.readable, self.answered_at
        if self.in_use or consumed is None or consumed != self.fetched:
            return None
        if readable is None or consumed < readable or answered_at is None:
            return None
        if self._end_known is None or self._end_known[0] != consumed:
            self._end_known = consumed, answered_at
        return self._end_known[1] if answered_at >= still_right else None

    @property
    def wants_more(self) -> bool:
        """Whether to fetch it. A partition that is held back keeps one chunk ready for when it may continue."""
        if self.paused or self.failed:
            return False
        return not self.held_back or self.fetched == self.consumed

    def __repr__(self) -> str:
        return f"Cursor({self.tp}, consumed={self.consumed}, fetched={self.fetched})"

    def move_to(self, offset: int | None) -> None:
        """Fetch and hand out from this offset. Drops what was fetched for the position before."""
        self.version += 1
        self.fetched = self.consumed = offset
        self.batch_start = self.answered_at = self._end_known = None
        self.corrupt_tries = 0
        self.failed = self.lost = False

    def request(self, epoch: int) -> FetchPosition | None:
        """What to request now. Called by the cursor's fetcher.

        Returns the same object while nothing changes: a fetch session recognises an unchanged request by identity.
        """
        offset = self.fetched
        if offset is None:
            return None
        request = self._request
        if (
            request is None
            or request.offset != offset
            or request.topic_id != self.topic_id
            or request.leader_epoch != epoch
        ):
            request = self._request = FetchPosition(self.tp.topic, self.tp.partition, offset, self.topic_id, epoch)
        return request
