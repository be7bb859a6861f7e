"""Counts what this worker does at the brokers for each of its queries (F26).

Spark reuses a worker for many tasks. A task hands the counts in with its report. To send a report only for them would
cost each task a millisecond, so that happens once a second at most.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable

from penstock.model.worker_figures import LONGEST_NAME, WorkerFigures
from penstock.wire.transport.pool import POOL

REPORT_SECONDS = 1.0
"""Between two reports that have nothing but these counts."""

MOST_QUERIES = 100
"""Of so many queries a worker keeps counts."""


class WorkerCounters:
    """The counts of one query in this process. Any thread may call every method."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._fetches = self._awaited = self._retries = 0
        self._seconds = self._slowest = self._throttle = 0.0
        self._due = float("-inf")

    def fetched(self, seconds: float | None, throttle: float) -> None:
        """A broker has answered a fetch. `seconds`: how long that took, if it is known."""
        with self._lock:
            self._fetches += 1
            self._throttle += throttle
            if seconds is not None:
                self._awaited += 1
                self._seconds += seconds
                self._slowest = max(self._slowest, seconds)

    def retried(self) -> None:
        """A request has failed in a way that a retry may heal."""
        with self._lock:
            self._retries += 1

    def take(self, *, always: bool) -> WorkerFigures | None:
        """The figures for a report; None if the last one was a moment ago, unless `always`."""
        now = self._clock()
        with self._lock:
            if not always and now < self._due:
                return None
            self._due = now + REPORT_SECONDS
            slowest, self._slowest = self._slowest, 0.0
            return WorkerFigures(
                _worker_name(),
                self._fetches,
                self._awaited,
                round(self._seconds, 6),
                round(slowest, 6),
                round(self._throttle, 6),
                self._retries,
                POOL.open_count(),
            )


_by_query: dict[str, WorkerCounters] = {}
"""By the token of the query's planner."""
_lock = threading.Lock()


def counters_of(token: str) -> WorkerCounters:
    """The counters of a query in this process."""
    with _lock:
        found = _by_query.pop(token, None) or WorkerCounters()
        _by_query[token] = found  # the last one: the first is the one that was used least recently
        if len(_by_query) > MOST_QUERIES:
            del _by_query[next(iter(_by_query))]
        return found


def _worker_name() -> str:
    return f"{socket.gethostname()[: LONGEST_NAME - 20] or 'localhost'}:{os.getpid()}"


def _forget() -> None:
    """After a fork: the counts are the parent's."""
    global _lock
    _lock = threading.Lock()
    _by_query.clear()


os.register_at_fork(after_in_child=_forget)
