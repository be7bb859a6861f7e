"""Counts what a connector does, and takes snapshots of it (H16).

Counting must be cheap: one call per chunk that is handed out, one per fetch and per commit, none per message.
Positions, queues and the group's state are not counted: a snapshot reads them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from penstock.metrics.consumer import ConsumerMetrics, StreamQueue, TopicFlow
from penstock.metrics.group_counters import NO_GROUP, GroupFigures
from penstock.metrics.latency import WINDOW_SECONDS, LatencyMeter
from penstock.metrics.partition import PartitionMetrics


class Meter:
    """A sum and its growth per second, over a window of whole seconds. Guarded by its owner's lock."""

    __slots__ = ("_began", "_slots", "_stamps", "total")

    def __init__(self, now: float) -> None:
        self.total = 0
        self._began = now
        self._slots = [0] * WINDOW_SECONDS
        self._stamps = [-1] * WINDOW_SECONDS
        """The second in which each slot was last written."""

    def add(self, amount: int, now: float) -> None:
        self.total += amount
        second = int(now)
        slot = second % WINDOW_SECONDS
        if self._stamps[slot] == second:
            self._slots[slot] += amount
        else:
            self._stamps[slot], self._slots[slot] = second, amount

    def per_second(self, now: float) -> float:
        oldest = int(now) - WINDOW_SECONDS + 1
        recent = sum(amount for amount, stamp in zip(self._slots, self._stamps, strict=True) if stamp >= oldest)
        # The seconds that the slots cover, at least one: a single first chunk is not a rate.
        return recent / max(1.0, now - max(self._began, oldest))


class ConsumerCounters:
    """The counters of a connector. Every method may be called by any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        now = clock()
        self._messages: dict[str, Meter] = {}
        self._bytes: dict[str, Meter] = {}
        self._fetches = Meter(now)
        self._fetch_times = LatencyMeter(clock)
        self._throttle_seconds = 0.0
        self._retries = 0
        self._commits = Meter(now)
        self._commits_failed = 0
        self._resets = 0
        self._corrupt = 0
        self._malformed = self._dropped = self._skipped = self._read = self._passed = 0

    def consumed(self, topic: str, messages: int, size: int) -> None:
        """Messages of a topic were handed out together. Called by the streams' threads."""
        now = self._clock()
        with self._lock:
            if topic not in self._messages:
                self._messages[topic], self._bytes[topic] = Meter(now), Meter(now)
            self._messages[topic].add(messages, now)
            self._bytes[topic].add(size, now)

    def fetched(self, seconds: float, throttle: float) -> None:
        """A broker has answered a fetch request, after this time, and throttles this client. Called by fetchers."""
        now = self._clock()
        self._fetch_times.add(seconds)
        with self._lock:
            self._fetches.add(1, now)
            self._throttle_seconds += throttle

    def retried(self) -> None:
        """A request has failed in a way that a retry may heal. Called by fetchers and the leader finder."""
        with self._lock:
            self._retries += 1

    def committed(self) -> None:
        now = self._clock()
        with self._lock:
            self._commits.add(1, now)

    def commit_failed(self) -> None:
        with self._lock:
            self._commits_failed += 1

    def out_of_range(self, *_: object) -> None:
        """A position was gone and is reset. Called by the leader finder."""
        with self._lock:
            self._resets += 1

    def corrupt(self) -> None:
        """A damaged chunk is fetched again. Called by the streams' threads."""
        with self._lock:
            self._corrupt += 1

    def typed(self, malformed: int, dropped: int, skipped: int, read: int, passed: int) -> None:
        """Records of a batch that were malformed, dropped and skipped, and those that `where` was applied to and that
        met it. Called by the streams' threads."""
        with self._lock:
            self._malformed += malformed
            self._dropped += dropped
            self._skipped += skipped
            self._read += read
            self._passed += passed

    def snapshot(
        self,
        group: str,
        consumer_id: str,
        partitions: Iterable[PartitionMetrics],
        queues: Iterable[StreamQueue],
        *,
        open_connections: int = 0,
        requests: GroupFigures = NO_GROUP,
        rebalances: int = 0,
        rebalance_seconds: float = 0.0,
        last_rebalance_seconds: float | None = None,
        watermark: int | None = None,
        late_records: int | None = None,
    ) -> ConsumerMetrics:
        """The counters, together with the current state of partitions, queues and the group."""
        ordered = tuple(sorted(partitions, key=lambda each: (each.topic, each.partition)))
        owned: dict[str, int] = {}
        for each in ordered:
            owned[each.topic] = owned.get(each.topic, 0) + 1
        now = self._clock()
        with self._lock:
            idle = Meter(now)
            flows = []
            for topic in sorted({*owned, *self._messages}):
                messages, size = self._messages.get(topic, idle), self._bytes.get(topic, idle)
                rates = messages.per_second(now), size.per_second(now)
                flows.append(TopicFlow(topic, owned.get(topic, 0), messages.total, size.total, *rates))
            return ConsumerMetrics(
                group,
                consumer_id,
                ordered,
                tuple(flows),
                tuple(queues),
                fetch_requests=self._fetches.total,
                fetch_requests_per_second=self._fetches.per_second(now),
                fetches=self._fetch_times.snapshot(),
                throttle_seconds=self._throttle_seconds,
                retries=self._retries + requests.retries,
                open_connections=open_connections,
                heartbeats=requests.heartbeats,
                since_heartbeat=requests.since_heartbeat,
                joins=requests.joins,
                syncs=requests.syncs,
                commits_succeeded=self._commits.total,
                commits_failed=self._commits_failed,
                commits_per_second=self._commits.per_second(now),
                rebalances=rebalances,
                rebalance_seconds=rebalance_seconds,
                last_rebalance_seconds=last_rebalance_seconds,
                out_of_range_resets=self._resets,
                corrupt_refetches=self._corrupt,
                malformed_records=self._malformed,
                dropped_records=self._dropped,
                skipped_records=self._skipped,
                read_records=self._read,
                passed_records=self._passed,
                watermark=watermark,
                event_time_lag=None if watermark is None else time.time() - watermark / 1000,
                late_records=late_records,
            )
