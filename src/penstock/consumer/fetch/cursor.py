"""One partition of this consumer: where fetching stands, and where reading stands."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.fetch import FetchPosition

if TYPE_CHECKING:
    from penstock.consumer.stream.stream import Stream


class Cursor:
    """Belongs to one stream from its assignment to its release, and is guarded by that stream's lock.

    Life: made without a position, or with the group's -> the leader finder resolves a missing position and hands it to
    its leader's fetcher -> chunks are put on the stream's queue -> the stream's reader hands them out -> released.
    """

    __slots__ = (
        "_ask",
        "_end_known",
        "ahead",
        "aligned",
        "answered",
        "committed",
        "consumed",
        "corrupt_tries",
        "epoch",
        "fetched",
        "in_hand",
        "lost",
        "parked",
        "paused",
        "readable",
        "released",
        "stream",
        "topic_id",
        "tp",
        "version",
    )

    def __init__(self, tp: TopicPartition, stream: Stream, position: int | None, epoch: int = -1) -> None:
        self.tp = tp
        self.stream = stream
        self.consumed = position
        """The next offset to hand out; None until it is known."""
        self.fetched = position
        """The next offset to fetch; None while it is unknown: no position yet, or a chunk that only decoding tells the
        end of."""
        self.version = 0
        """Moves with every seek, reset and release: what was asked for before counts no more (H11)."""
        self.topic_id: uuid.UUID | None = None
        self.epoch = epoch
        """The leader epoch under which the position was reached; -1 if unknown."""
        self.committed: int | None = None
        """What this consumer has committed last."""
        self.readable: int | None = None
        """Where reading ends now: the high watermark, or the last stable offset under read_committed."""
        self.paused = False
        """Whether the user said so."""
        self.ahead = False
        """Whether it is held back, because its event time is too far ahead of that of others. See EventTime.holds."""
        self.parked = False
        """Whether an error has reached the reader: nothing is fetched until somebody seeks."""
        self.released = False
        """Whether it is this consumer's no more: nothing brings it back."""
        self.lost = False
        """Whether its position is gone, so that the reset rule must say another one (H12)."""
        self.corrupt_tries = 0
        self.aligned: int | None = None
        """An offset where a batch begins for sure: the one before it was read."""
        self.answered: float | None = None
        """When its broker last answered for it (time.monotonic), so that `readable` was right; None: not since it was
        moved."""
        self.in_hand = False
        """Whether a batch of it was handed out with whose records the reader may not be done."""
        self._end_known: tuple[int, float] | None = None
        """The offset at which there was nothing to read, and the first answer that said so."""
        self._ask: FetchPosition | None = None

    @property
    def waits(self) -> bool:
        """Whether nothing of it is handed out for now, and what was fetched of it waits."""
        return self.paused or self.ahead

    def nothing_since(self, still_right: float) -> float | None:
        """Since when there has been nothing to read. None: there are records, or nobody knows, because its broker was
        last asked before `still_right`: it is paused, its stream is full, its leader is gone.

        An answer tells of the time before it, too: if it finds the end where the one before did, nothing came in
        between. Called by the thread of event time.
        """
        consumed, readable, answered = self.consumed, self.readable, self.answered
        if (
            self.in_hand
            or consumed is None
            or consumed != self.fetched
            or readable is None
            or consumed < readable
            or answered is None
        ):
            return None
        if self._end_known is None or self._end_known[0] != consumed:
            self._end_known = consumed, answered
        return self._end_known[1] if answered >= still_right else None

    @property
    def wants_more(self) -> bool:
        """Whether to fetch it. One that is held back is to have one chunk at hand when it may go on."""
        if self.paused or self.parked:
            return False
        return not self.ahead or self.fetched == self.consumed

    def __repr__(self) -> str:
        return f"Cursor({self.tp}, consumed={self.consumed}, fetched={self.fetched})"

    def move_to(self, offset: int | None) -> None:
        """Fetch and hand out from there; what was fetched for another position counts no more."""
        self.version += 1
        self.fetched = self.consumed = offset
        self.aligned = self.answered = self._end_known = None
        self.corrupt_tries = 0
        self.parked = self.lost = False

    def ask(self, epoch: int) -> FetchPosition | None:
        """What to ask for now; the same object as long as it is the same, by which a session knows that. Called by the
        cursor's fetcher."""
        offset = self.fetched
        if offset is None:
            return None
        ask = self._ask
        if ask is None or ask.offset != offset or ask.topic_id != self.topic_id or ask.leader_epoch != epoch:
            ask = self._ask = FetchPosition(self.tp.topic, self.tp.partition, offset, self.topic_id, epoch)
        return ask
