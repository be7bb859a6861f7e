"""Membership in a group of the classic protocol (H5, H7), through Kafka's group coordinator.

kafka-python implements this only inside its KafkaConsumer: its coordinator runs in `poll()`, next to a fetcher that
would read every partition a second time. So only the protocol's messages come from there.

One thread (`penstock-group-<group>`) runs a membership, round by round:

    find topics -> revoke -> join -> (the leader: assign) -> sync -> revoke -> assign -> stay -> next round

With eager assignors a member revokes all partitions before it joins. With cooperative ones it keeps them, revokes those
that the new assignment lacks, and then joins once more, so that others can get them. A round ends when the coordinator
starts a rebalance, when the topics change, when `rejoin` is called, or when the membership is lost. In the last case
all partitions are revoked as lost, because others may own them already. The heartbeat thread sends heartbeats
throughout.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import replace

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.group.assignment import PartitionOwner
from penstock.consumer.group.commits import Commits
from penstock.consumer.group.coordinator import Coordinator
from penstock.consumer.group.heartbeat_thread import HeartbeatThread
from penstock.consumer.group.join_and_sync import encode_assignments, encode_member, read_assignment, read_members
from penstock.consumer.group.membership_thread import MembershipThread, run_to_the_end
from penstock.consumer.group.owned_partitions import AssignmentFailed, OwnedPartitions
from penstock.consumer.group.topic_watch import TopicWatch
from penstock.consumer.group.user_data import SubscriptionUserData, needs_user_data
from penstock.consumer.subscription import StreamSubscription
from penstock.consumer.wait_reason import MembershipStatus
from penstock.errors import BrokerUnavailable, ProtocolError
from penstock.masking import get_logger
from penstock.metrics.group_counters import GroupCounters
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import RetriableError
from penstock.wire.api.group_member import NOT_A_MEMBER, FencedInstance, GroupMember, MembershipLost, Rebalancing
from penstock.wire.api.group_membership import Joined, MemberIdRequired, ask_join, ask_leave, ask_sync
from penstock.wire.brokers import RETRIABLE_ERRORS
from penstock.wire.transport.connection import Connection, ConnectionLost
from penstock.wire.transport.retry import Interrupted

log = get_logger(__name__)

JOIN_SLACK = 5.0
"""A coordinator answers JoinGroup when the rebalance time-out is over. Its answer may take this much longer."""

LOG_AFTER = 1.0
"""Retriable failures are logged when they last longer than this. The first group of a new cluster has no coordinator
for a moment."""

LOG_INTERVAL = 60.0
"""Retriable failures that last are logged again after this long."""

MEMBER_ID_SECONDS = 2.0
"""The first join is answered at once, with an id for the member. A member that closes before that answer cannot leave
by its id, and the group waits for it until its session expires. So closing waits this long for the answer."""

NEVER = float("-inf")


class Membership:
    """One member of one group. `start` and `close` are called once each."""

    def __init__(
        self, config: ConsumerConfig, consumer_id: str, subscription: StreamSubscription, owner: PartitionOwner
    ) -> None:
        self._config = config
        self._consumer_id = consumer_id
        self._owner = owner
        self._changed = threading.Condition()
        self._life = MembershipThread(config.group, self._changed)
        self._closing = self._life.closing
        self._member_id_until = NEVER
        """Until then closing does not abort the join: the coordinator is about to answer with the member id."""

        self._member = GroupMember(instance_id=config.instance_id)
        self._heartbeat_error: BaseException | None = None
        """What the coordinator answered to a heartbeat of this member."""
        self._rejoin_reason: str | None = None

        self.counters = GroupCounters()
        self._heartbeats = HeartbeatThread(config, self._on_heartbeat_error, self.counters)
        self._commits = Commits(config, self._life.given_up, self._heartbeats.send_now, self.counters)
        # For the membership thread only:
        self._coordinator = Coordinator(config.client, config.group, self._closing.wait, self.counters.retried)
        self._leave_coordinator = Coordinator(
            config.client, config.group, self._life.given_up.wait, self.counters.retried
        )
        self._topics = TopicWatch(config, subscription, self._coordinator)
        self._owned = OwnedPartitions(config, owner, self._commits.set_owned, self._pause)
        self._round_began = 0.0
        self._logged_at = NEVER
        self._failures = 0
        self._failing_since = 0.0
        self._problem: str | None = None
        """The last failure; None after a success."""
        self._members: int | None = None
        """The number of members of the group, if this one leads it."""

        self.state = "new"
        """new, starting, joining, assigning, stable, closed or failed. The membership thread writes this and the next
        three attributes; any thread reads them."""
        self.rebalances = 0
        """Assignments that were carried out."""
        self.rebalance_seconds = 0.0
        self.last_rebalance_seconds: float | None = None

    # --- any thread ---------------------------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        return self._member.generation

    @property
    def member_id(self) -> str:
        return self._member.member_id

    @property
    def last_heartbeat(self) -> float:
        """When the coordinator last confirmed the membership (monotonic)."""
        return self._heartbeats.last_heartbeat

    def status(self) -> MembershipStatus:
        """What is known about the group now. Takes no lock."""
        is_stable, topics = self.state == "stable", self._topics
        return MembershipStatus(
            is_stable,
            None if is_stable else self._coordinator.problem or self._problem,
            len(topics.threads),
            topics.missing,
            self._members,
            topics.partitions,
        )

    def start(self) -> None:
        self.state = "starting"
        self._life.start(self._run)

    def close(self, timeout: float, leave: bool = True) -> None:
        """Revoke all partitions, leave the group (static members do not), and end the thread.

        Returns after `timeout` seconds at the latest. May be called twice.
        """

        def wake() -> None:
            if time.monotonic() >= self._member_id_until:
                self._coordinator.abort()

        def give_up() -> None:
            self._coordinator.abort()
            self._commits.abort()
            self._leave_coordinator.abort()
            self._heartbeats.close(0)

        self._life.close(timeout, leave, end_commits=self._commits.end_by, wake=wake, give_up=give_up)

    def rejoin(self, reason: str) -> None:
        """Request a rebalance."""
        with self._changed:
            self._rejoin_reason = reason
            self._changed.notify_all()

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        epochs: Mapping[TopicPartition, int] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Commit the next offsets to read of partitions that this member owns.

        Raises CommitRefused if it does not own them (any more), and BrokerUnavailable if no broker answers in time.
        """
        self._commits.commit(offsets, epochs or {}, timeout)

    def member_for(self, partitions: Collection[TopicPartition]) -> GroupMember:
        """The member to commit offsets of these partitions as. Raises CommitRefused if it does not own them."""
        return self._commits.member_for(partitions)

    def offset_reader(self) -> GroupMember:
        """The member as which to ask for committed offsets: the classic protocol does not check it."""
        return NOT_A_MEMBER

    def _on_heartbeat_error(self, member: GroupMember, error: BaseException) -> None:
        """Called by the heartbeat thread."""
        with self._changed:
            if member == self._member:  # else the error belongs to an earlier generation
                self._heartbeat_error = error
                self._changed.notify_all()

    # --- the membership thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        def serve() -> None:
            while True:
                self._try_round()

        def end(error: BaseException | None) -> None:
            self._end(lost=isinstance(error, FencedInstance) or isinstance(self._heartbeat_error, MembershipLost))

        error = run_to_the_end(self._config.group, serve, end)
        self.state = "closed" if error is None else "failed"
        if error is not None:
            self._owner.failed(error.error if isinstance(error, AssignmentFailed) else error)

    def _try_round(self) -> None:
        try:
            try:
                self._round()
            except (*RETRIABLE_ERRORS, BrokerUnavailable) as error:
                self._back_off(error)
        except Rebalancing as error:
            log.info("%s", error)
        except MembershipLost as error:
            log.warning("group %r: membership lost: %s", self._config.group, error)
            self._on_lost(error.forgotten)

    def _round(self) -> None:
        """One generation of the group, from joining to the next rebalance."""
        self._round_began = time.monotonic()
        self._topics.find()
        owned = self._owned.streams
        kept = self._topics.threads if self._config.cooperative else {}
        self._owned.revoke([tp for tp in owned if tp.topic not in kept], lost=False)
        user_data = SubscriptionUserData(
            self._consumer_id, self._topics.threads, self._owned.fresh, dict(self._owned.streams)
        )
        joined = self._join(
            encode_member(self._member, user_data, self._config.client.rack, with_user_data=self._sends_user_data())
        )
        given = self._sync(joined, self._lead(joined) if joined.leader else {})
        self._assign(joined, given, user_data)
        self._stay()

    def _sends_user_data(self) -> bool:
        wanted = self._config.user_data
        return needs_user_data(self._config.assignors, self._topics.threads) if wanted is None else wanted

    def _join(self, subscription: bytes) -> Joined:
        self.state = "joining"
        self._commits.joining()
        with self._changed:
            reason, self._rejoin_reason = self._rejoin_reason or "", None
        self._heartbeats.suspend()
        try:
            joined = self._ask_join(subscription, reason)
        except MemberIdRequired as answer:
            self._set_member_id(answer.member_id)
            try:
                joined = self._ask_join(subscription, reason)
            except MemberIdRequired as again:  # retry with a backoff, not at once and forever
                raise RetriableError(
                    f"group {self._config.group!r} requires a member id, and refuses the one that it assigned"
                ) from again
        self._set_member_id(joined.member.member_id)
        self._heartbeats.confirmed()  # a join may take long: one failure after it must not cost the membership
        return joined

    def _ask_join(self, subscription: bytes, reason: str) -> Joined:
        config = self._config
        # Not less than for other requests: other members may have a longer rebalance time-out.
        timeout = max(config.rebalance_timeout, config.client.request_timeout) + JOIN_SLACK
        asked = time.monotonic()

        def join(connection: Connection) -> Joined:
            began = time.monotonic()
            if not self._member.member_id and config.instance_id is None:
                self._member_id_until = time.monotonic() + MEMBER_ID_SECONDS
            joined = ask_join(
                connection,
                config.group,
                self._member,
                dict.fromkeys(config.assignors, subscription),
                session_timeout=config.session_timeout,
                rebalance_timeout=config.rebalance_timeout,
                reason=reason,
                timeout=timeout,
            )
            self.counters.joins.add(time.monotonic() - began)
            return joined

        try:
            return self._coordinator.ask(self._coordinator.attempts(f"joining group {config.group!r}", timeout), join)
        except ConnectionLost:
            if config.heartbeat_interval <= time.monotonic() - asked < config.rebalance_timeout:
                # The coordinator counts members that wait in a join without heartbeats, so this one was counted until
                # now.
                self._heartbeats.confirmed()
            raise
        except Rebalancing as error:
            raise RetriableError(str(error)) from error  # joining is the answer to it: retry after a backoff
        finally:
            self._member_id_until = NEVER

    def _lead(self, joined: Joined) -> dict[str, bytes]:
        """Assign the group's partitions, and watch its topics from now on."""
        group = read_members(joined.members)
        self._members = len(group.members)
        partitions = self._topics.lead(group.topics)
        if joined.skip_assignment:
            return {}
        log.info(
            "group %r: leads generation %d: %d partitions over %d members by %s",
            *(self._config.group, joined.member.generation, sum(partitions.values())),
            *(len(group.members), joined.assignor),
        )
        return encode_assignments(joined.assignor, group, partitions)

    def _sync(self, joined: Joined, assignments: Mapping[str, bytes]) -> bytes:
        self.state = "assigning"
        if not joined.leader:
            self._topics.follow()
            self._members = None
        group = self._config.group
        attempts = self._coordinator.attempts(
            f"synchronising group {group!r}", self._config.rebalance_timeout + JOIN_SLACK
        )

        def sync(connection: Connection) -> bytes:
            began = time.monotonic()
            given = ask_sync(connection, group, joined.member, joined.assignor, assignments, attempts.remaining())
            self.counters.syncs.add(time.monotonic() - began)
            return given

        given = self._coordinator.ask(attempts, sync)
        with self._changed:
            self._member = joined.member
            self._heartbeat_error = None
        self._commits.joined(joined.member)
        self._heartbeats.send_for(joined.member)
        return given

    def _assign(self, joined: Joined, given: bytes, user_data: SubscriptionUserData) -> None:
        try:
            assignment = read_assignment(joined, given, user_data)
        except ValueError as error:
            raise ProtocolError(f"group {self._config.group!r}: its leader sent {error}") from error
        leaving = [tp for tp in self._owned.streams if tp not in assignment.partitions]
        self._owned.revoke(leaving, lost=False)
        if leaving:
            # The leader assigns them to others when this member has joined again without them (KIP-429).
            self.rejoin("revoked partitions for others")
        self._owned.assign(assignment)
        self._on_success()
        self.rebalances += 1
        self.last_rebalance_seconds = time.monotonic() - self._round_began
        self.rebalance_seconds += self.last_rebalance_seconds
        self.state = "stable"
        log.info(
            "group %r: generation %d, member %s: %d partitions",
            *(self._config.group, assignment.generation, assignment.member_id, len(assignment.partitions)),
        )

    def _stay(self) -> None:
        """Wait until this round must end."""
        self._topics.schedule_check()
        while True:
            self._pause(self._topics.check_at - time.monotonic(), for_rejoin=True)
            with self._changed:
                if self._rejoin_reason is not None:
                    log.info("group %r: joining again: %s", self._config.group, self._rejoin_reason)
                    return
            if time.monotonic() >= self._topics.check_at and (reason := self._topics.check()) is not None:
                self.rejoin(reason)

    def _pause(self, seconds: float, for_rejoin: bool = False) -> None:
        """Wait. Raises errors of heartbeats, and Interrupted when closing; with `for_rejoin` returns early on
        `rejoin`."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._closing.is_set()
                    or self._heartbeat_error is not None
                    or (for_rejoin and self._rejoin_reason is not None)
                ),
                max(0.0, min(seconds, threading.TIMEOUT_MAX)),
            )
            if self._closing.is_set():
                raise Interrupted
            error, self._heartbeat_error = self._heartbeat_error, None
        if error is not None:
            raise error

    # --- failures and the end: the membership thread ------------------------------------------------------------------

    def _back_off(self, error: BaseException) -> None:
        """Retriable failure (H17): log at most once a minute, then back off. Raises MembershipLost after a session."""
        now = time.monotonic()
        self._problem = str(error)
        if self._failures == 0:
            self._failing_since = now
        if now - self._failing_since >= LOG_AFTER and now - self._logged_at >= LOG_INTERVAL:
            self._logged_at = now
            log.warning("group %r: waiting for Kafka, and retrying: %s", self._config.group, error)
        if self._owned.streams and now - self._heartbeats.last_heartbeat >= self._config.session_timeout:
            raise MembershipLost("no coordinator was reached within session.timeout.ms") from error
        client = self._config.client
        backoff = min(client.retry_backoff * 2**self._failures, client.retry_backoff_max)
        self._failures = min(self._failures + 1, 16)
        self._pause(backoff)

    def _on_success(self) -> None:
        if self._logged_at > NEVER:
            log.info("group %r: Kafka answers again", self._config.group)
        self._logged_at = NEVER
        self._failures = 0
        self._problem = None

    def _on_lost(self, forgotten: bool) -> None:
        """Revoke all partitions as lost. The member id is kept unless the coordinator has forgotten it: joining with an
        id that it still has leaves no dead member behind for which the group waits."""
        self._heartbeats.suspend()
        self._commits.suspend()
        self._owned.revoke_all(lost=True)
        with self._changed:
            member_id = "" if forgotten else self._member.member_id
            self._member = GroupMember(member_id, instance_id=self._config.instance_id)
            self._heartbeat_error = None

    def _set_member_id(self, member_id: str) -> None:
        with self._changed:
            self._member = replace(self._member, member_id=member_id)

    def _end(self, lost: bool) -> None:
        """Revoke all partitions and leave, so that the group does not wait for the end of this session."""
        try:
            self._owned.revoke_all(lost=lost)
        finally:
            # Whatever that raised: heartbeats that continue would keep the partitions from other members forever.
            self._leave(lost)

    def _leave(self, lost: bool) -> None:
        self._commits.suspend()
        self._heartbeats.close(self._life.seconds_for_heartbeats)
        member, group = self._member, self._config.group
        if not lost and member.member_id and member.instance_id is None:
            self._life.leave(
                self._leave_coordinator,
                lambda connection, seconds: ask_leave(connection, group, member, "closed", seconds),
                self._config.client.request_timeout,
            )
