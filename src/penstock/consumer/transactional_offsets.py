"""Offsets that a producer commits in its transaction, together with the records that were made from them.

`penstock.Writer` asks for the offsets of what was handed out, and for the member of the group that read it. The group's
coordinator compares that member with its own state, so a consumer that lost its partitions cannot commit. When a
transaction is aborted, the positions go back: the records are handed out again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.assigned_partitions import AssignedPartitions
from penstock.consumer.fetch.cursor import Cursor, CursorReader
from penstock.consumer.offsets import GroupCommits, Offsets
from penstock.errors import CommitRefused, OptionError
from penstock.masking import get_logger
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_member import GroupMember
from penstock.wire.cluster import Cluster

log = get_logger(__name__)


class TransactionalOffsets:
    """The offsets of a connector, or of one of its streams. For the thread that reads and writes."""

    def __init__(
        self,
        config: ConsumerConfig,
        assigned: AssignedPartitions,
        offsets: Offsets,
        membership: Callable[[], GroupCommits | None],
        reader: CursorReader | None = None,
    ) -> None:
        """Without `reader`: the partitions of all streams. `membership` returns None before there are streams."""
        self.group = config.group
        self._config = config
        self._assigned = assigned
        self._offsets = offsets
        self._membership = membership
        self._reader = reader
        self._uncertain = False
        """Whether a transaction with these offsets ended without an answer."""

    def begin(self) -> None:
        """Called when a transaction begins. Raises OptionError while offsets are also committed outside of it."""
        if self._config.auto_commit:
            raise OptionError(
                "enable.auto.commit",
                True,
                "commits offsets outside of the transaction",
                "Set it to false for a consumer whose offsets are committed in transactions",
            )
        if self._uncertain:
            self.rewind()

    def take(
        self, offsets: Mapping[TopicPartition, int] | None = None
    ) -> tuple[GroupMember, dict[TopicPartition, int]]:
        """The offsets to commit: the given ones, or the positions that have changed. And the member that read them.

        Raises CommitRefused if a partition was revoked whose records were handed out and not committed: another member
        reads them again, so what was made of them must not be committed.
        """
        self.begin()
        membership = self._membership()
        if membership is None:
            raise RuntimeError("this consumer has no streams, so it has consumed nothing")
        # Do not reorder. The member first: the coordinator refuses it if partitions are revoked from here on. The
        # revoked partitions last: one that is missing in the cursors is among them.
        member = membership.member_for(())
        if offsets is None:
            cursors = self._cursors()
            positions = {cursor.tp: (cursor.reader.position(cursor), cursor.committed) for cursor in cursors}
            wanted = {tp: at for tp, (at, committed) in positions.items() if at is not None and at != committed}
        else:
            wanted = self._offsets.checked(offsets)
        if revoked := self._revoked():
            raise CommitRefused(
                self.group,
                f"{sorted(revoked)[0]} was revoked while its records were processed",
                "The group hands these records out again, so the transaction must be aborted",
            )
        membership.member_for(wanted)
        return member, wanted

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The transaction with these offsets is committed."""
        self._uncertain = False
        self._offsets.note_committed(offsets)
        revoked = self._assigned.revoked_uncommitted
        self._assigned.forget_uncommitted(tp for tp, at in offsets.items() if tp in revoked and revoked[tp][1] <= at)

    def outcome_unknown(self) -> None:
        """No broker has answered whether the transaction is committed. The group's offsets will say it."""
        self._uncertain = True

    def rewind(self) -> None:
        """The transaction is aborted: hand out again what is not committed."""
        moved = [cursor for cursor in self._cursors() if cursor.uncommitted_since is not None]
        if self._uncertain and moved:
            # Waits for the end of the transaction, if it is still open.
            cluster = Cluster(self._config.client)
            for tp, offset in cluster.committed(self.group, [cursor.tp for cursor in moved]).items():
                if offset is not None:
                    self._offsets.note_committed({tp: offset})
        for cursor in moved:
            with cursor.reader.lock:
                since = cursor.uncommitted_since
                if since is not None and since != cursor.reader.position(cursor):
                    cursor.reader.move(cursor, since)
                    cursor.uncommitted_since = None
        self._offsets.wake_fetchers()
        self._assigned.forget_uncommitted(self._revoked())
        self._uncertain = False

    def _cursors(self) -> list[Cursor]:
        return [cursor for cursor in self._assigned.in_order() if self._reader in (None, cursor.reader)]

    def _revoked(self) -> list[TopicPartition]:
        revoked = self._assigned.revoked_uncommitted.items()
        return [tp for tp, (thread, _) in revoked if self._reader is None or thread == self._reader.thread_id]
