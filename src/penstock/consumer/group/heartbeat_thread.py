"""Sends a member's heartbeats, in a thread of its own.

Heartbeats continue while the membership thread is busy in a rebalance: committing, running the listener, reading
offsets. Without them the coordinator would remove a member whose listener is slow.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.group.coordinator import Coordinator
from penstock.errors import BrokerUnavailable
from penstock.masking import get_logger
from penstock.metrics.group_counters import GroupCounters
from penstock.wire.api.group_member import GroupMember, MembershipLost, Rebalancing
from penstock.wire.api.group_membership import ask_heartbeat
from penstock.wire.brokers import RETRIABLE_ERRORS
from penstock.wire.transport.connection import Connection
from penstock.wire.transport.retry import Interrupted

log = get_logger(__name__)


class HeartbeatThread:
    """Sends heartbeats for one member until it is suspended.

    `notify` gets the member and an error that the coordinator answered. The heartbeat thread calls it.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        notify: Callable[[GroupMember, BaseException], None],
        counters: GroupCounters,
    ) -> None:
        self._config = config
        self._notify = notify
        self._counters = counters
        self._closed = threading.Event()
        self._coordinator = Coordinator(config.client, config.group, self._closed.wait, counters.retried)
        self._changed = threading.Condition()
        self._member: GroupMember | None = None
        self._due = 0.0
        self._thread: threading.Thread | None = None
        self.last_heartbeat = float("-inf")
        """When the coordinator last confirmed the membership (monotonic). Written and read by any thread."""

    # --- any thread ---------------------------------------------------------------------------------------------------

    def send_for(self, member: GroupMember) -> None:
        """Send heartbeats for this member from now on. It has just joined."""
        with self._changed:
            self._member = member
            self.last_heartbeat = time.monotonic()
            self._due = self.last_heartbeat + self._config.heartbeat_interval
            if self._thread is None:
                name = f"penstock-heartbeat-{self._config.group}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def send_now(self) -> None:
        """Check the membership: a commit was refused."""
        with self._changed:
            self._due = 0.0
            self._changed.notify_all()

    def confirmed(self) -> None:
        """Another request has shown that the coordinator still counts this member."""
        with self._changed:
            self.last_heartbeat = time.monotonic()

    def suspend(self) -> None:
        """Send no heartbeats until `send_for`."""
        with self._changed:
            self._member = None

    def close(self, timeout: float) -> None:
        with self._changed:
            self._closed.set()
            self._member = None
            self._changed.notify_all()
            thread = self._thread
        deadline = time.monotonic() + timeout
        while thread is not None and thread.is_alive():
            self._coordinator.abort()  # also with a time-out of 0
            if (left := deadline - time.monotonic()) <= 0:
                break
            thread.join(min(left, 0.1))

    # --- the heartbeat thread -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (member := self._next()) is not None:
            try:
                self._send(member)
            except Interrupted:
                return

    def _next(self) -> GroupMember | None:
        """Wait until a heartbeat is due; returns its member, or None when closed."""
        with self._changed:
            while not self._closed.is_set():
                wait = self._due - time.monotonic()
                if self._member is not None and wait <= 0:
                    self._due = time.monotonic() + self._config.heartbeat_interval
                    return self._member
                self._changed.wait(None if self._member is None else wait)
            return None

    def _send(self, member: GroupMember) -> None:
        session = self._config.session_timeout
        left = self.last_heartbeat + session - time.monotonic()
        # A third of the session, so that one lost answer does not cost the membership.
        timeout = max(0.001, min(self._config.client.request_timeout, session / 3, left))
        attempts = self._coordinator.attempts(f"heartbeat in group {self._config.group!r}", timeout)
        group = self._config.group

        def heartbeat(connection: Connection) -> None:
            began = time.monotonic()
            try:
                ask_heartbeat(connection, group, member, attempts.remaining())
            except Rebalancing:
                self._counters.heartbeat(time.monotonic() - began)
                raise
            self._counters.heartbeat(time.monotonic() - began)

        try:
            self._coordinator.ask(attempts, heartbeat)
        except Rebalancing as error:
            if self._succeeded(member):
                self._notify(member, error)
        except (*RETRIABLE_ERRORS, BrokerUnavailable) as error:
            log.debug("heartbeat in group %r: %s", self._config.group, error)
            self._missed(member, error)
        except Interrupted:
            raise
        except Exception as error:  # membership lost, permission revoked, a bug: the membership thread decides
            # Not if suspended meanwhile: a member that joins again has left the generation of this answer.
            if self._stop_for(member):
                self._notify(member, error)
        else:
            self._succeeded(member)

    def _succeeded(self, member: GroupMember) -> bool:
        """Note an answer; returns whether heartbeats are still sent for this member."""
        with self._changed:
            if self._member == member:
                self.last_heartbeat = time.monotonic()
            return self._member == member

    def _missed(self, member: GroupMember, error: BaseException) -> None:
        session = self._config.session_timeout
        with self._changed:
            if self._member != member:
                return
            now = time.monotonic()
            expired = now - self.last_heartbeat >= session
            if expired:
                self._member = None
            else:
                backoff = min(self._config.heartbeat_interval, self._config.client.retry_backoff_max)
                self._due = min(now + backoff, self.last_heartbeat + session)
        if expired:
            lost = MembershipLost(f"no heartbeat was answered for {session:g} s (session.timeout.ms): {error}")
            lost.__cause__ = error
            self._notify(member, lost)

    def _stop_for(self, member: GroupMember) -> bool:
        """Suspend this member; returns whether heartbeats were sent for it."""
        with self._changed:
            if self._member != member:
                return False
            self._member = None
            return True
