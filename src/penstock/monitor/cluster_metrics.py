"""The metrics of a cluster: their names, and the samples of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.metrics.metric import PARTITION, Metric, Sample, samples_of
from penstock.monitor.snapshot import Certainty, MonitoredGroup, MonitoredTopic, Snapshot

GROUP = ("group",)
POSITION = ("group", "topic", "partition")
TOPIC = ("topic",)

CLUSTER_UP = Metric("clusterUp", "gauge", "1 if brokers answered in the last round of questions")
CLUSTER_SNAPSHOT_TIME = Metric(
    "clusterSnapshotTime", "gauge", "When brokers last answered, in seconds since 1970: all other values are that old"
)
CLUSTER_BROKERS = Metric("clusterBrokers", "gauge", "Brokers that the cluster lists")
CLUSTER_PROBLEMS = Metric(
    "clusterProblems", "gauge", "Questions that failed in the last round; the log has the reasons"
)
CLUSTER_REQUESTS = Metric("clusterRequests", "counter", "Requests that this exporter has sent to brokers")
CLUSTER_ROUND_SECONDS = Metric("clusterRoundSeconds", "gauge", "How long the last round of questions took")
CLUSTER_LOOKUPS_LEFT = Metric(
    "clusterLookupsLeft", "gauge", "Positions whose lag in seconds is a bound, until their next record is looked up"
)

BROKER_LEADERS = Metric("brokerLeaders", "gauge", "Partitions that a broker leads", ("broker",))

TOPIC_PARTITIONS = Metric("topicPartitions", "gauge", "Partitions of a topic", TOPIC)
TOPIC_LEADERLESS = Metric("topicLeaderlessPartitions", "gauge", "Partitions of a topic without a leader", TOPIC)
TOPIC_BYTES = Metric("topicBytes", "gauge", "Bytes of a topic on the disks of leaders, without other replicas", TOPIC)
TOPIC_RECORDS_PER_SECOND = Metric(
    "topicRecordsPerSecond", "gauge", "Records written to a topic per second, averaged over about a minute", TOPIC
)
TOPIC_RETENTION_SECONDS = Metric(
    "topicRetentionSeconds", "gauge", "retention.ms of a topic in seconds; -1 is without a limit", TOPIC
)
PARTITION_BEGIN = Metric("partitionBeginOffset", "gauge", "First offset that a partition still has", PARTITION)
PARTITION_END = Metric(
    "partitionEndOffset", "gauge", "Offset of the next record to be written (high watermark)", PARTITION
)

GROUP_STATE = Metric(
    "groupState",
    "gauge",
    "1 for the present state of a group, of kind classic, consumer, share or streams",
    ("group", "kind", "state"),
)
GROUP_MEMBERS = Metric("groupMembers", "gauge", "Members of a group", GROUP)
GROUP_PENDING_RECORDS = Metric(
    "groupPendingRecords", "gauge", "Records between committed offsets and ends, all partitions of a group", GROUP
)
GROUP_LAG_SECONDS = Metric(
    "groupLagSeconds",
    "gauge",
    "The largest lag in seconds of a partition of a group: see groupPartitionLagSeconds",
    GROUP,
)
GROUP_DELETED = Metric(
    "groupDeletedRecords", "gauge", "Records that were deleted before a group read them, all partitions", GROUP
)
GROUP_CONSUMED = Metric(
    "groupRecordsPerSecond", "gauge", "Records per second by which the committed offsets of a group rise", GROUP
)
GROUP_TREND = Metric(
    "groupLagTrend", "gauge", "Records per second by which the lag of a group grows; below 0 it shrinks", GROUP
)
GROUP_CATCH_UP = Metric(
    "groupCatchUpSeconds", "gauge", "Seconds until a group has no lag at the present rates; missing if it grows", GROUP
)
POSITION_COMMITTED = Metric("groupCommittedOffset", "gauge", "Offset last committed: the next to read", POSITION)
POSITION_LAG = Metric("groupRecordsLag", "gauge", "Records between the committed offset and the end", POSITION)
POSITION_SECONDS = Metric(
    "groupPartitionLagSeconds",
    "gauge",
    "Age of the next record of a group, by its timestamp; 0 at the end. Where timestamps rise, no unread record is "
    "older; otherwise others may be. Exact, unless groupPartitionLagInexact says more",
    POSITION,
)
POSITION_INEXACT = Metric(
    "groupPartitionLagInexact",
    "gauge",
    "1 while a lag in seconds is an estimate within one record batch ('estimated'), or a bound: 'at most' until the "
    "next record is looked up, 'at least' if it was deleted. Missing while it is exact",
    (*POSITION, "certainty"),
)

CLUSTER_METRICS = (
    *(CLUSTER_UP, CLUSTER_SNAPSHOT_TIME, CLUSTER_BROKERS, CLUSTER_PROBLEMS, CLUSTER_REQUESTS, CLUSTER_ROUND_SECONDS),
    *(CLUSTER_LOOKUPS_LEFT, BROKER_LEADERS),
    *(TOPIC_PARTITIONS, TOPIC_LEADERLESS, TOPIC_BYTES, TOPIC_RECORDS_PER_SECOND, TOPIC_RETENTION_SECONDS),
    *(PARTITION_BEGIN, PARTITION_END),
    *(GROUP_STATE, GROUP_MEMBERS, GROUP_PENDING_RECORDS, GROUP_LAG_SECONDS, GROUP_DELETED, GROUP_CONSUMED, GROUP_TREND),
    *(GROUP_CATCH_UP, POSITION_COMMITTED, POSITION_LAG, POSITION_SECONDS, POSITION_INEXACT),
)


@dataclass(frozen=True, slots=True)
class ClusterMetrics:
    """The metrics of one snapshot."""

    snapshot: Snapshot
    by_partition: bool = True
    """Also for each partition of topics and groups."""

    def samples(self) -> Iterator[Sample]:
        """Samples of all known values."""
        snapshot = self.snapshot
        yield from samples_of(
            (
                (CLUSTER_UP, snapshot.is_reachable),
                (CLUSTER_SNAPSHOT_TIME, snapshot.answered_at),
                (CLUSTER_BROKERS, len(snapshot.brokers)),
                (CLUSTER_PROBLEMS, len(snapshot.problems)),
                (CLUSTER_REQUESTS, snapshot.requests),
                (CLUSTER_ROUND_SECONDS, snapshot.round_seconds),
                (CLUSTER_LOOKUPS_LEFT, snapshot.lookups_left),
            )
        )
        for broker in snapshot.brokers:
            yield BROKER_LEADERS, (str(broker.node_id),), broker.leads
        for topic in snapshot.topics:
            yield from self._of_topic(topic)
        for group in snapshot.groups:
            yield from self._of_group(group)

    def _of_topic(self, topic: MonitoredTopic) -> Iterator[Sample]:
        yield from samples_of(
            (
                (TOPIC_PARTITIONS, len(topic.partitions)),
                (TOPIC_LEADERLESS, topic.leaderless),
                (TOPIC_BYTES, topic.size),
                (TOPIC_RECORDS_PER_SECOND, topic.rate_in),
                (TOPIC_RETENTION_SECONDS, topic.retention_seconds),
            ),
            (topic.name,),
        )
        for each in topic.partitions if self.by_partition else ():
            offsets = ((PARTITION_BEGIN, each.begin), (PARTITION_END, each.end))
            yield from samples_of(offsets, (topic.name, str(each.partition)))

    def _of_group(self, group: MonitoredGroup) -> Iterator[Sample]:
        yield GROUP_STATE, (group.name, group.kind, group.state), 1
        yield from samples_of(
            (
                (GROUP_MEMBERS, len(group.members)),
                (GROUP_PENDING_RECORDS, group.lag),
                (GROUP_LAG_SECONDS, group.seconds),
                (GROUP_DELETED, group.deleted),
                (GROUP_CONSUMED, group.consumed),
                (GROUP_TREND, group.trend),
                (GROUP_CATCH_UP, group.catch_up_seconds),
            ),
            (group.name,),
        )
        for each in group.positions if self.by_partition else ():
            labels = (group.name, each.topic, str(each.partition))
            yield from samples_of(((POSITION_COMMITTED, each.committed), (POSITION_LAG, each.lag)), labels)
            if each.seconds is not None:
                yield POSITION_SECONDS, labels, each.seconds
                if each.certainty is not Certainty.EXACT:
                    yield POSITION_INEXACT, (*labels, each.certainty.value), 1
