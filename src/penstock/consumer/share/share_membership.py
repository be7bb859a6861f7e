"""Membership in a share group (Q1): one thread that sends heartbeats and carries out assignments.

The coordinator assigns partitions to fetch, and several members may have the same ones. So there is nothing to revoke
in order, and nothing to wait for: unlike in other groups, a rebalance stops no stream. What was acquired of a partition
that is taken away can still be acknowledged.

    JOINING ──answer──> STABLE ──fenced, or forgotten──> JOINING
       │                  │
       └──────leave───────┴──> LEFT
"""

from __future__ import annotations

import base64
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.group.coordinator import Coordinator
from penstock.consumer.group.membership_thread import MembershipThread, run_to_the_end
from penstock.consumer.group.topic_watch import CHECK_SECONDS, MISSING_TOPIC_SECONDS, TopicWatch
from penstock.consumer.share.share_partition import ShareChunkReader, SharePartition
from penstock.consumer.subscription import NamedTopics
from penstock.consumer.wait_reason import MembershipStatus
from penstock.errors import BrokerUnavailable
from penstock.masking import get_logger
from penstock.metrics.group_counters import GroupCounters
from penstock.model.acknowledgement import SharedPartition
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_member import MembershipLost, Rebalancing
from penstock.wire.api.heartbeat_answer import JOINING, LEAVING, HeartbeatAnswer, PartitionsById
from penstock.wire.api.share_group_heartbeat import ShareHeartbeat, ask_share_heartbeat
from penstock.wire.brokers import RETRIABLE_ERRORS
from penstock.wire.transport.connection import Connection
from penstock.wire.transport.retry import Interrupted

log = get_logger(__name__)

ANSWER_SECONDS = 10.0
"""The time-out of a heartbeat: a lost answer must not cost the session, which is 45 s by default
(group.share.session.timeout.ms)."""

FIRST_SECONDS = 0.1
"""After a join, heartbeats come after this time, and after twice as much each time, until partitions are assigned. The
coordinator prepares the partitions of a new group after it has answered the first heartbeat, so the assignment comes
with the second one. At the broker's interval that is five seconds later."""

LOG_AFTER, LOG_INTERVAL = 1.0, 60.0
"""Failures that last longer than LOG_AFTER are logged, and again after LOG_INTERVAL (H17)."""


