"""The consumer's metrics (H16): their names, what is counted while it runs, and a snapshot of it all.

Whoever works counts as little as possible: one call per chunk that is handed out, one per fetch and per commit, none
per message. Positions, queues and the group's state are not counted at all: a snapshot looks at them when it is made.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from penstock.metrics.source import PARTITION, Metric, Sample

WINDOW_SECONDS = 10
"""What "per second" looks back on: long enough for commits and fetches that wait, short enough to see a stall."""

TOPIC = ("topic",)

QUEUE_SIZE = Metric("consumerQueueSize", "gauge", "Fetched chunks that wait for a stream's reader", ("topic", "thread"))
OWNED_PARTITIONS = Metric("consumerOwnedPartitions", "gauge", "Partitions that are this consumer's now", TOPIC)
PENDING_RECORDS = Metric("consumerPendingRecords", "gauge", "Records that wait in all partitions of this consumer")
RECORDS_LAG = Metric("consumerRecordsLag", "gauge", "Records between position and end of the log", PARTITION)
CURRENT_OFFSET = Metric("consumerCurrentOffset", "gauge", "Offset of the next record to hand out", PARTITION)
LATEST_OFFSET = Metric("consumerLatestOffset", "gauge", "Offset at which reading ends now", PARTITION)
COMMITTED_OFFSET = Metric("consumerCommittedOffset", "gauge", "Offset that this consumer committed last", PARTITION)
MESSAGES = Metric("consumerMessages", "counter", "Messages handed out", TOPIC)
BYTES = Metric("consumerBytes", "counter", "Bytes handed out, as Kafka stores them", TOPIC)
MESSAGES_PER_SECOND = Metric("consumerMessagesPerSecond", "gauge", "Messages handed out per second", TOPIC)
BYTES_PER_SECOND = Metric("consumerBytesPerSecond", "gauge", "Bytes handed out per second", TOPIC)
ALL_MESSAGES_PER_SECOND = Metric(
    "consumerAllTopicsMessagesPerSecond", "gauge", "Messages handed out per second, all topics"
)
ALL_BYTES_PER_SECOND = Metric("consumerAllTopicsBytesPerSecond", "gauge", "Bytes handed out per second, all topics")
FETCH_REQUESTS = Metric("consumerFetchRequests", "counter", "Fetch requests that brokers have answered")
FETCH_REQUESTS_PER_SECOND = Metric("consumerFetchRequestsPerSecond", "gauge", "Fetch requests answered per second")
COMMITS_SUCCEEDED = Metric("consumerCommitsSucceeded", "counter", "Commits that the group's coordinator took")
COMMITS_FAILED = Metric("consumerCommitsFailed", "counter", "Commits that failed or were refused")
COMMITS_PER_SECOND = Metric("consumerCommitsPerSecond", "gauge", "Commits that succeeded, per second")
REBALANCES = Metric("consumerRebalances", "counter", "Rebalances this consumer went through")
REBALANCE_SECONDS = Metric("consumerRebalanceSeconds", "counter", "Time spent in them")
LAST_REBALANCE_SECONDS = Metric("consumerLastRebalanceSeconds", "gauge", "Time that the last rebalance took")
OUT_OF_RANGE_RESETS = Metric("consumerOutOfRangeResets", "counter", "Positions that were gone, and reset by the rule")
CORRUPT_REFETCHES = Metric("consumerCorruptRefetches", "counter", "Damaged chunks that were fetched again")
MALFORMED_RECORDS = Metric("consumerMalformedRecords", "counter", "Records that did not parse (typed batches)")
DROPPED_RECORDS = Metric("consumerDroppedRecords", "counter", "Of those, left out: dropped, or sent to deadLetterTopic")
SKIPPED_RECORDS = Metric("consumerSkippedRecords", "counter", "Records that an own deserializer left out")

EVENT_TIME_WATERMARK = Metric(
    "consumerEventTimeWatermark", "gauge", "Combined event-time watermark, in seconds since 1970"
)
EVENT_TIME_LAG = Metric(
    "consumerEventTimeLag", "gauge", "Seconds that the combined event-time watermark is behind the clock"
)
LATE_RECORDS = Metric(
    "consumerLateRecords", "counter", "Records whose event time the combined watermark had already passed"
)
PARTITION_WATERMARK = Metric(
    "consumerPartitionEventTimeWatermark",
    "gauge",
    "Event-time watermark of a partition, in seconds since 1970",
    PARTITION,
)
PARTITION_IDLE = Metric(
    "consumerPartitionIdle", "gauge", "1 while a partition is idle and holds no other back", PARTITION
)
PARTITION_HELD = Metric(
    "consumerPartitionHeld",
    "gauge",
    "1 while a partition is held back, because it is too far ahead of others",
    PARTITION,
)

CONSUMER_METRICS = (
    QUEUE_SIZE,
    OWNED_PARTITIONS,
    PENDING_RECORDS,
    RECORDS_LAG,
    CURRENT_OFFSET,
    LATEST_OFFSET,
    COMMITTED_OFFSET,
    MESSAGES,
    BYTES,
    MESSAGES_PER_SECOND,
    BYTES_PER_SECOND,
    ALL_MESSAGES_PER_SECOND,
    ALL_BYTES_PER_SECOND,
    FETCH_REQUESTS,
    FETCH_REQUESTS_PER_SECOND,
    COMMITS_SUCCEEDED,
    COMMITS_FAILED,
    COMMITS_PER_SECOND,
    REBALANCES,
    REBALANCE_SECONDS,
    LAST_REBALANCE_SECONDS,
    OUT_OF_RANGE_RESETS,
    CORRUPT_REFETCHES,
    MALFORMED_RECORDS,
    DROPPED_RECORDS,
    SKIPPED_RECORDS,
    EVENT_TIME_WATERMARK,
    EVENT_TIME_LAG,
    LATE_RECORDS,
    PARTITION_WATERMARK,
    PARTITION_IDLE,
    PARTITION_HELD,
)


@dataclass(frozen=True, slots=True)
class ConsumerPartition:
    """One partition of this consumer. What is not known yet is None."""

    topic: str
    partition: int
    thread_id: str
    position: int | None = None
    """The next offset to hand out."""
    end: int | None = None
    """Where reading ends now: the high watermark, or the last stable offset under read_committed."""
    committed: int | None = None
    watermark: int | None = None
    """Its event-time watermark, in milliseconds since 1970."""
    idle: bool | None = None
    """Whether it had no records for so long that it holds no other back; None without a watermark strategy."""
    held: bool | None = None
    """Whether it is held back, because it is too far ahead of others."""

    @property
    def lag(self) -> int | None:
        """Records that wait, never below 0 (H11)."""
        return None if self.position is None or self.end is None else max(0, self.end - self.position)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class TopicFlow:
    """What was handed out of one topic, in all and per second, and how many of its partitions are ours."""

    topic: str
    owned: int = 0
    messages: int = 0
    bytes: int = 0
    messages_per_second: float = 0.0
    bytes_per_second: float = 0.0


@dataclass(frozen=True, slots=True)
class StreamQueue:
    """Chunks that wait in one stream. `topic` is empty for a stream over all topics that a filter lets through."""

    topic: str
    thread_id: str
    size: int


@dataclass(frozen=True, slots=True)
class ConsumerMetrics:
    """A consumer at one moment. Rates look back on the last WINDOW_SECONDS."""

    group: str
    consumer_id: str
    partitions: tuple[ConsumerPartition, ...] = ()
    """Ordered by topic and number."""
    topics: tuple[TopicFlow, ...] = ()
    """Ordered by name: those that were read since the consumer was made, and those with a partition now."""
    queues: tuple[StreamQueue, ...] = ()
    fetch_requests: int = 0
    fetch_requests_per_second: float = 0.0
    commits_succeeded: int = 0
    commits_failed: int = 0
    commits_per_second: float = 0.0
    rebalances: int = 0
    rebalance_seconds: float = 0.0
    last_rebalance_seconds: float | None = None
    out_of_range_resets: int = 0
    corrupt_refetches: int = 0
    malformed_records: int = 0
    dropped_records: int = 0
    skipped_records: int = 0
    watermark: int | None = None
    """The combined event-time watermark, in milliseconds since 1970; None while it is not known."""
    event_time_lag: float | None = None
    """How many seconds that is behind the clock."""
    late_records: int | None = None
    """Records that were not after it when they were handed out; None without a watermark strategy."""

    @property
    def lag(self) -> int | None:
        """Records that wait in all partitions whose end is known; None where none is known."""
        known = [lag for partition in self.partitions if (lag := partition.lag) is not None]
        return sum(known) if known or not self.partitions else None

    @property
    def messages(self) -> int:
        return sum(topic.messages for topic in self.topics)

    @property
    def bytes(self) -> int:
        return sum(topic.bytes for topic in self.topics)

    @property
    def messages_per_second(self) -> float:
        return sum(topic.messages_per_second for topic in self.topics)

    @property
    def bytes_per_second(self) -> float:
        return sum(topic.bytes_per_second for topic in self.topics)

    def samples(self) -> Iterator[Sample]:
        """Everything that is known, as samples."""
        for metric, value in (
            (PENDING_RECORDS, self.lag),
            (ALL_MESSAGES_PER_SECOND, self.messages_per_second),
            (ALL_BYTES_PER_SECOND, self.bytes_per_second),
            (FETCH_REQUESTS, self.fetch_requests),
            (FETCH_REQUESTS_PER_SECOND, self.fetch_requests_per_second),
            (COMMITS_SUCCEEDED, self.commits_succeeded),
            (COMMITS_FAILED, self.commits_failed),
            (COMMITS_PER_SECOND, self.commits_per_second),
            (REBALANCES, self.rebalances),
            (REBALANCE_SECONDS, self.rebalance_seconds),
            (LAST_REBALANCE_SECONDS, self.last_rebalance_seconds),
            (OUT_OF_RANGE_RESETS, self.out_of_range_resets),
            (CORRUPT_REFETCHES, self.corrupt_refetches),
            (MALFORMED_RECORDS, self.malformed_records),
            (DROPPED_RECORDS, self.dropped_records),
            (SKIPPED_RECORDS, self.skipped_records),
            (EVENT_TIME_WATERMARK, _seconds(self.watermark)),
            (EVENT_TIME_LAG, self.event_time_lag),
            (LATE_RECORDS, self.late_records),
        ):
            if value is not None:
                yield metric, (), value
        for queue in self.queues:
            yield QUEUE_SIZE, (queue.topic, queue.thread_id), queue.size
        for flow in self.topics:
            yield OWNED_PARTITIONS, (flow.topic,), flow.owned
            yield MESSAGES, (flow.topic,), flow.messages
            yield BYTES, (flow.topic,), flow.bytes
            yield MESSAGES_PER_SECOND, (flow.topic,), flow.messages_per_second
            yield BYTES_PER_SECOND, (flow.topic,), flow.bytes_per_second
        for each in self.partitions:
            for metric, figure in (
                (RECORDS_LAG, each.lag),
                (CURRENT_OFFSET, each.position),
                (LATEST_OFFSET, each.end),
                (COMMITTED_OFFSET, each.committed),
                (PARTITION_WATERMARK, _seconds(each.watermark)),
                (PARTITION_IDLE, each.idle),
                (PARTITION_HELD, each.held),
            ):
                if figure is not None:
                    yield metric, (each.topic, str(each.partition)), figure


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


class Meter:
    """A sum, and how fast it grows: kept by the second for as long as a window is. Guarded by its owner's lock."""

    __slots__ = ("_began", "_slots", "_stamps", "total")

    def __init__(self, now: float) -> None:
        self.total = 0
        self._began = now
        self._slots = [0] * WINDOW_SECONDS
        self._stamps = [-1] * WINDOW_SECONDS
        """The second that a slot was written in last."""

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
        # The seconds that the slots really stand for, at least one: the first chunk of all is no rate.
        return recent / max(1.0, now - max(self._began, oldest))


