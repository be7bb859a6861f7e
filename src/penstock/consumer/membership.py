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
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from penstock.consumer.assignors import divide, thread_id
from penstock.consumer.config import ConsumerConfig
from penstock.consumer.membership_commits import Commits
from penstock.consumer.membership_coordinator import Coordinator, Listing
from penstock.consumer.membership_heart import Heart
from penstock.consumer.membership_notes import LeaderNote, MemberNote
from penstock.consumer.membership_plan import plan, read_members
from penstock.consumer.subscription import StreamSubscription
from penstock.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    BrokerUnavailable,
    NoGroupOffset,
    OptionError,
)
from penstock.topics import TopicPartition
from penstock.wire.brokers import HEALING
from penstock.wire.connection import Connection
from penstock.wire.deadline import Interrupted
from penstock.wire.groups import FencedInstance, GroupMember, MembershipLost, Rebalancing
from penstock.wire.membership import (
    Joined,
    MemberIdRequired,
    Subscription,
    ask_join,
    ask_leave,
    ask_sync,
    decode_assignment,
    encode_subscription,
)

log = logging.getLogger(__name__)

JOIN_SLACK = 5.0
"""A coordinator answers a JoinGroup when the rebalance time-out is over; its answer may take this much longer."""

LOOK_SECONDS = 5.0
"""How long one look at the cluster's topics may take; and when a failed one is repeated."""

LOOK_SOON = 1.0
"""How soon to look again for a topic that is subscribed and does not exist."""

SAY_AGAIN = 60.0
"""How often a trouble that lasts is told again."""

ABORT_EVERY = 0.1
"""A blocked call is woken again and again: the first time it may just be between two connections."""

LISTING_AGE = 1.0
"""A list of topics that is older is not what partitions are assigned by: others may have let us wait for minutes."""

HOPELESS = (AuthenticationFailed, AuthorizationFailed, NoGroupOffset, OptionError)
"""What does not get better by being tried again."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a generation of the group means to one member."""

    generation: int
    member_id: str
    leader: bool
    assignor: str
    partitions: Mapping[TopicPartition, int]
    """Ours, and the stream that each belongs to."""
    threads_of_group: Mapping[str, Mapping[int, str]]
    """By topic and partition the id of the thread that has it: in the whole group if its leader is a Penstock (and the
    group not too large for that), else our own."""
    fresh: bool
    """Whether all members of the group have just started."""


class Ownership(Protocol):
    """Who does the work on partitions. Every method is called by the membership thread."""

    def owned(self) -> list[TopicPartition]: ...

    def release(self, partitions: Collection[TopicPartition], *, lost: bool) -> None:
        """Let go of partitions: when it returns, nothing of them is handed out any more, and what was is committed
        (through `Membership.commit`), unless they are lost. Never raises."""

    def assign(self, assignment: Assignment) -> None:
        """Begin with what is new in an assignment. Raises if that failed: then nothing was begun."""

    def failed(self, error: BaseException) -> None:
        """The membership has ended by an error."""


