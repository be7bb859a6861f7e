"""Fixtures: the wire's own view of a cluster, and what it asked."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaException
from confluent_kafka import TopicPartition as RdPartition
from confluent_kafka.admin import AdminClient

from penstock.options import parse_options
from penstock.wire.cluster import Cluster
from penstock.wire.connection import Connection


def cluster_of(kafka: Any, **more: str) -> Cluster:
    return Cluster(parse_options(kafka.client_options() | {"subscribe": "t"} | more).client)


def await_nodes(kafka: Any, seconds: float = 90.0) -> None:
    """Until all nodes are in again: a topic of three replicas cannot be made before."""
    cluster, deadline = cluster_of(kafka), time.monotonic() + seconds
    while len(cluster.metadata(()).brokers) < len(kafka.node_ids):
        assert time.monotonic() < deadline, "not all nodes are back"
        time.sleep(0.1)


def elect_preferred(kafka: Any, topic: str, seconds: float = 90.0) -> None:
    """Let the first replica of each partition lead it: with more partitions than nodes, each node leads some."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    deadline = time.monotonic() + seconds
    while True:
        try:
            partitions = admin.list_topics(topic, timeout=30).topics[topic].partitions
            if partitions and all(each.leader == each.replicas[0] for each in partitions.values()):
                return
            # Refused while a node is still catching up.
            wanted = [RdPartition(topic, number) for number in partitions]
            admin.elect_leaders(ElectionType.PREFERRED, wanted).result(30)
        except KafkaException:  # nobody can say just now
            if time.monotonic() > deadline:
                raise
        assert time.monotonic() < deadline, f"not all partitions of {topic} are led by whom they should be"
        time.sleep(0.2)


@pytest.fixture
def cluster(kafka: Any) -> Cluster:
    return cluster_of(kafka)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the requests sent since, in order."""
    names: list[str] = []
    honest = Connection.send

    def send(self: Connection, request: Any, timeout: float) -> int:
        names.append(request.name)
        return honest(self, request, timeout)

    monkeypatch.setattr(Connection, "send", send)
    return names
