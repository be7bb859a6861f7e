"""Membership in a group of the protocol `consumer` (KIP-848): the coordinator assigns partitions (H5, H7).

Two threads run a membership. The heartbeat thread talks to the coordinator. This one (`penstock-group-<group>`) carries
out what `ConsumerMember` says: it revokes partitions, or starts to read new ones, and the next heartbeat acknowledges
it. Partitions that stay are read throughout. If the coordinator has fenced this member, all partitions are revoked as
lost, because others may own them already, and the member joins again.

All streams of a connector are one member, and its partitions are divided over the streams here.
"""

from __future__ import annotations

import base64
import threading
import time
import uuid
from collections.abc import Collection, Mapping

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.group.assignment import Assignment, PartitionOwner
from penstock.consumer.group.assignors import COOPERATIVE_STICKY, divide, thread_id
from penstock.consumer.group.commits import Commits
from penstock.consumer.group.consumer_member import ConsumerMember, Interest, Revoke, State, Step, Take
from penstock.consumer.group.coordinator import Coordinator
from penstock.consumer.group.group_heartbeats import LOG_INTERVAL, NEVER, GroupHeartbeats
from penstock.consumer.group.membership_thread import MembershipThread, run_to_the_end
from penstock.consumer.group.owned_partitions import AssignmentFailed, OwnedPartitions
from penstock.consumer.group.topic_watch import CHECK_SECONDS, MISSING_TOPIC_SECONDS, TopicWatch
from penstock.consumer.subscription import StreamSubscription
from penstock.consumer.wait_reason import MembershipStatus
from penstock.errors import BrokerUnavailable, CommitRefused
from penstock.masking import get_logger
from penstock.metrics.group_counters import GroupCounters
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.consumer_group_heartbeat import ask_group_heartbeat
from penstock.wire.api.group_member import FencedInstance, GroupMember, MembershipLost
from penstock.wire.api.heartbeat_answer import PartitionsById
from penstock.wire.transport.retry import Interrupted

log = get_logger(__name__)

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
"""Kafka's own. The coordinator does not leave them out of a regular expression."""