class _TakingOverFailed(Exception):
    """The last try at taking over an assignment has failed."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Membership:
    """One member of one group. `start` and `close` once each; `commit` and `rejoin` as often as one likes."""

    def __init__(
        self, config: ConsumerConfig, consumer_id: str, subscription: StreamSubscription, ownership: Ownership
    ) -> None:
        self._config = config
        self._consumer_id = consumer_id
        self._subscription = subscription
        self._ownership = ownership
        self._closing = threading.Event()
        self._given_up = threading.Event()
        """The time for closing is over: commits and farewells end, too."""
        self._deadline = float("inf")
        self._leaves = True
        self._thread: threading.Thread | None = None
        self._coordinator = Coordinator(config.client, config.group, self._closing.wait)
        self._farewell = Coordinator(config.client, config.group, self._given_up.wait)
        self._heart = Heart(config, self._told)
        self._commits = Commits(config, self._given_up, self._heart.beat_now)

        self._changed = threading.Condition()
        self._member = GroupMember(instance_id=config.instance_id)
        self._news: BaseException | None = None
        """What the heart has to say of this member."""
        self._reason: str | None = None
        """Why to join again."""

        # Only for the membership thread:
        self._fresh = True
        self._streams: dict[TopicPartition, int] = {}
        """What is ours, and its streams."""
        self._threads: dict[str, int] = {}
        self._watched: dict[str, int] = {}
        """The leader: topics of the group, and the partitions they had when they were assigned."""
        self._is_leader = False
        self._look_at = 0.0
        self._began = 0.0
        self._said_at = float("-inf")
        self._failures = 0

        self.state = "new"
        """new, starting, joining, assigning, stable, closed or failed. Written by that thread, read by any."""
        self.rebalances = 0
        """Assignments taken over. Written by the membership thread, read by any."""
        self.rebalance_seconds = 0.0
        """Time spent in that. Written by the membership thread, read by any."""

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
            self._coordinator.abort()
            thread.join(min(left, ABORT_EVERY))
        if thread.is_alive():
            self._given_up.set()
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
        except _TakingOverFailed as failure:
            error = failure.error
        except BaseException as failure:  # whatever it is, it must reach who reads
            error = failure
        try:
            lost = isinstance(error, FencedInstance) or isinstance(self._news, MembershipLost)
            self._say_farewell(lost)
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
        listing = self._find_topics()
        self._threads = self._subscription.threads(listing.partitions, self._hidden(listing))
        leaving = [tp for tp in self._streams if not self._config.cooperative or tp.topic not in self._threads]
        self._release(leaving, lost=False)
        joined = self._join()
        given = self._sync(joined, listing)
        self._take_over(joined, given)
        self._stay()

    def _find_topics(self) -> Listing:
        """What the cluster has, as far as this member must know. Waits for a broker as long as it takes (H17)."""
        names = self._subscription.names
        expected = dict.fromkeys(self._threads, 1) if names is None else {}
        while True:
            try:
                return self._coordinator.listing(names, expected, LOOK_SECONDS)
            except BrokerUnavailable as error:
                self._bear(error)

    def _hidden(self, listing: Listing) -> frozenset[str]:
        return listing.internal if self._config.exclude_internal else frozenset()

    # joining

    def _join(self) -> Joined:
        self.state = "joining"
        self._commits.joining()
        with self._changed:
            reason, self._reason = self._reason, None
        protocols = self._protocols()
        self._heart.rest()
        while True:
            try:
                joined = self._ask_join(protocols, reason or "")
            except MemberIdRequired as answer:
                self._be_called(answer.member_id)
            else:
                self._be_called(joined.member.member_id)
                self._relax()
                return joined

    def _ask_join(self, protocols: Mapping[str, bytes], reason: str) -> Joined:
        config = self._config
        timeout = config.rebalance_timeout + JOIN_SLACK
        attempts = self._coordinator.attempts(f"joining group {config.group!r}", timeout)

        def ask(connection: Connection) -> Joined:
            return ask_join(
                connection,
                config.group,
                self._member,
                protocols,
                session_timeout=config.session_timeout,
                rebalance_timeout=config.rebalance_timeout,
                reason=reason,
                timeout=timeout,
            )

        return self._coordinator.ask(attempts, ask)

    def _protocols(self) -> dict[str, bytes]:
        """What we tell the leader, the same under the name of every assignor we can do with."""
        note = MemberNote(self._consumer_id, self._threads, self._fresh, self._streams)
        subscription = Subscription(
            tuple(sorted(self._threads)),
            note.encode(self._member.generation),
            tuple(sorted(self._streams)),
            self._member.generation if self._streams else -1,
            self._config.client.client_rack or None,
        )
        return dict.fromkeys(self._config.assignors, encode_subscription(subscription))

    def _sync(self, joined: Joined, listing: Listing) -> bytes:
        self.state = "assigning"
        self._is_leader = joined.leader
        assignments: dict[str, bytes] = {}
        if joined.leader:
            assignments = self._lead(joined, listing)
        else:
            self._watched = {}
        config = self._config
        attempts = self._coordinator.attempts(
            f"synchronising group {config.group!r}", config.rebalance_timeout + JOIN_SLACK
        )
        given = self._coordinator.ask(
            attempts,
            lambda connection: ask_sync(
                connection, config.group, joined.member, joined.assignor, assignments, attempts.remaining()
            ),
        )
        self._become(joined.member)
        self._heart.beat_for(joined.member)
        return given

    def _lead(self, joined: Joined, listing: Listing) -> dict[str, bytes]:
        """Assign the group's partitions, and remember which topics to watch."""
        group = read_members(joined.members)
        names = self._subscription.names
        if names is not None and not group.topics <= set(names):
            # All of the cluster's topics: by name, one that a member made up would be an error of ours.
            names = None
        if names != self._subscription.names or time.monotonic() - self._began > LISTING_AGE:
            expected = {topic: count for topic, count in self._watched.items() if topic in group.topics}
            listing = self._coordinator.listing(names, expected, self._config.session_timeout / 2)
        self._watched = {topic: listing.partitions.get(topic, 0) for topic in group.topics}
        missing = sorted(topic for topic, count in self._watched.items() if count == 0)
        if missing:
            log.warning("group %r: waiting for topics that do not exist: %s", self._config.group, ", ".join(missing))
        if joined.skip_assignment:
            return {}
        assignments = plan(joined.assignor, group, self._watched)
        log.info(
            "group %r: leads generation %d: %d partitions over %d members by %s",
            *(self._config.group, joined.member.generation, sum(self._watched.values())),
            *(len(group.members), joined.assignor),
        )
        return assignments

    # taking over

    def _take_over(self, joined: Joined, given: bytes) -> None:
        try:
            mine, user_data = decode_assignment(given)
        except ValueError as error:
            raise Rebalancing(f"the group's leader sent {error}") from error
        strange = [tp for tp in mine if tp.topic not in self._threads]
        if strange:
            log.warning("group %r: left alone what was not subscribed to: %s", self._config.group, strange[0])
            mine = [tp for tp in mine if tp.topic in self._threads]
        released = [tp for tp in self._streams if tp not in set(mine)]
        self._release(released, lost=False)
        assignment = self._assignment(joined, mine, LeaderNote.decode(user_data))
        if released:
            # Others may have them now; the leader hands them out when we have joined again (KIP-429).
            self.rejoin("to let others have the partitions that were let go")
        self._assign(assignment)
        self.rebalances += 1
        self.rebalance_seconds += time.monotonic() - self._began
        self.state = "stable"
        log.info(
            "group %r: generation %d, member %s: %d partitions",
            *(self._config.group, assignment.generation, assignment.member_id, len(assignment.partitions)),
        )

    def _assignment(self, joined: Joined, mine: list[TopicPartition], note: LeaderNote | None) -> Assignment:
        streams = self._told_streams(mine, note)
        if streams is None:
            streams = divide(joined.assignor, self._threads, mine, self._streams)
        streams |= self._streams  # whatever a leader says: what stays is not moved
        threads: dict[str, dict[int, str]] = {} if note is None else note.threads_of_group(self._consumer_id)
        for tp, stream in streams.items():
            threads.setdefault(tp.topic, {})[tp.partition] = thread_id(self._consumer_id, stream)
        return Assignment(
            joined.member.generation,
            joined.member.member_id,
            joined.leader,
            joined.assignor,
            streams,
            threads,
            note is not None and note.fresh and note.member_id == joined.member.member_id and self._fresh,
        )

    def _told_streams(self, mine: list[TopicPartition], note: LeaderNote | None) -> dict[TopicPartition, int] | None:
        """The streams that the leader chose, if it has chosen, and we have them."""
        if note is None or any(not 0 <= note.streams.get(tp, -1) < self._threads[tp.topic] for tp in mine):
            return None
        return {tp: note.streams[tp] for tp in mine}

    def _assign(self, assignment: Assignment) -> None:
        """Hand an assignment over, again and again if it must be (H7)."""
        self._own({**self._streams, **assignment.partitions})
        tries = self._config.rebalance_retries
        try:
            for left in reversed(range(tries + 1)):
                try:
                    self._ownership.assign(assignment)
                    break
                except Interrupted:
                    raise
                except Exception as error:
                    if left == 0 or isinstance(error, HOPELESS):
                        raise _TakingOverFailed(error) from error
                    log.warning("group %r: taking over failed, %d more tries: %s", self._config.group, left, error)
                    self._wait(self._config.rebalance_backoff)
                    self._heed()
        except BaseException:
            owned = self._ownership.owned()
            self._own({tp: stream for tp, stream in self._streams.items() if tp in owned})
            raise
        self._fresh = False

    # staying

    def _stay(self) -> None:
        """Wait for what ends this round."""
        self._plan_look()
        while True:
            self._wait(self._look_at - time.monotonic(), for_reason=True)
            self._heed()
            with self._changed:
                if self._reason is not None:
                    log.info("group %r: joining again: %s", self._config.group, self._reason)
                    return
            if time.monotonic() >= self._look_at:
                self._look()

    def _wait(self, seconds: float, for_reason: bool = False) -> None:
        """Wait, but not when there is news of the membership, or a reason to join again, or when we are closing."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closing.is_set() or self._news is not None or (for_reason and self._reason is not None),
                max(0.0, min(seconds, threading.TIMEOUT_MAX)),
            )

    def _heed(self) -> None:
        """Raise what ends a round, or the membership."""
        if self._closing.is_set():
            raise Interrupted
        with self._changed:
            news, self._news = self._news, None
        if news is not None:
            raise news

    def _plan_look(self) -> None:
        """Only leaders watch how many partitions there are; whoever has a filter watches which topics there are."""
        age = self._config.metadata_max_age
        if not self._is_leader and self._subscription.names is not None:
            age = float("inf")
        elif 0 in self._watched.values():
            age = min(age, LOOK_SOON)
        self._look_at = time.monotonic() + age

    def _look(self) -> None:
        """See whether the topics have changed (H5)."""
        names = self._subscription.names
        if names is not None and not self._watched.keys() <= set(names):
            names = None
        try:
            listing = self._coordinator.listing(names, self._watched, LOOK_SECONDS)
        except BrokerUnavailable as error:
            log.debug("group %r: %s", self._config.group, error)
            self._look_at = time.monotonic() + LOOK_SECONDS
            return
        counts = {topic: listing.partitions.get(topic, 0) for topic in self._watched}
        if self._subscription.threads(listing.partitions, self._hidden(listing)) != self._threads:
            self.rejoin("other topics match the subscription now")
        elif counts != self._watched:
            self.rejoin("topics have other partitions now")
        self._plan_look()

    # letting go

    def _release(self, partitions: Collection[TopicPartition], *, lost: bool) -> None:
        if partitions:
            log.info("group %r: %s %d partitions", self._config.group, "lost" if lost else "releases", len(partitions))
            self._ownership.release(partitions, lost=lost)
            self._own({tp: stream for tp, stream in self._streams.items() if tp not in partitions})

    def _forget(self, forgotten: bool) -> None:
        """We are no member any more. The id is kept unless the coordinator has forgotten it, too: one that still has it
        has no dead member to wait for then."""
        self._heart.rest()
        self._commits.suspend()
        self._release(list(self._streams), lost=True)
        with self._changed:
            member_id = "" if forgotten else self._member.member_id
            self._member = GroupMember(member_id, instance_id=self._config.instance_id)
            self._news = None

    def _bear(self, error: BaseException) -> None:
        """A trouble that may pass: say so, rarely, and wait a little. What we had is lost after a session's time."""
        now = time.monotonic()
        if now - self._said_at >= SAY_AGAIN:
            self._said_at = now
            log.warning("group %r: waiting for Kafka, and trying again and again: %s", self._config.group, error)
        if self._streams and now - self._heart.last_beat >= self._config.session_timeout:
            raise MembershipLost("no coordinator within session.timeout.ms") from error
        client = self._config.client
        backoff = min(client.retry_backoff * 2**self._failures, client.retry_backoff_max)
        self._failures = min(self._failures + 1, 16)
        self._wait(backoff)
        self._heed()

    def _relax(self) -> None:
        """It works (again)."""
        if self._said_at > float("-inf"):
            log.info("group %r: Kafka answers again", self._config.group)
        self._said_at = float("-inf")
        self._failures = 0

    def _be_called(self, member_id: str) -> None:
        with self._changed:
            self._member = replace(self._member, member_id=member_id)

    def _become(self, member: GroupMember) -> None:
        with self._changed:
            self._member = member
            self._news = None
        self._commits.speak_as(member)

    def _own(self, streams: dict[TopicPartition, int]) -> None:
        self._streams = streams
        self._commits.own(streams.keys())

    def _say_farewell(self, lost: bool) -> None:
        """Let go of everything and leave, so that others need not wait for the end of our session."""
        self._release(list(self._streams), lost=lost)
        self._heart.close(max(0.0, min(5.0, self._deadline - time.monotonic())))
        member = self._member
        if self._leaves and member.member_id and self._config.instance_id is None and not lost:
            timeout = max(0.001, min(self._config.client.request_timeout, self._deadline - time.monotonic()))
            attempts = self._farewell.attempts(f"leaving group {self._config.group!r}", timeout)
            try:
                self._farewell.ask(
                    attempts,
                    lambda connection: ask_leave(
                        connection, self._config.group, member, "closed", attempts.remaining()
                    ),
                )
            except Exception as error:  # the coordinator finds out by itself, later
                log.info("group %r: could not say farewell: %s", self._config.group, error)
