"""One group of several kinds of clients: Penstock, kafka-python, librdkafka and Java, each leading it once (H6)."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from fixtures.leaks import LEAKS
from fixtures.members import DEADLINE, Made, partitions, wait_for
from penstock.consumer.subscription import NamedTopics
from penstock.model.topic_partition import TopicPartition
from penstock.testing.distribution import get_distribution

KAFKA_PYTHON = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
pytestmark = [
    pytest.mark.usefixtures("kafka_python_leaks"),
    pytest.mark.filterwarnings(f"ignore:{LEAKS}:ResourceWarning"),
]


class Polled:
    """A client that is polled by a thread of its own."""

    def __init__(self, name: str, poll: Callable[[], set[TopicPartition]], close: Callable[[], None]) -> None:
        self.name = name
        self.has: set[TopicPartition] = set()
        self._poll, self._close = poll, close
        self._error: Exception | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"test-{name}", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<{self.name} {sorted(self.has)} {self._error or ''}>"

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self.has = self._poll()
            except Exception as error:
                self._error = error
                raise
        self._close()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()


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


def settled(members, wanted):
    """Whether each partition has one owner, each member has some, and it stays so for a moment."""

    def fits():
        held = [tp for each in members for tp in each.has]
        return sorted(held) == sorted(wanted) and all(each.has for each in members)

    def stays():
        deadline = time.monotonic() + 0.5
        while fits():
            if time.monotonic() >= deadline:
                return True
            time.sleep(0.05)
        return False

    wait_for(stays, f"{len(wanted)} partitions over {members}")


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

JAVA = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


class JavaConsumer:
    """Kafka's console consumer. Only the broker knows its partitions."""

    def __init__(self, kafka, group, topic, assignor):
        self._group = group
        self._admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        distribution = get_distribution()
        properties = {
            "partition.assignment.strategy": JAVA[assignor],
            "group.protocol": "classic",
            "heartbeat.interval.ms": "200",
            "client.id": "java",
        }
        command = [str(distribution.java), *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"), "-cp"]
        command += [distribution.classpath(), "org.apache.kafka.tools.consumer.ConsoleConsumer"]
        command += ["--bootstrap-server", kafka.bootstrap_servers, "--topic", topic, "--group", group]
        for key, value in properties.items():
            command += ["--command-property", f"{key}={value}"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def __repr__(self):
        return f"<java {sorted(self.has)}>"

    @property
    def has(self):
        assert self._process.poll() is None, self._process.stderr.read().decode()
        asked = self._admin.describe_consumer_groups([self._group], request_timeout=5)
        try:
            described = asked[self._group].result(10)
        except (KafkaException, TimeoutError):  # no broker can answer now
            return set()
        if described.state != ConsumerGroupState.STABLE:
            return set()
        return {
            TopicPartition(tp.topic, tp.partition)
            for member in described.members
            if member.client_id == "java"
            for tp in member.assignment.topic_partitions
        }

    def close(self):
        self._process.terminate()
        self._process.communicate(timeout=DEADLINE)


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
