"""The contents of one fetch request of a fetcher."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from penstock.consumer.fetch.cursor import Cursor
from penstock.wire.api.fetch import FetchPosition
from penstock.wire.api.fetch_client import Key
from penstock.wire.api.fetch_session import FetchSession


@dataclass(frozen=True, slots=True)
class HeldCursor:
    """A cursor of a fetcher, with the epoch of the leader for which the fetcher got it."""

    cursor: Cursor
    epoch: int


Requested: TypeAlias = tuple[FetchPosition, HeldCursor, int]
"""A position, the cursor that it is for, and the cursor's version when it was asked for."""


class FetchPlan:
    """The contents of one fetch request, and the cursors that it is for."""

    def __init__(self) -> None:
        self.positions: list[FetchPosition] = []
        self.stream_full = False
        """Whether a full stream has left out cursors."""
        self._requested: list[Requested] = []

    def add(self, position: FetchPosition, held: HeldCursor, version: int) -> None:
        self.positions.append(position)
        self._requested.append((position, held, version))

    def note_answer(self, now: float, refused: Collection[Cursor], held_now: Mapping[Cursor, HeldCursor]) -> None:
        """Note the answer for all other cursors that this fetcher still has: in a fetch session a broker leaves out
        partitions without news."""
        for _, held, version in self._requested:
            cursor = held.cursor
            if cursor.version == version and cursor not in refused and held_now.get(cursor) is held:
                cursor.answered_at = now

    def by_key(self, session: FetchSession) -> dict[Key, Requested]:
        """What the request that the session has sent last asks for, as its response names it."""
        return {session.key(each[0]): each for each in self._requested}
