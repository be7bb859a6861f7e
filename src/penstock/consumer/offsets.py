"""Positions, commits and seeks of a consumer's partitions (H11, H15)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import index
from typing import Protocol, SupportsIndex

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.assigned_partitions import AssignedPartitions, checked_partition
from penstock.consumer.fetch.chunk import LAST_OFFSET
from penstock.consumer.fetch.cursor import Cursor
from penstock.errors import PenstockError
from penstock.metrics.consumer_counters import ConsumerCounters
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_member import GroupMember


class GroupCommits(Protocol):
    """Commits offsets in the group: a `Membership`."""

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        epochs: Mapping[TopicPartition, int] | None = None,
        timeout: float | None = None,
    ) -> None: ...

    def member_for(self, partitions: Collection[TopicPartition]) -> GroupMember: ...


class Offsets:
    """Every method may be called by any thread."""

    def __init__(
        self,
        config: ConsumerConfig,
        assigned: AssignedPartitions,
        counters: ConsumerCounters,
        group: Callable[[], GroupCommits | None],
        wake_fetchers: Callable[[], None],
    ) -> None:
        """`group` returns None before the connector has streams."""
        self._config = config
        self._assigned = assigned
        self._counters = counters
        self._group = group
        self.wake_fetchers = wake_fetchers
        self._committing = threading.Lock()

    # --- positions ----------------------------------------------------------------------------------------------------

    def positions(self) -> dict[TopicPartition, int]:
        """The next offset to hand out of each partition whose position is known."""
        return _positions(self._assigned.with_starting())

    def lag(self) -> dict[TopicPartition, int]:
        """The records that wait in each partition that was fetched already."""
        lags = {cursor.tp: cursor.reader.lag(cursor) for cursor in self._assigned.in_order()}
        return {tp: lag for tp, lag in lags.items() if lag is not None}

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Continue from other offsets. Also fetches partitions again that an error had stopped."""
        for cursor, offset in [(self._assigned.cursor(tp), _checked_offset(tp, at)) for tp, at in offsets.items()]:
            cursor.reader.move(cursor, offset)
        self.wake_fetchers()

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        for cursor in [self._assigned.cursor(tp) for tp in partitions]:
            cursor.reader.pause(cursor)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        for cursor in [self._assigned.cursor(tp) for tp in partitions]:
            cursor.reader.resume(cursor)
        self.wake_fetchers()

    def paused(self) -> list[TopicPartition]:
        return [cursor.tp for cursor in self._assigned.with_starting() if cursor.paused]

    # --- commits ------------------------------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, int] | None) -> None:
        """Commit these offsets, or the current positions."""
        checked = None if offsets is None else self.checked(offsets)
        self._commit(checked, self._config.client.api_timeout, changed_only=False)

    @staticmethod
    def checked(offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """A user's offsets. Raises TypeError or ValueError for a wrong partition or offset."""
        return {checked_partition(tp): _checked_offset(tp, offset) for tp, offset in offsets.items()}

    def commit_changed(self, timeout: float | None = None) -> bool:
        """Commit the positions that have changed since the last commit; returns whether there are any."""
        return self._commit(None, self._config.client.request_timeout if timeout is None else timeout)

    def _commit(
        self, offsets: Mapping[TopicPartition, int] | None, timeout: float, *, changed_only: bool = True
    ) -> bool:
        if self._group() is None:
            raise RuntimeError("this connector has no streams, so it has consumed nothing")
        deadline = time.monotonic() + timeout
        # One at a time, from reading the positions to the answer: an older commit must not overtake a newer one.
        if not self._committing.acquire(timeout=timeout):
            raise PenstockError(f"another commit of group {self._config.group!r} has not ended within {timeout:g} s")
        try:
            cursors = self._assigned.cursors
            wanted = _positions(self._assigned.in_order()) if offsets is None else dict(offsets)
            if changed_only:
                wanted = {tp: at for tp, at in wanted.items() if tp in cursors and cursors[tp].committed != at}
            if not wanted:
                return False
            epochs = {tp: cursors[tp].epoch for tp in wanted if tp in cursors}
            self.commit_to_group(wanted, epochs, deadline - time.monotonic())
            self.note_committed(wanted)
            return True
        finally:
            self._committing.release()

    def note_committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Called when a commit has succeeded."""
        cursors = self._assigned.cursors
        for tp, offset in offsets.items():
            cursor = cursors.get(tp)
            if cursor is not None:
                cursor.committed = cursor.uncommitted_since = offset

    def commit_to_group(
        self, offsets: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, int], timeout: float
    ) -> None:
        """Commit without looking at positions, and count the result."""
        group = self._group()
        assert group is not None
        try:
            group.commit(offsets, epochs, max(0.001, timeout))
        except BaseException:
            self._counters.commit_failed()
            raise
        self._counters.committed()


def _positions(cursors: Iterable[Cursor]) -> dict[TopicPartition, int]:
    positions = {cursor.tp: cursor.reader.position(cursor) for cursor in cursors}
    return {tp: position for tp, position in positions.items() if position is not None}


def _checked_offset(tp: TopicPartition, offset: object) -> int:
    if not isinstance(offset, SupportsIndex) or not 0 <= index(offset) <= LAST_OFFSET:
        raise ValueError(f"{offset!r} is not an offset of {tp[0]}-{tp[1]}: an offset is a whole number, 0 or more")
    return index(offset)