class ConsumerCounters:
    """What a connector counts. Every method may be called by any thread; none is called with a message."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        now = clock()
        self._messages: dict[str, Meter] = {}
        self._bytes: dict[str, Meter] = {}
        self._fetches = Meter(now)
        self._commits = Meter(now)
        self._commits_failed = 0
        self._resets = 0
        self._corrupt = 0
        self._malformed = self._dropped = self._skipped = 0

    def consumed(self, topic: str, messages: int, size: int) -> None:
        """So many messages of a topic were handed out together. Readers' threads."""
        now = self._clock()
        with self._lock:
            if topic not in self._messages:
                self._messages[topic], self._bytes[topic] = Meter(now), Meter(now)
            self._messages[topic].add(messages, now)
            self._bytes[topic].add(size, now)

    def fetched(self) -> None:
        """A broker has answered a fetch request. Fetchers' threads."""
        now = self._clock()
        with self._lock:
            self._fetches.add(1, now)

    def committed(self) -> None:
        now = self._clock()
        with self._lock:
            self._commits.add(1, now)

    def commit_failed(self) -> None:
        with self._lock:
            self._commits_failed += 1

    def out_of_range(self, *_: object) -> None:
        """A position was gone and is reset. The leader finder's thread; of whose it was, nothing is kept."""
        with self._lock:
            self._resets += 1

    def corrupt(self, *_: object) -> None:
        """A damaged chunk is fetched again. Readers' threads."""
        with self._lock:
            self._corrupt += 1

    def typed(self, malformed: int, dropped: int, skipped: int) -> None:
        """A typed batch was made, and so many of its records became no whole row. Readers' threads."""
        with self._lock:
            self._malformed += malformed
            self._dropped += dropped
            self._skipped += skipped

    def snapshot(
        self,
        group: str,
        consumer_id: str,
        partitions: Iterable[ConsumerPartition],
        queues: Iterable[StreamQueue],
        *,
        rebalances: int = 0,
        rebalance_seconds: float = 0.0,
        last_rebalance_seconds: float | None = None,
        watermark: int | None = None,
        late_records: int | None = None,
    ) -> ConsumerMetrics:
        """What was counted, beside what is seen of partitions, queues and the group right now."""
        standing = tuple(sorted(partitions, key=lambda each: (each.topic, each.partition)))
        owned: dict[str, int] = {}
        for each in standing:
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
                standing,
                tuple(flows),
                tuple(queues),
                fetch_requests=self._fetches.total,
                fetch_requests_per_second=self._fetches.per_second(now),
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
                watermark=watermark,
                event_time_lag=None if watermark is None else time.time() - watermark / 1000,
                late_records=late_records,
            )
