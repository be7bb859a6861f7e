"""Measures the requests of a group's member: heartbeats, joins and syncs (F26)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from penstock.metrics.latency import NO_REQUESTS, Latency, LatencyMeter


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """A member's requests to its coordinator, at one moment."""

    heartbeats: Latency = NO_REQUESTS
    since_heartbeat: float | None = None
    """Seconds since the coordinator last answered a heartbeat; None if it has answered none."""
    joins: Latency = NO_REQUESTS
    syncs: Latency = NO_REQUESTS
    """Always 0 in a group of the protocol `consumer`, which has no such request."""
    retries: int = 0
    """Requests that have failed in a way that a retry may heal."""


NO_GROUP = GroupFigures()


class GroupCounters:
    """Any thread may call every method."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._retries = 0
        self._heartbeat_at: float | None = None
        self._heartbeats = LatencyMeter(clock)
        self.joins = LatencyMeter(clock)
        """From the request to join until its answer. In a classic group that is when the last member has joined."""
        self.syncs = LatencyMeter(clock)
        """From the request for the assignment until its answer, for which the leader must have assigned."""

    def heartbeat(self, seconds: float) -> None:
        """The coordinator has answered a heartbeat, after this time."""
        self._heartbeats.add(seconds)
        with self._lock:
            self._heartbeat_at = self._clock()

    def retried(self) -> None:
        """A request has failed in a way that a retry may heal."""
        with self._lock:
            self._retries += 1

    def snapshot(self) -> GroupFigures:
        with self._lock:
            at, retries = self._heartbeat_at, self._retries
        return GroupFigures(
            self._heartbeats.snapshot(),
            None if at is None else self._clock() - at,
            self.joins.snapshot(),
            self.syncs.snapshot(),
            retries,
        )