class ConsumerMembership:
    """One member of one group. `start` and `close` are called once each."""

    def __init__(
        self, config: ConsumerConfig, consumer_id: str, subscription: StreamSubscription, owner: PartitionOwner
    ) -> None:
        self._config = config
        self._consumer_id = consumer_id
        self._subscription = subscription
        self._owner = owner
        self._changed = threading.Condition()
        """Guards the member."""
        self._life = MembershipThread(config.group, self._changed)
        self._closing = self._life.closing
        self._member = ConsumerMember(
            _new_member_id(),
            Interest(),
            rebalance_timeout=config.rebalance_timeout,
            instance_id=config.instance_id,
            rack=config.client.rack or None,
            assignor=config.remote_assignor,
        )
        self.counters = GroupCounters()
        self._commits = Commits(config, self._life.given_up, self._check_membership, self.counters)
        self._heartbeats = GroupHeartbeats(config, self._member, self._changed, self._on_identity, self.counters)
        # For the membership thread only:
        self._coordinator = Coordinator(config.client, config.group, self._closing.wait, self.counters.retried)
        self._leave_coordinator = Coordinator(
            config.client, config.group, self._life.given_up.wait, self.counters.retried
        )
        self._topics = TopicWatch(config, subscription, self._coordinator)
        self._owned = OwnedPartitions(config, owner, self._commits.set_owned, self._pause)
        self._pattern = _server_pattern(config, subscription)
        self._names: dict[uuid.UUID, str] = {}
        """The names of topics that are or were assigned."""
        self._look_up_at = 0.0
        """Names that no broker knew are looked up again at this time."""
        self._check_at = float("inf")
        self._round_began: float | None = None
        self._missing: tuple[str, ...] = ()
        self._problem: str | None = None

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
        """The member's epoch."""
        return self._member.epoch

    @property
    def member_id(self) -> str:
        return self._member.member_id

    def status(self) -> MembershipStatus:
        """What is known about the group now. Takes no lock."""
        is_stable = self.state == "stable"
        return MembershipStatus(
            is_stable,
            None if is_stable else self._heartbeats.problem or self._problem,
            1 if self._pattern is not None else len(self._topics.threads),
            self._missing,
        )

    def start(self) -> None:
        self.state = "starting"
        self._life.start(self._run)

    def close(self, timeout: float, leave: bool = True) -> None:
        """Revoke all partitions, leave the group, and end the thread. A static member says that it restarts.

        Returns after `timeout` seconds at the latest. May be called twice.
        """

        def give_up() -> None:
            self._commits.abort()
            self._leave_coordinator.abort()
            self._heartbeats.close(0)

        self._life.close(
            timeout, leave, end_commits=self._commits.end_by, wake=self._coordinator.abort, give_up=give_up
        )

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
        """The member as which to ask for committed offsets. Raises MembershipLost."""
        try:
            return self._commits.member_for(())
        except CommitRefused as error:
            raise MembershipLost(str(error)) from error

    def _check_membership(self) -> None:
        self._heartbeats.send_now()

    def _on_identity(self, member: GroupMember | None) -> None:
        """Called with `_changed` held."""
        if member is None:
            self._commits.suspend()
        else:
            self._commits.joined(member)

    # --- the membership thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        def serve() -> None:
            self._subscribe()
            self._heartbeats.start()
            while True:
                self._serve()

        def end(error: BaseException | None) -> None:
            self._end(lost=isinstance(error, FencedInstance) or self._member.state is State.FENCED)

        error = run_to_the_end(self._config.group, serve, end)
        self.state = "closed" if error is None else "failed"
        if error is not None:
            self._owner.failed(error.error if isinstance(error, AssignmentFailed) else error)

    def _subscribe(self) -> None:
        """Find out what to subscribe to, before the first heartbeat."""
        self.state, logged_at = "joining", NEVER
        while True:
            try:
                if self._pattern is None:
                    self._topics.find()
                    self._topics.schedule_check()
                break
            except BrokerUnavailable as error:
                self._problem = str(error)
                if time.monotonic() - logged_at >= LOG_INTERVAL:
                    logged_at = time.monotonic()
                    log.warning("group %r: waiting for Kafka, and retrying: %s", self._config.group, error)
                self._pause(self._config.client.retry_backoff_max)
        self._problem = None
        with self._changed:
            self._member.subscribe(self._interest())

    def _interest(self) -> Interest:
        if self._pattern is not None:
            return Interest((), self._pattern)
        return Interest(tuple(sorted(self._topics.threads)))

    def _serve(self) -> None:
        """Wait for something to do, and do it."""
        try:
            step = self._next_step()
            match step:
                case Revoke(partitions):
                    self._revoke(partitions)
                case Take(partitions):
                    self._take(partitions)
                case None:
                    self._settle()
                    self._check_topics()
        except MembershipLost as error:
            self._on_lost(error)

    def _next_step(self) -> Step | None:
        """Wait for a step, or until topics must be checked. Raises what has ended the membership, or Interrupted."""
        with self._changed:
            while True:
                self._raise_end()
                step, now = self._member.step(), time.monotonic()
                wake_at = min(self._check_at, self._watch_at())
                if isinstance(step, Take) and now < self._look_up_at and self._are_unnamed(step.partitions):
                    step, wake_at = None, min(wake_at, self._look_up_at)
                if step is not None or (self.state != "stable" and self._member.state is State.STABLE):
                    return step
                if wake_at <= now:
                    return None
                self._changed.wait(min(wake_at - now, threading.TIMEOUT_MAX))

    def _raise_end(self) -> None:
        """With `_changed` held."""
        if self._closing.is_set():
            raise Interrupted
        if self._heartbeats.error is not None:
            raise self._heartbeats.error
        if self._member.state is State.FENCED:
            raise self._heartbeats.lost or MembershipLost("the coordinator has fenced this member")

    def _are_unnamed(self, partitions: PartitionsById) -> bool:
        return bool(partitions) and not any(topic in self._names for topic in partitions)

    # --- steps: the membership thread ---------------------------------------------------------------------------------

    def _begin_round(self) -> None:
        if self._round_began is None:
            self._round_began = time.monotonic()
        self.state = "assigning"

    def _revoke(self, partitions: PartitionsById) -> None:
        self._begin_round()
        self._owned.revoke([tp for tp in self._named(partitions) if tp in self._owned.streams], lost=False)
        with self._changed:
            self._member.revoked(partitions)
            self._changed.notify_all()

    def _take(self, partitions: PartitionsById) -> None:
        self._begin_round()
        self._look_up(partitions)
        with self._changed:
            self._raise_end()
            # Do not take what the step had before the look-up: the coordinator may have given it away meanwhile.
            step = self._member.step()
            if not isinstance(step, Take) or self._are_unnamed(step.partitions):
                return
            named = {topic: each for topic, each in step.partitions.items() if topic in self._names}
            self._member.taking(named)
            owned, epoch = self._member.owned, self._member.epoch
        self._owned.assign(self._assignment(self._named(owned), epoch))
        if self._round_began is not None:
            self.last_rebalance_seconds = time.monotonic() - self._round_began
            self.rebalance_seconds += self.last_rebalance_seconds
            self._round_began = None
        self.rebalances += 1
        with self._changed:
            self._member.taken(named)
            self._changed.notify_all()

    def _named(self, partitions: PartitionsById) -> list[TopicPartition]:
        return [
            TopicPartition(self._names[topic], number)
            for topic, numbers in partitions.items()
            if topic in self._names
            for number in sorted(numbers)
        ]

    def _look_up(self, partitions: PartitionsById) -> None:
        """Look up the names of topics. Those that no broker knows yet are looked up again a little later."""
        if all(topic in self._names for topic in partitions) or time.monotonic() < self._look_up_at:
            return
        names = None if self._pattern is not None else self._subscription.names or tuple(self._topics.threads)
        try:
            self._names |= self._coordinator.listing(names, {}, CHECK_SECONDS).names
        except BrokerUnavailable as error:
            log.debug("group %r: %s", self._config.group, error)
        if any(topic not in self._names for topic in partitions):
            self._look_up_at = time.monotonic() + MISSING_TOPIC_SECONDS

    def _assignment(self, mine: Collection[TopicPartition], epoch: int) -> Assignment:
        """The streams of all partitions of this member. A partition that stays also stays with its stream."""
        threads = self._threads({tp.topic for tp in mine})
        subscribed = [tp for tp in mine if tp.topic in threads]
        if len(subscribed) < len(mine):
            other = next(tp for tp in mine if tp.topic not in threads)
            log.warning("partitions of topics that are not subscribed to are assigned, such as %s: ignored", other)
        streams = divide(COOPERATIVE_STICKY, threads, subscribed, self._owned.streams)
        names: dict[str, dict[int, str]] = {}
        for tp, stream in streams.items():
            names.setdefault(tp.topic, {})[tp.partition] = thread_id(self._consumer_id, stream)
        assignor = self._config.remote_assignor or ""
        return Assignment(epoch, self.member_id, False, assignor, streams, names, fresh=False)

    def _threads(self, topics: Collection[str]) -> Mapping[str, int]:
        """The number of streams of each topic that is subscribed to."""
        if self._pattern is not None:
            return self._subscription.threads(dict.fromkeys(topics, 1), ())
        return self._topics.threads

    def _settle(self) -> None:
        """Note that the assignment is carried out, if it is."""
        with self._changed:
            if self._member.state is not State.STABLE or self.state == "stable":
                return
            epoch = self._member.epoch
        self.state = "stable"
        self._check_at = 0.0 if not self._owned.streams and self._subscription.names else float("inf")
        count = len(self._owned.streams)
        log.info("group %r: epoch %d, member %s: %d partitions", self._config.group, epoch, self.member_id, count)

    # --- topics: the membership thread --------------------------------------------------------------------------------

    def _watch_at(self) -> float:
        """When the topics that match a filter must be checked. The coordinator does it if it has the pattern."""
        return float("inf") if self._pattern is not None else self._topics.check_at

    def _check_topics(self) -> None:
        now = time.monotonic()
        if self._watch_at() <= now and self._topics.check() is not None:
            log.info("group %r: the topics that match the subscription have changed", self._config.group)
            with self._changed:
                self._member.subscribe(self._interest())
                self._changed.notify_all()
        if self._check_at <= now:
            self._find_missing()

    def _find_missing(self) -> None:
        """This member has no partition: find out whether its topics exist, for the message of a ConsumerTimeout."""
        names = self._subscription.names or ()
        self._check_at = time.monotonic() + self._config.metadata_max_age
        try:
            found = self._coordinator.listing(names, {}, CHECK_SECONDS).partitions
        except BrokerUnavailable as error:
            log.debug("group %r: %s", self._config.group, error)
            return
        missing = tuple(sorted(name for name in names if not found.get(name)))
        if missing and missing != self._missing:
            log.warning("group %r: waiting for topics that do not exist: %s", self._config.group, ", ".join(missing))
        self._missing = missing
        if missing:
            self._check_at = time.monotonic() + CHECK_SECONDS

    # --- failures and the end: the membership thread ------------------------------------------------------------------

    def _pause(self, seconds: float) -> None:
        """Wait. Raises Interrupted when closing, and what has ended the membership meanwhile."""
        with self._changed:
            self._changed.wait_for(self._has_ended, max(0.0, min(seconds, threading.TIMEOUT_MAX)))
            self._raise_end()

    def _has_ended(self) -> bool:
        fenced = self._member.state is State.FENCED
        return self._closing.is_set() or self._heartbeats.error is not None or fenced

    def _on_lost(self, error: MembershipLost) -> None:
        """Revoke all partitions as lost, then join again."""
        log.warning("group %r: membership lost: %s", self._config.group, error)
        with self._changed:
            self._member.fenced()
            self._commits.suspend()
        self._owned.revoke_all(lost=True)
        self.state, self._round_began = "joining", None
        with self._changed:
            self._member.rejoin()
            self._changed.notify_all()

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
        with self._changed:
            heartbeat = self._member.leave()
        if heartbeat is not None and not lost:
            self._life.leave(
                self._leave_coordinator,
                lambda connection, seconds: ask_group_heartbeat(connection, self._config.group, heartbeat, seconds),
                self._config.client.request_timeout,
            )


def _new_member_id() -> str:
    """A random id in the form of Kafka's own: 22 letters."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


def _server_pattern(config: ConsumerConfig, subscription: StreamSubscription) -> str | None:
    """The regular expression that the coordinator evaluates; None if this member finds the topics by itself."""
    pattern = subscription.pattern
    if pattern is None or not config.exclude_internal:
        return pattern
    # RE2 cannot leave out names, so a pattern that matches internal topics stays here.
    return None if subscription.threads(dict.fromkeys(INTERNAL_TOPICS, 1), ()) else pattern
