"""The consumer's metrics (H16): their names, and a snapshot of their values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.metrics import families
from penstock.metrics.latency import NO_REQUESTS, Latency
from penstock.metrics.metric import Metric, Sample, samples_of, seconds
from penstock.metrics.partition import PARTITION_FAMILIES, PartitionMetrics, total_lag

TOPIC = ("topic",)

QUEUE_SIZE = Metric("consumerQueueSize", "gauge", "Fetched chunks that wait for a stream's thread", ("topic", "thread"))
OWNED_PARTITIONS = Metric("consumerOwnedPartitions", "gauge", "Partitions that are assigned to this consumer", TOPIC)
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
FETCH_SECONDS = Metric(
    "consumerFetchSeconds",
    "counter",
    "Time of all answered fetch requests. It includes the time for which brokers wait for records",
)
FETCH_LATENCY = Metric("consumerFetchLatency", "gauge", "Average seconds of a fetch request, over ten seconds")
SLOWEST_FETCH = Metric("consumerSlowestFetch", "gauge", "Seconds of the slowest fetch request within ten seconds")
THROTTLE_SECONDS = Metric("consumerThrottleSeconds", "counter", "Time for which brokers have throttled this consumer")
RETRIES = Metric("consumerRetries", "counter", "Requests that failed in a way that a retry may heal")
OPEN_CONNECTIONS = Metric("consumerOpenConnections", "gauge", "Open connections of this consumer to brokers")
HEARTBEATS = Metric("consumerHeartbeats", "counter", "Heartbeats that the group's coordinator has answered")
HEARTBEAT_SECONDS = Metric("consumerHeartbeatSeconds", "counter", "Time of all answered heartbeats")
LAST_HEARTBEAT_SECONDS = Metric("consumerLastHeartbeatSeconds", "gauge", "Duration of the last answered heartbeat")
SINCE_HEARTBEAT = Metric(
    "consumerSinceHeartbeat", "gauge", "Seconds since the group's coordinator last answered a heartbeat"
)
JOINS = Metric("consumerJoins", "counter", "Requests to join the group that were answered")
JOIN_SECONDS = Metric(
    "consumerJoinSeconds",
    "counter",
    "Time of all answered requests to join. In a classic group it includes waiting for the other members",
)
LAST_JOIN_SECONDS = Metric("consumerLastJoinSeconds", "gauge", "Duration of the last answered request to join")
SYNCS = Metric("consumerSyncs", "counter", "Requests of a classic group for the assignment that were answered")
SYNC_SECONDS = Metric(
    "consumerSyncSeconds",
    "counter",
    "Time of all answered requests for the assignment. It includes waiting for the group's leader",
)
LAST_SYNC_SECONDS = Metric("consumerLastSyncSeconds", "gauge", "Duration of the last answered request for it")
COMMITS_PER_SECOND = Metric("consumerCommitsPerSecond", "gauge", "Commits that succeeded, per second")
REBALANCES = Metric("consumerRebalances", "counter", "Rebalances of this consumer")
REBALANCE_SECONDS = Metric("consumerRebalanceSeconds", "counter", "Time spent in rebalances")
LAST_REBALANCE_SECONDS = Metric("consumerLastRebalanceSeconds", "gauge", "Duration of the last rebalance")
OUT_OF_RANGE_RESETS = Metric("consumerOutOfRangeResets", "counter", "Positions reset because their offset was gone")
CORRUPT_REFETCHES = Metric("consumerCorruptRefetches", "counter", "Damaged chunks that were fetched again")

PENDING_RECORDS = families.PENDING_RECORDS.of_consumer()
COMMITS_SUCCEEDED = families.COMMITS_SUCCEEDED.of_consumer()
COMMITS_FAILED = families.COMMITS_FAILED.of_consumer()
MALFORMED_RECORDS = families.MALFORMED_RECORDS.of_consumer()
DROPPED_RECORDS = families.DROPPED_RECORDS.of_consumer()
SKIPPED_RECORDS = families.SKIPPED_RECORDS.of_consumer()
READ_RECORDS = families.READ_RECORDS.of_consumer()
PASSED_RECORDS = families.PASSED_RECORDS.of_consumer()
EVENT_TIME_WATERMARK = families.EVENT_TIME_WATERMARK.of_consumer()
EVENT_TIME_LAG = families.EVENT_TIME_LAG.of_consumer()
LATE_RECORDS = families.LATE_RECORDS.of_consumer()
RECORDS_LAG = families.RECORDS_LAG.of_consumer()
CURRENT_OFFSET = families.CURRENT_OFFSET.of_consumer()
LATEST_OFFSET = families.LATEST_OFFSET.of_consumer()
COMMITTED_OFFSET = families.COMMITTED_OFFSET.of_consumer()
PARTITION_WATERMARK = families.PARTITION_WATERMARK.of_consumer()
PARTITION_IDLE = families.PARTITION_IDLE.of_consumer()
PARTITION_HELD = families.PARTITION_HELD.of_consumer()

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
    FETCH_SECONDS,
    FETCH_LATENCY,
    SLOWEST_FETCH,
    THROTTLE_SECONDS,
    RETRIES,
    OPEN_CONNECTIONS,
    HEARTBEATS,
    HEARTBEAT_SECONDS,
    LAST_HEARTBEAT_SECONDS,
    SINCE_HEARTBEAT,
    JOINS,
    JOIN_SECONDS,
    LAST_JOIN_SECONDS,
    SYNCS,
    SYNC_SECONDS,
    LAST_SYNC_SECONDS,
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
    READ_RECORDS,
    PASSED_RECORDS,
    EVENT_TIME_WATERMARK,
    EVENT_TIME_LAG,
    LATE_RECORDS,
    PARTITION_WATERMARK,
    PARTITION_IDLE,
    PARTITION_HELD,
)


_OF_PARTITION = {family.name: family.of_consumer() for family in PARTITION_FAMILIES}


@dataclass(frozen=True, slots=True)
class TopicFlow:
    """The records of one topic that were handed out, in total and per second, and its assigned partitions."""

    topic: str
    owned: int = 0
    messages: int = 0
    bytes: int = 0
    messages_per_second: float = 0.0
    bytes_per_second: float = 0.0


@dataclass(frozen=True, slots=True)
class StreamQueue:
    """Chunks that wait in one stream. `topic` is empty for a stream over the topics of a filter."""

    topic: str
    thread_id: str
    size: int


@dataclass(frozen=True, slots=True)
class ConsumerMetrics:
    """A consumer at one moment. Rates are averages over the last WINDOW_SECONDS."""

    group: str
    consumer_id: str
    partitions: tuple[PartitionMetrics, ...] = ()
    """Ordered by topic and partition."""
    topics: tuple[TopicFlow, ...] = ()
    """Ordered by name: topics that were read since the consumer started, and topics with an assigned partition."""
    queues: tuple[StreamQueue, ...] = ()
    fetch_requests: int = 0
    fetch_requests_per_second: float = 0.0
    fetches: Latency = NO_REQUESTS
    """How long fetch requests take. Brokers without records wait, up to fetch.max.wait.ms."""
    throttle_seconds: float = 0.0
    retries: int = 0
    open_connections: int = 0
    heartbeats: Latency = NO_REQUESTS
    since_heartbeat: float | None = None
    """Seconds since the group's coordinator last answered a heartbeat; None if it has answered none."""
    joins: Latency = NO_REQUESTS
    syncs: Latency = NO_REQUESTS
    """Always 0 in a group of the protocol `consumer`, which has no such request."""
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
    read_records: int = 0
    passed_records: int = 0
    watermark: int | None = None
    """The combined event-time watermark, in milliseconds since 1970; None while unknown."""
    event_time_lag: float | None = None
    """Seconds by which the watermark lags the clock."""
    late_records: int | None = None
    """Records that were late when they were handed out; None without a watermark strategy."""

    @property
    def lag(self) -> int | None:
        """Records that wait in all partitions whose end is known; None if none is known."""
        return total_lag(self.partitions)

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
        """Samples of all known values."""
        values = (
            (PENDING_RECORDS, self.lag),
            (ALL_MESSAGES_PER_SECOND, self.messages_per_second),
            (ALL_BYTES_PER_SECOND, self.bytes_per_second),
            (FETCH_REQUESTS, self.fetch_requests),
            (FETCH_REQUESTS_PER_SECOND, self.fetch_requests_per_second),
            (FETCH_SECONDS, self.fetches.seconds),
            (FETCH_LATENCY, self.fetches.average),
            (SLOWEST_FETCH, self.fetches.slowest),
            (THROTTLE_SECONDS, self.throttle_seconds),
            (RETRIES, self.retries),
            (OPEN_CONNECTIONS, self.open_connections),
            (HEARTBEATS, self.heartbeats.count),
            (HEARTBEAT_SECONDS, self.heartbeats.seconds),
            (LAST_HEARTBEAT_SECONDS, self.heartbeats.last),
            (SINCE_HEARTBEAT, self.since_heartbeat),
            (JOINS, self.joins.count),
            (JOIN_SECONDS, self.joins.seconds),
            (LAST_JOIN_SECONDS, self.joins.last),
            (SYNCS, self.syncs.count),
            (SYNC_SECONDS, self.syncs.seconds),
            (LAST_SYNC_SECONDS, self.syncs.last),
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
            (READ_RECORDS, self.read_records),
            (PASSED_RECORDS, self.passed_records),
            (EVENT_TIME_WATERMARK, seconds(self.watermark)),
            (EVENT_TIME_LAG, self.event_time_lag),
            (LATE_RECORDS, self.late_records),
        )
        yield from samples_of(values)
        for queue in self.queues:
            yield QUEUE_SIZE, (queue.topic, queue.thread_id), queue.size
        for flow in self.topics:
            yield OWNED_PARTITIONS, (flow.topic,), flow.owned
            yield MESSAGES, (flow.topic,), flow.messages
            yield BYTES, (flow.topic,), flow.bytes
            yield MESSAGES_PER_SECOND, (flow.topic,), flow.messages_per_second
            yield BYTES_PER_SECOND, (flow.topic,), flow.bytes_per_second
        for partition in self.partitions:
            for metric, labels, value in partition.samples():
                yield _OF_PARTITION[metric.name], labels, value
