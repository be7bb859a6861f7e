"""Commits of a group member (H15): with its generation, and only for partitions that it owns."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.group.coordinator import Coordinator
from penstock.errors import CommitRefused, UnknownTopic
from penstock.metrics.group_counters import GroupCounters
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import UNKNOWN_TOPIC_OR_PARTITION, RetriableError
from penstock.wire.api.group_member import FencedInstance, GroupMember, MembershipLost, Rebalancing
from penstock.wire.api.offset_commit import ask_commit
from penstock.wire.brokers import RETRIABLE_ERRORS
from penstock.wire.transport.retry import Attempts, Interrupted

UNKNOWN_TOPIC_GRACE = 2.0
"""A topic that was just created is unknown to some brokers. After this long it counts as deleted."""


class Commits:
    """One commit at a time. `check_membership` is called when the coordinator refuses this member."""

    def __init__(
        self,
        config: ConsumerConfig,
        given_up: threading.Event,
        check_membership: Callable[[], None],
        counters: GroupCounters,
    ) -> None:
        self._config = config
        self._check_membership = check_membership
        self._given_up = given_up
        self._coordinator = Coordinator(config.client, config.group, given_up.wait, counters.retried)
        self._turn = threading.Lock()
        self._changed = threading.Condition()
        self._member: GroupMember | None = None
        self._owned: Mapping[TopicPartition, object] = {}
        """The owned partitions, each with an object that stands for the time since it was assigned."""
        self._joining = False
        self._joiner: threading.Thread | None = None
        """The membership thread. It cannot wait for a generation that it must join itself."""
        self._deadline = float("inf")

    # --- the membership thread ------------------------------------------------------------------------------------

    def joined(self, member: GroupMember) -> None:
        """Commit as this member of its generation from now on."""
        with self._changed:
            self._member = member
            self._joining = False
            self._changed.notify_all()

    def joining(self) -> None:
        """A rebalance has begun: commits that are refused for the old generation may wait for the new one."""
        with self._changed:
            self._joiner = threading.current_thread()
            self._joining = True

    def suspend(self) -> None:
        """Refuse commits: this consumer is not a member."""
        with self._changed:
            self._member = None
            self._joining = False
            self._changed.notify_all()

    def set_owned(self, partitions: Collection[TopicPartition]) -> None:
        with self._changed:
            before = self._owned
            self._owned = {tp: before.get(tp) or object() for tp in partitions}

    # --- any thread -----------------------------------------------------------------------------------------------

    def end_by(self, deadline: float) -> None:
        """No commit continues after this time (monotonic)."""
        self._deadline = min(self._deadline, deadline)

    def abort(self) -> None:
        self._coordinator.abort()

    def commit(
        self, offsets: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, int], timeout: float | None
    ) -> None:
        for tp, offset in offsets.items():
            if offset < 0:
                raise ValueError(f"offset {offset} of {tp} cannot be committed: an offset is 0 or more")
        if not offsets:
            return
        config = self._config
        seconds = config.client.api_timeout if timeout is None else timeout
        seconds = max(0.001, min(seconds, self._deadline - time.monotonic()))
        attempts = self._coordinator.attempts(f"committing {len(offsets)} offsets of group {config.group!r}", seconds)
        with self._changed:
            since = {tp: self._owned.get(tp) for tp in offsets}
        if not self._turn.acquire(timeout=seconds):
            attempts.failed("another commit is still under way")
            raise attempts.give_up()
        try:
            self._commit(dict(offsets), epochs, since, attempts)
        except Interrupted:
            raise CommitRefused(config.group, "the consumer is closed") from None
        finally:
            self._turn.release()

    def _commit(
        self,
        missing: dict[TopicPartition, int],
        epochs: Mapping[TopicPartition, int],
        since: Mapping[TopicPartition, object],
        attempts: Attempts,
    ) -> None:
        while True:
            member = self._member_since(missing, since)
            try:
                refused = self._ask(missing, epochs, member, attempts)
            except RETRIABLE_ERRORS as error:
                attempts.failed(str(error), error)
            except (Rebalancing, MembershipLost) as error:
                attempts.failed(str(error), error)
                self._await_generation(member, error, attempts)
            except FencedInstance as error:
                self._check_membership()
                raise CommitRefused(self._config.group, str(error)) from error
            else:
                for tp in list(missing):
                    if tp not in refused:
                        del missing[tp]
                if not missing:
                    return
                self._note_refused(refused, attempts)
            attempts.pause()

    def member_for(self, offsets: Collection[TopicPartition]) -> GroupMember:
        """The member to commit as. Raises CommitRefused if it does not own the partitions.

        Do not simplify to the member at the start of `commit`: meanwhile a rebalance may revoke a partition, and a
        commit with the new generation would reset the offset of its new owner.
        """
        with self._changed:
            if self._member is None:
                reason = "it is not a member of the group now: it has not joined yet, or was removed"
                raise CommitRefused(self._config.group, reason)
            not_owned = sorted(tp for tp in offsets if tp not in self._owned)
            if not_owned:
                raise CommitRefused(self._config.group, f"{not_owned[0]} is not assigned to it")
            return self._member

    def _member_since(self, offsets: Collection[TopicPartition], since: Mapping[TopicPartition, object]) -> GroupMember:
        """The same, if it has owned them all the time since the commit began.

        Do not simplify to `member_for`: a partition may have been lost and assigned again during the attempts. In
        between another member has read on and committed, and this commit would set the group's offset back.
        """
        with self._changed:
            member = self.member_for(offsets)
            for tp in sorted(offsets):
                if self._owned[tp] is not since[tp]:
                    raise CommitRefused(self._config.group, f"{tp} was revoked meanwhile, and is assigned to it again")
            return member

    def _ask(
        self,
        missing: Mapping[TopicPartition, int],
        epochs: Mapping[TopicPartition, int],
        member: GroupMember,
        attempts: Attempts,
    ) -> dict[TopicPartition, RetriableError]:
        return self._coordinator.ask(
            attempts,
            lambda connection: ask_commit(
                connection,
                self._config.group,
                missing,
                epochs,
                {},
                attempts.remaining(self._config.client.request_timeout),
                member,
            ),
        )

    def _await_generation(self, member: GroupMember, error: Exception, attempts: Attempts) -> None:
        """The coordinator refuses this generation. Wait for the next one if a rebalance is under way."""
        with self._changed:
            if threading.current_thread() is not self._joiner:
                self._changed.wait_for(lambda: self._member != member or not self._joining, attempts.remaining())
                if self._member != member or isinstance(error, Rebalancing):
                    return
        self._check_membership()
        raise CommitRefused(self._config.group, str(error)) from error

    def _note_refused(self, refused: Mapping[TopicPartition, RetriableError], attempts: Attempts) -> None:
        for tp, problem in refused.items():
            if problem.error_code == UNKNOWN_TOPIC_OR_PARTITION and attempts.elapsed >= UNKNOWN_TOPIC_GRACE:
                raise UnknownTopic(tp.topic, tp.partition, f"so group {self._config.group!r} cannot commit its offset")
            attempts.failed(str(problem), problem)
