"""Commits durable offsets to a consumer group, in a thread of its own (F21 to F25).

1. The trigger thread passes the newest durable offsets to `durable()`, which never blocks. There is one slot: newer
   offsets replace those that wait, so that of several finished batches only the last is committed (F22, F24).
2. The committing thread takes the offsets and makes the network call. One commit is in flight at a time.
3. The committer counts successes and failures. A failure is logged and has no other consequence (F25): the checkpoint
   decides, and the committer sends the same offsets again after a backoff.

Offsets name the next record to read, as Kafka's committed offsets do (F23).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from penstock.masking import get_logger
from penstock.model.topic_partition import TopicPartition

log = get_logger(__name__)

FIRST_BACKOFF = 1.0
LONGEST_BACKOFF = 30.0
"""Seconds before the next commit after a failed one; doubled each time. Spark polls an idle topic some hundred times a
second: without a backoff, a group without write permission would fill the log."""

REFRESH_AFTER = 3600.0
"""Seconds after which the same offsets are committed again. Kafka deletes the offsets of a group without members
`offsets.retention.minutes` (seven days) after their last commit, also if the topic is idle."""

ABORT_INTERVAL = 0.1
"""Seconds between two attempts to abort a hanging call: the first may come while it has no connection."""


class Committer:
    """Commits durable offsets in a thread of its own.

    `commit` makes the network call and raises if it fails; only the committing thread calls it. `abort` ends a `commit`
    that hangs; the thread in `close` calls it. `interval`: None commits at once (on-checkpoint mode). Seconds commit
    the newest durable offsets at that interval (periodic mode), first after one interval, as Kafka's auto commit does.
    """

    def __init__(
        self,
        commit: Callable[[Mapping[TopicPartition, int]], None],
        *,
        interval: float | None = None,
        abort: Callable[[], None] | None = None,
        name: str = "penstock-committer",
    ) -> None:
        self._commit = commit
        self._interval = interval
        self._abort = abort
        self._name = name
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._waiting: Mapping[TopicPartition, int] | None = None
        self._in_flight: Mapping[TopicPartition, int] | None = None
        self._replaced = 0
        self._not_before = 0.0
        self._refresh_at = 0.0
        self._backoff = FIRST_BACKOFF
        self._flushing = 0
        self._closed = False

        self.succeeded = 0
        """Commits that Kafka accepted. Written by the committing thread, read by any."""
        self.failed = 0
        """Commits that failed. Written by the committing thread, read by any."""
        self.committed: Mapping[TopicPartition, int] = {}
        """The offsets of the last successful commit. Never changed in place: any thread may keep it."""

    def durable(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit these offsets, which are in the checkpoint. Never blocks. Called by the trigger thread, also with the
        same offsets again.

        Raises ValueError for a negative offset, which is not an offset of a log (F23).
        """
        with self._changed:
            if self._closed or not offsets or offsets == self._waiting:
                return
            latest = self.committed if self._in_flight is None else self._in_flight
            if offsets == latest and (self._in_flight is not None or time.monotonic() < self._refresh_at):
                self._waiting = None
                self._changed.notify_all()
                return
            negative = {tp: offset for tp, offset in offsets.items() if offset < 0}
            if negative:
                places = ", ".join(f"{tp}: {offset}" for tp, offset in sorted(negative.items()))
                raise ValueError(f"only offsets of records can be committed, not {places}")
            if self._waiting is not None:
                self._log_replaced()
            self._waiting = dict(offsets)
            if self._thread is None:
                self._not_before = time.monotonic() + (self._interval or 0.0)
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Wait until the newest offsets are committed or have failed, without waiting for interval or backoff.

        Returns False if the timeout passes first. Called by the trigger thread.
        """
        with self._changed:
            self._flushing += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: self._waiting is None and self._in_flight is None, timeout)
            finally:
                self._flushing -= 1

    def close(self, timeout: float) -> None:
        """Flush, then end the thread, within `timeout`, also if the network call hangs. A second call does nothing.
        Called by the trigger thread, or by the thread that stops the query."""
        deadline = time.monotonic() + timeout
        self.flush(max(0.0, timeout - min(1.0, timeout / 4)))
        with self._changed:
            if not self._closed and (lost := self._waiting or self._in_flight) is not None:
                log.warning(
                    "%s: closed before the offsets of %d partitions were committed. Nothing is lost: they are in the "
                    "checkpoint, and the next run commits them",
                    self._name,
                    len(lost),
                )
            self._closed = True
            self._waiting = None
            self._changed.notify_all()
            thread = self._thread
        if thread is None or thread is threading.current_thread():
            return
        while thread.is_alive():
            # Also after the deadline: a call that is not aborted would hang for its own timeout.
            if self._in_flight is not None and self._abort is not None:
                self._abort()
            if (left := deadline - time.monotonic()) <= 0:
                break
            thread.join(min(left, ABORT_INTERVAL))
        if thread.is_alive():
            log.warning("%s did not end within %g s", self._name, timeout)

    # --- the committing thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (offsets := self._take()) is not None:
            error: str | None = None
            try:
                self._commit(offsets)
            except Exception as failure:  # F25: no failure ends the query
                error = f"{type(failure).__name__}: {failure}"
            with self._changed:
                self._settle(offsets, error)
                self._in_flight = None
                self._changed.notify_all()

    def _take(self) -> Mapping[TopicPartition, int] | None:
        """The next offsets to commit, when interval or backoff has passed; None when closed. Waits until `durable`,
        `flush` or `close` notify it."""
        with self._changed:
            while not self._closed:
                wait = 0.0 if self._flushing else self._not_before - time.monotonic()
                if self._waiting is not None and wait <= 0:
                    self._in_flight, self._waiting = self._waiting, None
                    self._replaced = 0
                    self._not_before = time.monotonic() + (self._interval or 0.0)
                    return self._in_flight
                self._changed.wait(None if self._waiting is None else wait)
            return None

    def _settle(self, offsets: Mapping[TopicPartition, int], error: str | None) -> None:
        now = time.monotonic()
        if error is None:
            self.succeeded += 1
            self.committed = offsets
            self._refresh_at = now + REFRESH_AFTER
            self._backoff = FIRST_BACKOFF
            return
        self.failed += 1
        self._not_before = max(self._not_before, now + self._backoff)
        self._backoff = min(self._backoff * 2, LONGEST_BACKOFF)
        if not self._closed:
            log.warning(
                "%s: committing the offsets of %d partitions failed (%d so far): %s. The query and its checkpoint are "
                "not affected. Tools that look at the group see an older position until a commit succeeds. If this "
                "persists, check that the principal may write to the group, or set option commitMode to disabled",
                self._name,
                len(offsets),
                self.failed,
                error,
            )

    def _log_replaced(self) -> None:
        """Log once per commit in flight. In periodic mode replacing is normal, and not logged."""
        self._replaced += 1
        if self._interval is None and self._replaced == 1:
            log.info("%s: a commit is still in flight; only the newest of the waiting offsets are kept", self._name)
