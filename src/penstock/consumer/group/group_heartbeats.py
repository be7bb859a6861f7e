"""Sends the heartbeats of a member of the protocol `consumer`, in a thread of its own.

Heartbeats bring the epoch and the assignment, so they continue while the membership thread is busy: committing, running
the listener, reading offsets. A heartbeat is sent at the coordinator's interval, and at once if there is news for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.group.consumer_member import ConsumerMember
from penstock.consumer.group.coordinator import Coordinator
from penstock.errors import BrokerError, BrokerUnavailable
from penstock.masking import get_logger
from penstock.metrics.group_counters import GroupCounters
from penstock.wire.api.consumer_group_heartbeat import InstanceNotReleased, MemberHeartbeat, ask_group_heartbeat
from penstock.wire.api.group_member import GroupMember, MembershipLost
from penstock.wire.api.heartbeat_answer import JOINING, HeartbeatAnswer
from penstock.wire.brokers import RETRIABLE_ERRORS
from penstock.wire.transport.connection import Connection
from penstock.wire.transport.retry import Interrupted

log = get_logger(__name__)

ANSWER_SECONDS = 10.0
"""The time-out of a heartbeat. The coordinator answers at once, and a lost answer must not cost the session, which is
45 s by default (group.consumer.session.timeout.ms)."""

FIRST_INTERVAL = 3.0
"""The interval before the coordinator has named one."""

INSTANCE_SECONDS = 60.0
"""A static member that was killed holds its group.instance.id until its session ends. So long another one waits."""

LOG_AFTER = 1.0
LOG_INTERVAL = 60.0
"""Failures that last longer than LOG_AFTER are logged, and again after LOG_INTERVAL (H17)."""

NEVER = float("-inf")


class GroupHeartbeats:
    """The thread. `changed` guards the member; it is notified of each answer and of the end of the membership."""

    def __init__(
        self,
        config: ConsumerConfig,
        member: ConsumerMember,
        changed: threading.Condition,
        on_identity: Callable[[GroupMember | None], None],
        counters: GroupCounters,
    ) -> None:
        """`on_identity` gets the member as which to commit from now on."""
        self._config = config
        self._member = member
        self._changed = changed
        self._on_identity = on_identity
        self._counters = counters
        self._closed = threading.Event()
        self._coordinator = Coordinator(config.client, config.group, self._closed.wait, counters.retried)
        self._thread = threading.Thread(target=self._run, name=f"penstock-heartbeat-{config.group}", daemon=True)
        self._due = 0.0
        self._not_before = 0.0
        """A failed heartbeat is retried at this time."""
        self._interval = FIRST_INTERVAL
        self._failures = 0
        self._failing_since = 0.0
        self._logged_at = NEVER
        self.error: BaseException | None = None
        """What has ended the membership for good. Read with `changed` held."""
        self.lost: MembershipLost | None = None
        """Why the member was fenced last."""
        self.problem: str | None = None
        """The last failure; None after a success. Any thread."""

    # --- any thread ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def send_now(self) -> None:
        """Check the membership: a commit was refused."""
        with self._changed:
            self._due = 0.0
            self._changed.notify_all()

    def close(self, timeout: float) -> None:
        with self._changed:
            self._closed.set()
            self._changed.notify_all()
        deadline = time.monotonic() + timeout
        while self._thread.is_alive():
            self._coordinator.abort()  # also with a time-out of 0
            if (left := deadline - time.monotonic()) <= 0:
                break
            self._thread.join(min(left, 0.1))

    # --- the heartbeat thread -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (heartbeat := self._next()) is not None:
            try:
                self._send(heartbeat)
            except Interrupted:
                return

    def _next(self) -> MemberHeartbeat | None:
        """Wait until a heartbeat is due; None when closed."""
        with self._changed:
            while not self._closed.is_set():
                wait = self._seconds_left()
                if wait is not None and wait <= 0:
                    self._due = time.monotonic() + self._interval
                    return self._member.heartbeat()
                self._changed.wait(wait)
            return None

    def _seconds_left(self) -> float | None:
        """The time until the next heartbeat; None if none is to be sent."""
        if not self._member.sends or self.error is not None:
            return None
        due = self._not_before if self._member.sends_now else max(self._due, self._not_before)
        return due - time.monotonic()

    def _send(self, heartbeat: MemberHeartbeat) -> None:
        group = self._config.group
        timeout = min(self._config.client.request_timeout, ANSWER_SECONDS)
        attempts = self._coordinator.attempts(f"heartbeat in group {group!r}", timeout)

        def ask(connection: Connection) -> HeartbeatAnswer:
            began = time.monotonic()
            answer = ask_group_heartbeat(connection, group, heartbeat, attempts.remaining())
            self._counters.heartbeat(seconds := time.monotonic() - began)
            if heartbeat.epoch == JOINING:
                self._counters.joins.add(seconds)
            return answer

        try:
            answer = self._coordinator.ask(attempts, ask)
        except (*RETRIABLE_ERRORS, BrokerUnavailable) as error:
            if self._closed.is_set():
                raise Interrupted from error
            self._missed(heartbeat, error)
        except Interrupted:
            raise
        except MembershipLost as error:
            with self._changed:
                if self._member.fenced(heartbeat):
                    self.lost = error
                    self._on_identity(None)
                    self._changed.notify_all()
        except BaseException as error:  # a permission, a setting, a bug: the membership thread passes it on
            self._end(error)
        else:
            self._answered(heartbeat, answer)

    def _answered(self, heartbeat: MemberHeartbeat, answer: HeartbeatAnswer) -> None:
        with self._changed:
            if self._logged_at > NEVER:
                log.info("group %r: Kafka answers again", self._config.group)
            self._failures, self._logged_at, self._not_before, self.problem = 0, NEVER, 0.0, None
            self._interval = answer.interval
            self._due = time.monotonic() + self._interval
            if self._member.answered(heartbeat, answer):
                self._on_identity(self._member.identity)
            self._changed.notify_all()

    def _missed(self, heartbeat: MemberHeartbeat, error: Exception) -> None:
        client, now = self._config.client, time.monotonic()
        with self._changed:
            if self._failures == 0:
                self._failing_since = now
            self._member.unanswered(heartbeat)
            self._not_before = now + min(client.retry_backoff * 2**self._failures, client.retry_backoff_max)
            self._failures = min(self._failures + 1, 16)
            self.problem = str(error)
            lasts = now - self._failing_since
        if isinstance(error, InstanceNotReleased) and lasts >= INSTANCE_SECONDS:
            self._end(
                BrokerError(f"{error}. Give each consumer of the group an id of its own, or stop the other one first")
            )
        elif lasts >= LOG_AFTER and now - self._logged_at >= LOG_INTERVAL:
            self._logged_at = now
            log.warning("group %r: waiting for Kafka, and retrying: %s", self._config.group, error)

    def _end(self, error: BaseException) -> None:
        with self._changed:
            self.error = error
            self._on_identity(None)
            self._changed.notify_all()
