"""The heartbeats of a member, in a thread of their own.

They go on while the membership thread is busy with what a rebalance asks of it: committing, the listener's own code,
reading offsets. Without them a member whose listener takes its time would be thrown out in the middle of it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.group.coordinator import Coordinator
from penstock.errors import BrokerUnavailable
from penstock.wire.api.group_membership import ask_heartbeat
from penstock.wire.api.group_offsets import GroupMember, MembershipLost, Rebalancing
from penstock.wire.brokers import HEALING
from penstock.wire.transport.retry import Interrupted

log = logging.getLogger(__name__)


class Heart:
    """Beats for a member until it is told to rest. `tell` is called by the heart's thread, with whom it beat for."""

    def __init__(self, config: ConsumerConfig, tell: Callable[[GroupMember, BaseException], None]) -> None:
        self._config = config
        self._tell = tell
        self._closed = threading.Event()
        self._coordinator = Coordinator(config.client, config.group, self._closed.wait)
        self._changed = threading.Condition()
        self._member: GroupMember | None = None
        self._due = 0.0
        self._thread: threading.Thread | None = None
        self.last_beat = float("-inf")
        """When the coordinator last answered that we are a member (monotonic). Written by any thread, read by any."""

    # --- any thread -----------------------------------------------------------------------------------------------

    def beat_for(self, member: GroupMember) -> None:
        """Beat for this member from now on: it has joined this moment."""
        with self._changed:
            self._member = member
            self.last_beat = time.monotonic()
            self._due = self.last_beat + self._config.heartbeat_interval
            if self._thread is None:
                name = f"penstock-heart-{self._config.group}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def beat_now(self) -> None:
        """Something looks wrong: find out."""
        with self._changed:
            self._due = 0.0
            self._changed.notify_all()

    def seen(self) -> None:
        """The coordinator has counted us as a member until now."""
        with self._changed:
            self.last_beat = time.monotonic()

    def rest(self) -> None:
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
            self._coordinator.abort()  # also where there is no time to wait for it
            if (left := deadline - time.monotonic()) <= 0:
                break
            thread.join(min(left, 0.1))

    # --- the heart's thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (member := self._next()) is not None:
            try:
                self._beat(member)
            except Interrupted:
                return

    def _next(self) -> GroupMember | None:
        """The member to beat for, when its time has come; None when closed."""
        with self._changed:
            while not self._closed.is_set():
                wait = self._due - time.monotonic()
                if self._member is not None and wait <= 0:
                    self._due = time.monotonic() + self._config.heartbeat_interval
                    return self._member
                self._changed.wait(None if self._member is None else wait)
            return None

    def _beat(self, member: GroupMember) -> None:
        session = self._config.session_timeout
        left = self.last_beat + session - time.monotonic()
        # A third, so that one answer that never comes does not cost the membership.
        timeout = max(0.001, min(self._config.client.request_timeout, session / 3, left))
        attempts = self._coordinator.attempts(f"heartbeat in group {self._config.group!r}", timeout)
        try:
            self._coordinator.ask(
                attempts, lambda connection: ask_heartbeat(connection, self._config.group, member, attempts.remaining())
            )
        except Rebalancing as error:
            if self._beaten(member):
                self._tell(member, error)
        except (*HEALING, BrokerUnavailable) as error:
            log.debug("heartbeat in group %r: %s", self._config.group, error)
            self._missed(member, error)
        except Interrupted:
            raise
        except Exception as error:  # MembershipLost, no permission any more, a bug: the membership thread decides
            # Not if it rests by now: a member that joins has left the generation behind that this answer speaks of.
            if self._stop_for(member):
                self._tell(member, error)
        else:
            self._beaten(member)

    def _beaten(self, member: GroupMember) -> bool:
        """Whether we still beat for it."""
        with self._changed:
            if self._member == member:
                self.last_beat = time.monotonic()
            return self._member == member

    def _missed(self, member: GroupMember, error: BaseException) -> None:
        session = self._config.session_timeout
        with self._changed:
            if self._member != member:
                return
            now = time.monotonic()
            over = now - self.last_beat >= session
            if over:
                self._member = None
            else:
                backoff = min(self._config.heartbeat_interval, self._config.client.retry_backoff_max)
                self._due = min(now + backoff, self.last_beat + session)
        if over:
            lost = MembershipLost(f"no heartbeat was answered for {session:g} s (session.timeout.ms): {error}")
            lost.__cause__ = error
            self._tell(member, lost)

    def _stop_for(self, member: GroupMember) -> bool:
        """Whether we did beat for it."""
        with self._changed:
            if self._member != member:
                return False
            self._member = None
            return True
