"""One group of several kinds of clients: Penstock, kafka-python, librdkafka and Java, each leading it once (H6)."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer
from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from fixtures.leaks import LEAKS
from fixtures.members import Made, partitions, wait_for
from penstock.consumer.subscription import NamedTopics
from penstock.model.topic_partition import TopicPartition
from support.group_clients import JAVA, JavaConsumer, Polled, settled

KAFKA_PYTHON = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
pytestmark = [
    pytest.mark.usefixtures("kafka_python_leaks"),
    pytest.mark.filterwarnings(f"ignore:{LEAKS}:ResourceWarning"),
]


def penstock(kafka, group, topic, assignor, threads=2):
    made = Made(kafka, group, NamedTopics({topic: threads}), {"partition.assignment.strategy": assignor})
    made.membership.start()
    return made


def kafka_python(kafka, group, topic, assignor):
    consumer = KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=group,
        partition_assignment_strategy=[KAFKA_PYTHON[assignor]],
        heartbeat_interval_ms=200,
        session_timeout_ms=30_000,
        metadata_max_age_ms=2_000,
        enable_auto_commit=False,
    )
    # A topic just made may be missing in its first metadata: as the leader it would then share out nothing, and it does
    # not always look again.
    wait_for(lambda: consumer.partitions_for_topic(topic), f"partitions of {topic}")
    consumer.subscribe([topic])

    def poll():
        consumer.poll(timeout_ms=200)
        return {TopicPartition(tp.topic, tp.partition) for tp in consumer.assignment()}

    return Polled("kafka-python", poll, consumer.close)


def librdkafka(kafka, group, topic, assignor):
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,
            "partition.assignment.strategy": assignor,
            "heartbeat.interval.ms": 200,
            "session.timeout.ms": 30_000,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])

    def poll():
        consumer.poll(0.05)
        return {TopicPartition(tp.topic, tp.partition) for tp in consumer.assignment()}

    return Polled("librdkafka", poll, consumer.close)


KINDS = {"penstock": penstock, "kafka-python": kafka_python, "librdkafka": librdkafka}


@pytest.mark.parametrize("assignor", list(KAFKA_PYTHON))
@pytest.mark.parametrize("leader", list(KINDS))
def test_H6_a_mixed_group_assigns_all_partitions_whichever_client_leads(kafka, topic, group, leader, assignor):
    name = topic(partitions=8)
    everything = partitions(name, 8)
    members = {}
    try:
        for kind in sorted(KINDS, key=lambda kind: kind != leader):  # the first member leads
            members[kind] = KINDS[kind](kafka, group, name, assignor)
            settled(members.values(), everything)
        ours = members["penstock"]
        last = ours.recorder.assignments[-1]
        assert last.leader is (leader == "penstock")
        assert last.assignor == assignor
        assert not last.fresh or leader == "penstock"
        # A Penstock leader counts threads; others count members. In both cases the member's threads share its
        # partitions.
        assert len(ours.has) == 4 if leader == "penstock" else len(ours.has) in (2, 3)
        streams = list(ours.recorder.partitions.values())
        assert abs(streams.count(0) - streams.count(1)) <= 1
        assigned = last.threads_of_group[name]
        assert set(assigned) == ({p for _, p in everything} if leader == "penstock" else {p for _, p in ours.has})
        if assignor == "cooperative-sticky":
            _nothing_was_revoked_in_vain(ours)
        # The leader leaves, and another member takes over.
        members.pop(leader).close()
        settled(members.values(), everything)
    finally:
        for each in members.values():
            each.close()
    assert ours.recorder.errors == []


def _nothing_was_revoked_in_vain(ours):
    revoked = [tp for kind, tps in ours.recorder.events if kind == "revoked" for tp in tps]
    assert len(revoked) == len(set(revoked))
    assert not any(kind == "lost" for kind, _ in ours.recorder.events)


# --- Java -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("assignor", list(JAVA))
def test_H6_a_group_with_a_java_client_that_follows_and_then_leads(kafka, topic, group, assignor):
    name = topic(partitions=6)
    everything = partitions(name, 6)
    members = [penstock(kafka, group, name, assignor)]
    try:
        settled(members, everything)
        members.append(JavaConsumer(kafka, group, name, assignor))
        settled(members, everything)
        first, java = members
        assert first.recorder.assignments[-1].leader
        assert (len(first.has), len(java.has)) == (4, 2)
        members.remove(first)
        first.close()
        settled(members, everything)
        members.append(penstock(kafka, group, name, assignor))
        settled(members, everything)
        last = members[1].recorder.assignments[-1]
        assert not last.leader
        assert [list(last.partitions.values()).count(stream) for stream in (0, 1)] == [2, 1]
        if assignor == "cooperative-sticky":
            # Java still leads, and knows the partitions that Penstock owns: it revokes none of them when another member
            # joins.
            members.append(penstock(kafka, group, name, assignor))
            settled(members, everything)
            _nothing_was_revoked_in_vain(members[1])
            assert len(members[1].has) == 2
    finally:
        for each in members:
            each.close()
    assert first.recorder.errors == []
