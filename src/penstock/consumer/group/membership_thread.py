"""The thread of a membership, and its end within a deadline.

`close` may be called by any thread. It wakes the membership's thread, which revokes its partitions, commits and leaves.
When the time is over, it gives up on that: all that still waits for brokers is aborted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from penstock.consumer.group.coordinator import Coordinator
from penstock.masking import get_logger
from penstock.wire.brokers import RETRIABLE_ERRORS
from penstock.wire.transport.connection import Connection
from penstock.wire.transport.retry import Interrupted

log = get_logger(__name__)

ABORT_INTERVAL = 0.1
"""A blocked call is aborted repeatedly: at the first abort it may be between two connections."""

HEARTBEATS_SECONDS = 5.0
"""For the heartbeat thread to end before the member leaves."""


class MembershipThread:
    """Started and closed once each."""

    def __init__(self, group: str, changed: threading.Condition) -> None:
        """`changed` guards the membership, and is notified when it is to end."""
        self._group = group
        self._changed = changed
        self._thread: threading.Thread | None = None
        self._deadline = float("inf")
        self._leaves = True
        self.closing = threading.Event()
        self.given_up = threading.Event()
        """The time for closing is over: commits and the leave request end, too."""

    # --- any thread ---------------------------------------------------------------------------------------------------

    def start(self, run: Callable[[], None]) -> None:
        assert self._thread is None, "a membership is started once"
        self._thread = threading.Thread(target=run, name=f"penstock-group-{self._group}", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def close(
        self,
        timeout: float,
        leave: bool,
        *,
        end_commits: Callable[[float], None],
        wake: Callable[[], None],
        give_up: Callable[[], None],
    ) -> None:
        """Returns after `timeout` seconds at the latest. May be called twice.

        `end_commits` gets the time (monotonic) at which commits must end. `wake` aborts what the thread waits for, and
        is called until the thread ends. `give_up` aborts its last requests, too.
        """
        deadline = time.monotonic() + timeout
        with self._changed:
            self._deadline = min(self._deadline, deadline)
            self._leaves = self._leaves and leave
            self.closing.set()
            self._changed.notify_all()
        end_commits(deadline)
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return
        while thread.is_alive() and (left := deadline - time.monotonic()) > 0:
            wake()
            thread.join(min(left, ABORT_INTERVAL))
        if thread.is_alive():
            self.given_up.set()
            give_up()
            thread.join(ABORT_INTERVAL)
            if thread.is_alive():
                log.warning("%s did not end within %g s", thread.name, timeout)

    # --- the membership thread ----------------------------------------------------------------------------------------

    @property
    def seconds_for_heartbeats(self) -> float:
        """The time that the heartbeat thread has to end."""
        return max(0.0, min(HEARTBEATS_SECONDS, self._deadline - time.monotonic()))

    def leave(self, coordinator: Coordinator, ask: Callable[[Connection, float], object], timeout: float) -> None:
        """Send the last request, so that the group does not wait for the end of this session. Tried twice."""
        if not self._leaves:
            return
        seconds = max(0.001, min(timeout, self._deadline - time.monotonic()))
        attempts = coordinator.attempts(f"leaving group {self._group!r}", seconds)
        for again in (True, False):
            try:
                coordinator.ask(attempts, lambda connection: ask(connection, attempts.remaining()))
                return
            except Exception as error:  # the coordinator removes the member when its session expires
                if not again or not isinstance(error, RETRIABLE_ERRORS):
                    log.info("group %r: could not leave: %s", self._group, error)
                    return


def run_to_the_end(
    group: str, serve: Callable[[], None], end: Callable[[BaseException | None], None]
) -> BaseException | None:
    """Serve until the owner closes or an error ends the membership. Returns that error, after `end` has got it."""
    error: BaseException | None = None
    try:
        serve()
    except Interrupted:
        log.debug("group %r: closing", group)
    except BaseException as failure:  # every error must reach the streams' threads
        error = failure
    try:
        end(error)
    except BaseException as failure:
        error = error or failure
    return error
