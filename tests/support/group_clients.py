"""Members of a group that are not Penstock's, and the wait until all members share its partitions."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from fixtures.members import DEADLINE, wait_for
from penstock.model.topic_partition import TopicPartition
from penstock.testing.distribution import get_distribution


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


JAVA = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


class JavaConsumer:
    """Kafka's console consumer. Only the broker knows its partitions."""

    def __init__(self, kafka, group, topic, assignor, protocol="classic"):
        self._group = group
        self._admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        distribution = get_distribution()
        properties = {"group.protocol": protocol, "client.id": "java"}
        if protocol == "classic":
            properties |= {"partition.assignment.strategy": JAVA[assignor], "heartbeat.interval.ms": "200"}
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