class ShareMembership:
    """One member of one share group. `start` and `close` are called once each."""

    def __init__(
        self,
        config: ConsumerConfig,
        readers: Mapping[str, ShareChunkReader],
        counters: GroupCounters,
        *,
        on_assigned: Callable[[Collection[SharePartition], Collection[SharePartition]], None],
        on_failed: Callable[[BaseException], None],
    ) -> None:
        """`readers`: the stream of each topic that the member reads. `on_assigned` gets the new partitions, and
        those that were taken away."""
        self._config = config
        self._readers = readers
        self._on_assigned = on_assigned
        self._on_failed = on_failed
        self._changed = threading.Condition()
        self._life = MembershipThread(config.group, self._changed)
        self._closing = self._life.closing
        self.member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self.counters = counters
        self._coordinator = Coordinator(config.client, config.group, self._closing.wait, self.counters.retried)
        self._leave_coordinator = Coordinator(
            config.client, config.group, self._life.given_up.wait, self.counters.retried
        )
        self._topics = TopicWatch(config, NamedTopics(dict.fromkeys(readers, 1)), self._coordinator)
        # For the thread only:
        self._epoch = JOINING
        self._was_sent = False
        self._is_found = False
        """Whether the topics to subscribe to are known."""
        self._subscribed: tuple[str, ...] | None = None
        """The topics that the coordinator is known to have."""
        self._target: PartitionsById = {}
        self._beats = 0
        """Heartbeats since the last join."""
        self._names: dict[uuid.UUID, str] = {}
        self._assigned: dict[SharedPartition, SharePartition] = {}
        self._due = 0.0
        self._look_up_at = float("inf")
        self._failures, self._failing_since, self._logged_at = 0, 0.0, float("-inf")
        self._missing: tuple[str, ...] = ()
        self._problem: str | None = None

        self.state = "new"
        """new, joining, stable, closed or failed. The thread writes this and the next attributes; any thread reads."""
        self.rebalances = 0
        """Changes of the assignment."""
        self.rebalance_seconds = 0.0
        self.last_rebalance_seconds: float | None = None

    # --- any thread ---------------------------------------------------------------------------------------------------

    def assignment(self) -> list[TopicPartition]:
        """The partitions that this member fetches."""
        return sorted(each.tp for each in list(self._assigned.values()))

    def status(self) -> MembershipStatus:
        """What is known about the group now. Takes no lock."""
        is_stable = self.state == "stable"
        problem = None if is_stable else self._problem
        reason = None
        if is_stable and not self._missing and self._topics.threads:
            reason = (
                "no record is available: all are acknowledged, or acquired by members of the group. A new share group "
                "starts at the end, unless the group config share.auto.offset.reset is earliest"
                if self._assigned
                else f"no partition is assigned to this member of share group {self._config.group!r} yet"
            )
        return MembershipStatus(is_stable, problem, len(self._topics.threads), self._missing, reason=reason)

    def start(self) -> None:
        self.state = "joining"
        self._life.start(self._run)

    def close(self, timeout: float) -> None:
        """Leave the group and end the thread. Returns after `timeout` seconds at the latest."""
        self._life.close(
            timeout,
            True,
            end_commits=lambda deadline: None,
            wake=self._coordinator.abort,
            give_up=self._leave_coordinator.abort,
        )

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        def serve() -> None:
            while True:
                self._serve()

        error = run_to_the_end(self._config.group, serve, lambda error: self._leave())
        self.state = "closed" if error is None else "failed"
        if error is not None:
            self._on_failed(error)

    def _serve(self) -> None:
        """Wait for something to do, and do it."""
        now = time.monotonic()
        try:
            if self._is_found and self._topics.check_at <= now and self._topics.check() is not None:
                self._due = 0.0
            if self._due <= now:
                if not self._is_found:
                    self._topics.find()
                    self._topics.schedule_check()
                    self._is_found = True
                self._beat()
            if self._look_up_at <= now:
                self._carry_out()
        except (*RETRIABLE_ERRORS, BrokerUnavailable) as error:
            if self._closing.is_set():
                raise Interrupted from error
            self._missed(error)
        except Rebalancing:
            self._due = 0.0
        except MembershipLost as error:
            self._on_lost(error)
        with self._changed:
            check_at = self._topics.check_at if self._is_found else float("inf")
            wake_at = min(self._due, self._look_up_at, check_at)
            self._changed.wait_for(
                self._closing.is_set, max(0.0, min(wake_at - time.monotonic(), threading.TIMEOUT_MAX))
            )
        if self._closing.is_set():
            raise Interrupted

    def _wanted(self) -> tuple[str, ...]:
        return tuple(sorted(self._topics.threads))

    def _beat(self) -> None:
        config, wanted = self._config, self._wanted()
        is_new = self._epoch == JOINING or self._subscribed != wanted
        heartbeat = ShareHeartbeat(
            self.member_id,
            self._epoch,
            (config.client.rack or None) if self._epoch == JOINING else None,
            wanted if is_new else None,
        )
        timeout = min(config.client.request_timeout, ANSWER_SECONDS)
        attempts = self._coordinator.attempts(f"heartbeat in share group {config.group!r}", timeout)

        def ask(connection: Connection) -> HeartbeatAnswer:
            began = time.monotonic()
            answer = ask_share_heartbeat(connection, config.group, heartbeat, attempts.remaining())
            self.counters.heartbeat(seconds := time.monotonic() - began)
            if heartbeat.epoch == JOINING:
                self.counters.joins.add(seconds)
            return answer

        self._was_sent = True
        answer = self._coordinator.ask(attempts, ask)
        if self._logged_at > float("-inf"):
            log.info("share group %r: Kafka answers again", config.group)
        self._failures, self._logged_at, self._problem = 0, float("-inf"), None
        if self._epoch == JOINING:
            log.info("share group %r: joined as %s, epoch %d", config.group, self.member_id, answer.epoch)
        self._epoch, self._subscribed = answer.epoch, wanted
        if answer.assigned is not None:
            self._target = answer.assigned
        self._due = time.monotonic() + seconds_to_next(answer.interval, self._beats, bool(self._target))
        self._beats += 1
        if answer.assigned is not None:
            self._carry_out()
        if self.state != "stable":
            self.state = "stable"
            self._find_missing()

    def _carry_out(self) -> None:
        """Fetch the partitions of the assignment. Topics whose names no broker knows yet follow a little later."""
        self._look_up_at = float("inf")
        if any(topic not in self._names for topic in self._target):
            names = tuple(self._readers)
            try:
                self._names |= self._coordinator.listing(names, {}, CHECK_SECONDS).names
            except BrokerUnavailable as error:
                log.debug("share group %r: %s", self._config.group, error)
            if any(topic not in self._names for topic in self._target):
                self._look_up_at = time.monotonic() + MISSING_TOPIC_SECONDS
        target = {
            SharedPartition(topic, number): TopicPartition(self._names[topic], number)
            for topic, numbers in self._target.items()
            if self._names.get(topic) in self._readers
            for number in numbers
        }
        gone = [each for key, each in self._assigned.items() if key not in target]
        new = [
            SharePartition(tp, key, self.member_id, self._readers[tp.topic])
            for key, tp in sorted(target.items())
            if key not in self._assigned
        ]
        if gone or new:
            kept = {key: each for key, each in self._assigned.items() if key in target}
            self._assigned = kept | {each.key: each for each in new}
            self.rebalances += 1
            count = len(self._assigned)
            log.info("share group %r: epoch %d: %d partitions", self._config.group, self._epoch, count)
            self._on_assigned(new, gone)
        if self._missing and target:
            self._missing = ()

    def _find_missing(self) -> None:
        """Find out whether the topics exist, for the message of a ConsumerTimeout."""
        names = tuple(self._readers)
        if self._assigned:
            return
        try:
            found = self._coordinator.listing(names, {}, CHECK_SECONDS).partitions
        except BrokerUnavailable:
            return
        self._missing = tuple(sorted(name for name in names if not found.get(name)))
        if self._missing:
            names_text = ", ".join(self._missing)
            log.warning("share group %r: waiting for topics that do not exist: %s", self._config.group, names_text)

    def _missed(self, error: Exception) -> None:
        client, now = self._config.client, time.monotonic()
        if self._failures == 0:
            self._failing_since = now
        self._due = now + min(client.retry_backoff * 2**self._failures, client.retry_backoff_max)
        self._failures = min(self._failures + 1, 16)
        self._problem = str(error)
        if now - self._failing_since >= LOG_AFTER and now - self._logged_at >= LOG_INTERVAL:
            self._logged_at = now
            log.warning("share group %r: waiting for Kafka, and retrying: %s", self._config.group, error)

    def _on_lost(self, error: MembershipLost) -> None:
        """Join again under the same id. Sessions and locks do not depend on the membership: they continue."""
        log.warning("share group %r: membership lost: %s", self._config.group, error)
        self._epoch, self._subscribed, self._due, self.state = JOINING, None, 0.0, "joining"
        self._beats = 0

    def _leave(self) -> None:
        if self._was_sent and self._epoch != JOINING:
            heartbeat = ShareHeartbeat(self.member_id, LEAVING)
            self._life.leave(
                self._leave_coordinator,
                lambda connection, seconds: ask_share_heartbeat(connection, self._config.group, heartbeat, seconds),
                self._config.client.request_timeout,
            )


def seconds_to_next(interval: float, beats: int, is_assigned: bool) -> float:
    """The time from a heartbeat to the next one. `beats`: the number of heartbeats before since the join."""
    return interval if is_assigned else min(interval, FIRST_SECONDS * 2 ** min(beats, 16))
