"""Carries out rebalances: revokes and assigns partitions, in the order that H7 defines.

revoke    streams drop the queued chunks of the partitions and hand out nothing more -> the leader finder and the
          fetchers drop them -> auto-commit -> the listener's `revoked`
assign    read the group's offsets -> create cursors -> the listener's `assigned`, which may seek -> fetch
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.assigned_partitions import AssignedPartitions
from penstock.consumer.event_time.shared_tracker import SharedTracker
from penstock.consumer.fetch.cursor import Cursor, CursorReader
from penstock.consumer.fetch.leader_finder import LeaderFinder
from penstock.consumer.group.assignment import Assignment
from penstock.consumer.offsets import Offsets
from penstock.consumer.start import StartingOffsets
from penstock.masking import get_logger
from penstock.model.offset_spec import StartMode
from penstock.model.topic_partition import TopicPartition

log = get_logger(__name__)

REVOKE_COMMIT_SECONDS = 10.0
"""The time-out of the commit before partitions are revoked. The group waits for this member meanwhile."""


class RebalanceListener(Protocol):
    """Receives rebalances. The membership thread calls it, and the group waits until it returns; a shutdown calls it
    from its own thread."""

    def revoked(self, owned: list[TopicPartition]) -> None:
        """No more records of these partitions leave a stream. Their offsets can still be committed."""

    def assigned(self, consumer_id: str, assignment: Mapping[str, Mapping[int, str]]) -> None:
        """The new assignment: the thread id by topic and partition. Nothing of a new partition has been fetched: a
        `seek` decides where it starts.

        It covers the whole group if the group's leader is a Penstock consumer, else this consumer only.
        """


class Rebalancer:
    """The partitions of one consumer, as its group membership sees them."""

    def __init__(
        self,
        config: ConsumerConfig,
        consumer_id: str,
        assigned: AssignedPartitions,
        offsets: Offsets,
        starting_offsets: StartingOffsets,
        finder: LeaderFinder,
        tracker: SharedTracker | None,
        on_failed: Callable[[BaseException], None],
    ) -> None:
        """`on_failed` gets the error that has ended the membership."""
        self._config = config
        self._consumer_id = consumer_id
        self._assigned = assigned
        self._offsets = offsets
        self._starting_offsets = starting_offsets
        self._finder = finder
        self._tracker = tracker
        self._on_failed = on_failed
        self._lock = threading.RLock()
        self._stopped = False
        self._listener: RebalanceListener | None = None
        self.reader_of: Callable[[str, int], CursorReader] | None = None
        """The reader of a topic's stream, by the stream's number. Set before the membership starts."""

    # --- any thread ---------------------------------------------------------------------------------------------------

    def set_listener(self, listener: RebalanceListener | None) -> None:
        for name in ("revoked", "assigned"):
            if listener is not None and not callable(getattr(listener, name, None)):
                raise TypeError(f"a rebalance listener has a method {name}; {type(listener).__name__} has none")
        self._listener = listener

    def stop(self) -> None:
        """Ignore assignments from now on: the connector is shutting down."""
        self._stopped = True

    def revoke_all(self, wait: float, timeout: float) -> None:
        """Revoke every partition at shutdown. Waits up to `wait` seconds for a rebalance that is under way; `timeout`
        is that of the last commit. Never raises."""
        if not self._lock.acquire(timeout=wait):
            return
        try:
            self._revoke(self.owned(), lost=False, timeout=min(REVOKE_COMMIT_SECONDS, timeout))
        except (
            Exception
        ):  # the shutdown must continue: a member that stays in the group keeps its partitions from others
            log.exception("revoking all partitions failed; the shutdown goes on")
        finally:
            self._lock.release()

    # --- the membership thread ----------------------------------------------------------------------------------------

    def owned(self) -> list[TopicPartition]:
        return sorted(self._assigned.cursors)

    def revoke(self, partitions: Collection[TopicPartition], *, lost: bool) -> None:
        with self._lock:
            self._revoke(partitions, lost=lost, timeout=REVOKE_COMMIT_SECONDS)

    def _revoke(self, partitions: Collection[TopicPartition], *, lost: bool, timeout: float) -> None:
        """With the lock held."""
        cursors = self._assigned.cursors
        leaving = {tp: cursors[tp] for tp in partitions if tp in cursors}
        if not leaving:
            return
        for cursor in leaving.values():
            cursor.reader.revoke(cursor)
        # After that: a fetcher that reports a cursor as leaderless in between would bring it back to the finder for
        # good.
        self._finder.remove(list(leaving.values()))
        if self._config.auto_commit and not lost:
            self._try_to_commit(timeout)
        self._notify("revoked", sorted(leaving))
        # Before the cursors are removed: a commit in a transaction that misses one must find it here.
        self._assigned.note_uncommitted(leaving.values())
        self._assigned.cursors = {tp: cursor for tp, cursor in cursors.items() if tp not in leaving}
        self._update_tracker()

    def _try_to_commit(self, timeout: float) -> None:
        try:
            self._offsets.commit_changed(timeout)
        except Exception as error:
            log.warning("the last positions are not committed, so records may be read again: %s", error)

    def assign(self, assignment: Assignment) -> None:
        with self._lock:
            if self._stopped:
                return
            assert self.reader_of is not None
            new = sorted(tp for tp in assignment.partitions if tp not in self._assigned)
            starts = self._starting_offsets.find(new, assignment.fresh)
            cursors: dict[TopicPartition, Cursor] = {}
            for tp in new:
                start = starts.get(tp)
                reader = self.reader_of(tp.topic, assignment.partitions[tp])
                cursor = Cursor(tp, reader, start.offset if start else None, start.leader_epoch if start else -1)
                cursor.committed = start.offset if start else None
                cursors[tp] = cursor
            self._assigned.latest, self._assigned.starting = frozenset(assignment.partitions), cursors
            self._notify("assigned", self._consumer_id, assignment.threads_of_group)
            self._assigned.cursors = {**self._assigned.cursors, **cursors}
            self._assigned.starting = {}
            self._update_tracker()
            self._finder.add(cursors.values())

    def assign_without_group(
        self, partitions: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int | StartMode | None]
    ) -> None:
        """Read these partitions, each by the stream of its number, from their starts. Called once, by the user."""
        assert self.reader_of is not None
        cursors: dict[TopicPartition, Cursor] = {}
        for tp, stream in partitions.items():
            start = starts[tp]
            offset = start if isinstance(start, int) else None
            cursors[tp] = Cursor(tp, self.reader_of(tp.topic, stream), offset)
            cursors[tp].start = None if isinstance(start, int) else start
        with self._lock:
            self._assigned.latest, self._assigned.cursors = frozenset(cursors), cursors
            self._update_tracker()
            self._finder.add(cursors.values())

    def failed(self, error: BaseException) -> None:
        self._on_failed(error)

    def _update_tracker(self) -> None:
        """No record of a revoked partition leaves a stream any more, and none of a new partition does so yet."""
        if self._tracker is not None:
            self._tracker.set_partitions(self._assigned.cursors.keys())
            self._tracker.resume_caught_up()

    def _notify(self, name: str, *arguments: Any) -> None:
        listener = self._listener
        if listener is None:
            return
        try:
            getattr(listener, name)(*arguments)
        except Exception:
            log.exception("the rebalance listener's %s failed; the rebalance goes on", name)
