"""Fixtures: a stream's planner without Spark, driven as Spark would; and what an operator does to topics."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as RdPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from fix_produce import Rec
from penstock.embedded import get_distribution
from penstock.options import parse_options
from penstock.stream import StreamPlanner
from penstock.topics import TopicPartition

NOW = int(time.time() * 1000)
HOUR = 3_600_000
EVERY_TRIGGER = {"partition.discovery.interval.ms": "0"}


def records(count: int, partition: int = 0, timestamp: int = NOW, size: int = 10) -> list[Rec]:
    return [Rec(b"v" * size, timestamp=timestamp, partition=partition) for _ in range(count)]


def tp(topic: str, partition: int = 0) -> TopicPartition:
    return TopicPartition(topic, partition)


@pytest.fixture
def two(topic: Callable[..., str], produce: Callable[..., int]) -> str:
    """A topic of two partitions with ten records in the first and five in the second."""
    name = topic(partitions=2)
    produce(name, records(10) + records(5, partition=1))
    return name


class Stream:
    """What Spark does with a planner, without Spark: asks, writes the offset log, plans the batch, asks again."""

    def __init__(self, options: dict[str, str], state: dict[TopicPartition, int] | None = None) -> None:
        self.planner = StreamPlanner(parse_options(options), clock=self.now)
        self.later = 0.0
        self.state = state
        self.read: list[dict[TopicPartition, tuple[int, int]]] = []

    def now(self) -> float:
        return time.monotonic() + self.later

    def trigger(self, everything: bool = False) -> dict[TopicPartition, tuple[int, int]]:
        """One trigger: the ranges of its batch, {} when there is nothing to do."""
        start = self.planner.initial() if self.state is None else self.state
        end = self.planner.latest(dict(start), everything)
        if end == self.state:
            return {}
        if self.state is None:
            start = self.planner.initial()  # Spark asks again when it runs the first batch
        batch = self.ranges(start, end)
        self.state = end
        self.read.append(batch)
        return batch

    def ranges(self, start: dict[TopicPartition, int], end: dict[TopicPartition, int]):
        ranges = self.planner.ranges(start, end)
        assert len({r.topic_partition for r in ranges}) == len(ranges), "one range per partition without a split"
        return {r.topic_partition: (r.start, r.stop) for r in ranges}

    def run(self, triggers: int = 20) -> dict[TopicPartition, list[int]]:
        """Trigger until there is nothing to do; every offset read, per partition."""
        seen: dict[TopicPartition, list[int]] = {}
        for _ in range(triggers):
            before = self.state
            for tp, (start, stop) in self.trigger().items():
                seen.setdefault(tp, []).extend(range(start, stop))
            if self.state == before:
                return seen
        raise AssertionError(f"still busy after {triggers} triggers")


@pytest.fixture
def stream(kafka: Any) -> Callable[..., Stream]:
    """`stream(subscribe="t", state=...)`: a stream over the session's broker; `state` is what a checkpoint holds."""

    def make(state: dict[TopicPartition, int] | None = None, cluster: Any = kafka, **options: str) -> Stream:
        return Stream(cluster.client_options() | options, state)

    return make


@pytest.fixture
def operator(kafka: Any) -> Operator:
    return Operator(kafka)


class Operator:
    """What people do to a cluster under a running query."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})

    def grow(self, topic: str, partitions: int) -> None:
        """More partitions, all of them listed when this returns."""
        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)
        self._until(lambda: len(self._admin.list_topics(topic, timeout=30).topics[topic].partitions) == partitions)

    def delete_records(self, topic: str, before: dict[int, int]) -> None:
        """What retention does: the log begins later."""
        asked = [RdPartition(topic, partition, offset) for partition, offset in before.items()]
        for done in self._admin.delete_records(asked).values():
            done.result(30)

    def commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        consumer = Consumer({"bootstrap.servers": self._cluster.bootstrap_servers, "group.id": group})
        try:
            consumer.commit(offsets=[RdPartition(topic, p, o) for p, o in offsets.items()], asynchronous=False)
        finally:
            consumer.close()

    def stored_bytes(self, topic: str) -> int:
        """What the topic's logs take up on disk, by Kafka's own tool."""
        tool, brokers = "org.apache.kafka.tools.LogDirsCommand", self._cluster.bootstrap_servers
        said = get_distribution().run_tool(tool, "--bootstrap-server", brokers, "--describe", "--topic-list", topic)
        document = json.loads(next(line for line in said.stdout.splitlines() if line.startswith("{")))
        logs = [log for broker in document["brokers"] for log in broker["logDirs"]]
        return sum(partition["size"] for log in logs for partition in log["partitions"])

    def recreate(self, topic: str, partitions: int = 1) -> None:
        self._cluster.delete_topic(topic)
        self._until(lambda: topic not in self._admin.list_topics(timeout=30).topics)
        self._cluster.create_topic(topic, partitions)

    def _until(self, come_true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not come_true():
            assert time.monotonic() < deadline, "the broker does not say so"
            time.sleep(0.05)
