"""A place in a consumer group (H5, H7), through Kafka's coordinator: what ZooKeeper was to the old consumer.

kafka-python has all of this inside of its KafkaConsumer, and only there: its coordinator lives in `poll()`, next to a
fetcher of its own that would read every partition a second time. So the protocol's messages are its, and the rest is
ours.

The life of a membership, in one thread (`penstock-group-<group>`), round by round:

    find topics -> let go -> join -> (the leader: assign) -> sync -> let go -> take over -> stay -> and again

Eager assignors let go of everything before they join. Cooperative ones keep what they have, let go of what the new
assignment lacks, and then join once more, so that others can have it. A round ends when the coordinator says that the
group is rebalanced, when the topics have changed, when somebody asks for it, or when the membership is lost: then
everything is let go as lost, since others may have it already. Heartbeats come from the heart's thread throughout.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import replace

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.group.commits import Commits
from penstock.consumer.group.coordinator import Coordinator
from penstock.consumer.group.heartbeat import Heart
from penstock.consumer.group.ownership import Assignment, Holdings, Ownership, TakingOverFailed
from penstock.consumer.group.rebalance import offer, plan, read_assignment, read_members
from penstock.consumer.group.topics import TopicWatch
from penstock.consumer.group.user_data import MemberNote
from penstock.consumer.subscription import StreamSubscription
from penstock.errors import BrokerUnavailable, ProtocolError
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import RetriableError
from penstock.wire.api.group_membership import Joined, MemberIdRequired, ask_join, ask_leave, ask_sync
from penstock.wire.api.group_offsets import FencedInstance, GroupMember, MembershipLost, Rebalancing
from penstock.wire.brokers import HEALING
from penstock.wire.transport.connection import Connection, ConnectionLost
from penstock.wire.transport.retry import Interrupted

__all__ = ["Assignment", "Membership", "Ownership"]

log = logging.getLogger(__name__)

JOIN_SLACK = 5.0
"""A coordinator answers a JoinGroup when the rebalance time-out is over; its answer may take this much longer."""

SAY_AFTER = 1.0
"""What passes sooner is not worth a word: the first group of a new cluster has no coordinator for a moment."""

SAY_AGAIN = 60.0
"""How often a trouble that lasts is told again."""

ABORT_EVERY = 0.1
"""A blocked call is woken again and again: the first time it may just be between two connections."""

NAMING_SECONDS = 2.0
"""The first join is answered at once, with an id for the member. Whoever ends before it has heard that cannot say who
leaves, and the coordinator lets the whole group wait for it until its session is over: so it hears that answer."""

NEVER = float("-inf")


class Membership:
    """One member of one group. `start` and `close` once each; `commit` and `rejoin` as often as one likes."""

    def __init__(
        self, config: ConsumerConfig, consumer_id: str, subscription: StreamSubscription, ownership: Ownership
    ) -> None:
        self._config = config
        self._consumer_id = consumer_id
        self._ownership = ownership
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._given_up = threading.Event()
        """The time for closing is over: commits and farewells end, too."""
        self._deadline = float("inf")
        self._leaves = True
        self._naming_until = NEVER
        """Not to be woken before that: the coordinator is about to say our id."""

        self._changed = threading.Condition()
        self._member = GroupMember(instance_id=config.instance_id)
        self._news: BaseException | None = None
        """What the heart has to say of this member."""
        self._reason: str | None = None
        """Why to join again."""

        self._heart = Heart(config, self._told)
        self._commits = Commits(config, self._given_up, self._heart.beat_now)
        # Only for the membership thread:
        self._coordinator = Coordinator(config.client, config.group, self._closing.wait)
        self._farewell = Coordinator(config.client, config.group, self._given_up.wait)
        self._topics = TopicWatch(config, subscription, self._coordinator)
        self._holdings = Holdings(config, ownership, self._commits.own, self._pause)
        self._began = 0.0
        self._said_at = NEVER
        self._failures = 0
        self._failing_since = 0.0

        self.state = "new"
        """new, starting, joining, assigning, stable, closed or failed. Written by the membership thread, as are the
        next two; read by any."""
        self.rebalances = 0
        """Assignments taken over."""
        self.rebalance_seconds = 0.0
        self.last_rebalance_seconds: float | None = None
        """Time spent in that."""

    # --- any thread -----------------------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        return self._member.generation

    @property
    def member_id(self) -> str:
        return self._member.member_id

    @property
    def last_heartbeat(self) -> float:
        """When the coordinator last counted us as a member (monotonic)."""
        return self._heart.last_beat

    def start(self) -> None:
        assert self._thread is None, "a membership is started once"
        self.state = "starting"
        name = f"penstock-group-{self._config.group}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self, timeout: float, leave: bool = True) -> None:
        """Let go of everything, leave the group (static members do not), and end the thread; after `timeout` at the
        latest nobody waits for that any more. May be called twice."""
        deadline = time.monotonic() + timeout
        with self._changed:
            self._deadline = min(self._deadline, deadline)
            self._leaves = self._leaves and leave
            self._closing.set()
            self._changed.notify_all()
        self._commits.hurry(deadline)
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return
        while thread.is_alive() and (left := deadline - time.monotonic()) > 0:
            if time.monotonic() >= self._naming_until:
                self._coordinator.abort()
            thread.join(min(left, ABORT_EVERY))
        if thread.is_alive():
            self._given_up.set()
            self._coordinator.abort()
            self._commits.abort()
            self._farewell.abort()
            self._heart.close(0)
            thread.join(ABORT_EVERY)
            if thread.is_alive():
                log.warning("%s did not end within %g s of being told to", thread.name, timeout)

    def rejoin(self, reason: str) -> None:
        """Ask for a rebalance."""
        with self._changed:
            self._reason = reason
            self._changed.notify_all()

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        epochs: Mapping[TopicPartition, int] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Commit the next offsets to read of partitions that are ours.

        Raises CommitRefused when they are not (any more), and BrokerUnavailable when nobody answers in time.
        """
        self._commits.commit(offsets, epochs or {}, timeout)

    def _told(self, member: GroupMember, news: BaseException) -> None:
        """Called by the heart's thread."""
        with self._changed:
            if member == self._member:  # else it is news of a generation that is over
                self._news = news
                self._changed.notify_all()

    # --- the membership thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            while True:
                self._try_round()
        except Interrupted:
            log.debug("group %r: closing", self._config.group)
        except TakingOverFailed as failure:
            error = failure.error
        except BaseException as failure:  # whatever it is, it must reach who reads
            error = failure
        try:
            self._say_farewell(lost=isinstance(error, FencedInstance) or isinstance(self._news, MembershipLost))
        except BaseException as failure:
            error = error or failure
        self.state = "closed" if error is None else "failed"
        if error is not None:
            self._ownership.failed(error)

    def _try_round(self) -> None:
        try:
            try:
                self._round()
            except (*HEALING, BrokerUnavailable) as error:
                self._bear(error)
        except Rebalancing as error:
            log.info("%s", error)
        except MembershipLost as error:
            log.warning("group %r: membership lost: %s", self._config.group, error)
            self._forget(error.forgotten)

    def _round(self) -> None:
        """One generation of the group, from its beginning to its end."""
        self._began = time.monotonic()
        self._topics.find()
        held = self._holdings.streams
        stays = self._topics.threads if self._config.cooperative else {}
        self._holdings.release([tp for tp in held if tp.topic not in stays], lost=False)
        offered = MemberNote(
            self._consumer_id, self._topics.threads, self._holdings.fresh, dict(self._holdings.streams)
        )
        joined = self._join(offer(self._member, offered, self._config.client.client_rack))
        given = self._sync(joined, self._lead(joined) if joined.leader else {})
        self._take_over(joined, given, offered)
        self._stay()

    def _join(self, offered: bytes) -> Joined:
        self.state = "joining"
        self._commits.joining()
        with self._changed:
            reason, self._reason = self._reason or "", None
        self._heart.rest()
        try:
            joined = self._ask_join(offered, reason)
        except MemberIdRequired as answer:
            self._be_called(answer.member_id)
            try:
                joined = self._ask_join(offered, reason)
            except MemberIdRequired as again:  # it has given us one: not without a pause, and not for ever
                raise RetriableError(
                    f"group {self._config.group!r} wants a member id, and does not take its own"
                ) from again
        self._be_called(joined.member.member_id)
        self._heart.seen()  # perhaps long after the last beat: what comes next may fail once, too
        return joined

    def _ask_join(self, offered: bytes, reason: str) -> Joined:
        config = self._config
        # Not less than for other requests: others may take longer to join than we were given.
        timeout = max(config.rebalance_timeout, config.client.request_timeout) + JOIN_SLACK
        asked = time.monotonic()

        def join(connection: Connection) -> Joined:
            if not self._member.member_id and config.instance_id is None:
                self._naming_until = time.monotonic() + NAMING_SECONDS
            return ask_join(
                connection,
                config.group,
                self._member,
                dict.fromkeys(config.assignors, offered),
                session_timeout=config.session_timeout,
                rebalance_timeout=config.rebalance_timeout,
                reason=reason,
                timeout=timeout,
            )

        try:
            return self._coordinator.ask(self._coordinator.attempts(f"joining group {config.group!r}", timeout), join)
        except ConnectionLost:
            if config.heartbeat_interval <= time.monotonic() - asked < config.rebalance_timeout:
                # Members who join are held back, without heartbeats, and are members all that time: to now.
                self._heart.seen()
            raise
        except Rebalancing as error:
            raise RetriableError(str(error)) from error  # that is what we are doing: ask again, a little later
        finally:
            self._naming_until = NEVER

    def _lead(self, joined: Joined) -> dict[str, bytes]:
        """Assign the group's partitions, and watch its topics from now on."""
        group = read_members(joined.members)
        partitions = self._topics.lead(group.topics)
        if joined.skip_assignment:
            return {}
        log.info(
            "group %r: leads generation %d: %d partitions over %d members by %s",
            *(self._config.group, joined.member.generation, sum(partitions.values())),
            *(len(group.members), joined.assignor),
        )
        return plan(joined.assignor, group, partitions)

    def _sync(self, joined: Joined, assignments: Mapping[str, bytes]) -> bytes:
        self.state = "assigning"
        if not joined.leader:
            self._topics.follow()
        group = self._config.group
        attempts = self._coordinator.attempts(
            f"synchronising group {group!r}", self._config.rebalance_timeout + JOIN_SLACK
        )
        given = self._coordinator.ask(
            attempts,
            lambda connection: ask_sync(
                connection, group, joined.member, joined.assignor, assignments, attempts.remaining()
            ),
        )
        with self._changed:
            self._member = joined.member
            self._news = None
        self._commits.speak_as(joined.member)
        self._heart.beat_for(joined.member)
        return given

    def _take_over(self, joined: Joined, given: bytes, offered: MemberNote) -> None:
        try:
            assignment = read_assignment(joined, given, offered)
        except ValueError as error:
            raise ProtocolError(f"group {self._config.group!r}: its leader sent {error}") from error
        leaving = [tp for tp in self._holdings.streams if tp not in assignment.partitions]
        self._holdings.release(leaving, lost=False)
        if leaving:
            # The leader hands them out when we have joined again without them (KIP-429).
            self.rejoin("to let others have the partitions that were let go")
        self._holdings.take_over(assignment)
        self._relax()
        self.rebalances += 1
        self.last_rebalance_seconds = time.monotonic() - self._began
        self.rebalance_seconds += self.last_rebalance_seconds
        self.state = "stable"
        log.info(
            "group %r: generation %d, member %s: %d partitions",
            *(self._config.group, assignment.generation, assignment.member_id, len(assignment.partitions)),
        )

    def _stay(self) -> None:
        """Wait for what ends this round."""
        self._topics.plan_look()
        while True:
            self._pause(self._topics.look_at - time.monotonic(), for_reason=True)
            with self._changed:
                if self._reason is not None:
                    log.info("group %r: joining again: %s", self._config.group, self._reason)
                    return
            if time.monotonic() >= self._topics.look_at and (reason := self._topics.look()) is not None:
                self.rejoin(reason)

    def _pause(self, seconds: float, for_reason: bool = False) -> None:
        """Wait, but not when somebody wants us to join again, and raise what else ends a round, or the membership."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closing.is_set() or self._news is not None or (for_reason and self._reason is not None),
                max(0.0, min(seconds, threading.TIMEOUT_MAX)),
            )
            if self._closing.is_set():
                raise Interrupted
            news, self._news = self._news, None
        if news is not None:
            raise news

    # when it goes wrong

    def _bear(self, error: BaseException) -> None:
        """A trouble that may pass (H17): say so, rarely, and wait a little. What we had is lost after a session."""
        now = time.monotonic()
        if self._failures == 0:
            self._failing_since = now
        if now - self._failing_since >= SAY_AFTER and now - self._said_at >= SAY_AGAIN:
            self._said_at = now
            log.warning("group %r: waiting for Kafka, and trying again and again: %s", self._config.group, error)
        if self._holdings.streams and now - self._heart.last_beat >= self._config.session_timeout:
            raise MembershipLost("no coordinator was reached within session.timeout.ms") from error
        client = self._config.client
        backoff = min(client.retry_backoff * 2**self._failures, client.retry_backoff_max)
        self._failures = min(self._failures + 1, 16)
        self._pause(backoff)

    def _relax(self) -> None:
        """It works (again)."""
        if self._said_at > NEVER:
            log.info("group %r: Kafka answers again", self._config.group)
        self._said_at = NEVER
        self._failures = 0

    def _forget(self, forgotten: bool) -> None:
        """We are no member any more. The id is kept unless the coordinator has forgotten it, too: one that still has it
        has no dead member to wait for then."""
        self._heart.rest()
        self._commits.suspend()
        self._holdings.release_all(lost=True)
        with self._changed:
            member_id = "" if forgotten else self._member.member_id
            self._member = GroupMember(member_id, instance_id=self._config.instance_id)
            self._news = None

    def _be_called(self, member_id: str) -> None:
        with self._changed:
            self._member = replace(self._member, member_id=member_id)

    def _say_farewell(self, lost: bool) -> None:
        """Let go of everything and leave, so that others need not wait for the end of our session."""
        try:
            self._holdings.release_all(lost=lost)
        finally:
            # Whatever that has raised: a heart that beats on for nobody would keep others from our partitions for ever.
            self._leave(lost)

    def _leave(self, lost: bool) -> None:
        self._commits.suspend()
        self._heart.close(max(0.0, min(5.0, self._deadline - time.monotonic())))
        member, group = self._member, self._config.group
        if lost or not self._leaves or not member.member_id or member.instance_id is not None:
            return
        timeout = max(0.001, min(self._config.client.request_timeout, self._deadline - time.monotonic()))
        attempts = self._farewell.attempts(f"leaving group {group!r}", timeout)
        for again in (True, False):
            try:
                self._farewell.ask(
                    attempts, lambda connection: ask_leave(connection, group, member, "closed", attempts.remaining())
                )
                return
            except Exception as error:  # the coordinator finds out by itself, later
                if not again or not isinstance(error, HEALING):
                    log.info("group %r: could not say farewell: %s", group, error)
                    return
