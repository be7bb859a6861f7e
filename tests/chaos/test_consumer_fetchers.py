"""Fetchers: one per broker and number, closed when idle (H9). Fetch sessions: requests carry only changes."""

import threading
import uuid
from collections import Counter
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.protocol.consumer import FetchRequest

from chaos.members import Group, Process
from fixtures.broker import SETTINGS
from fixtures.consumer import Consumers, eventually
from fixtures.produce import Rec, rdkafka, send
from penstock.model.reader_index import reader_index
from penstock.testing import EmbeddedKafka
from penstock.wire.api.fetch import FETCH, fetch_request
from penstock.wire.api.fetch_session import FINAL_EPOCH
from penstock.wire.transport.connection import Connection


def fetchers():
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("penstock-fetch-"))


def leaders(admin, topic):
    """The address of the leader by partition, when all have one."""

    def found():
        listing = admin.list_topics(topic, timeout=30)
        brokers = {number: f"{broker.host}:{broker.port}" for number, broker in listing.brokers.items()}
        partitions = listing.topics[topic].partitions
        led = {number: brokers[p.leader] for number, p in partitions.items() if p.leader in brokers}
        return led if len(led) == 6 else None

    return eventually(found, "leaders")


def test_H9_one_fetcher_per_broker_and_number_and_idle_ones_are_closed(kafka_cluster, cluster_consumers, tmp_path):
    topic, group = f"t-{uuid.uuid4().hex[:12]}", cluster_consumers.group
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    placed = NewTopic(topic, 6, replica_assignment=[[1], [2], [3], [1], [2], [3]])
    admin.create_topics([placed])[topic].result(30)
    by_partition = {
        partition: f"penstock-fetch-{address}-{reader_index(topic, partition, 2)}"
        for partition, address in leaders(admin, topic).items()
    }
    assert len(set(by_partition.values())) == 6, "three brokers, two fetchers each"
    reading = cluster_consumers.reading(topic, 2, num_consumer_fetchers=2)
    eventually(lambda: fetchers() == sorted(set(by_partition.values())), lambda: f"one fetcher each; {fetchers()}")
    with Process(kafka_cluster, group, topic, tmp_path, "other") as other:
        Group(kafka_cluster, group, topic, 6).await_members(2)
        eventually(lambda: 0 < len(reading.connector.assignment()) < 6, "a part of them")
        mine = {partition for _, partition in reading.connector.assignment()}
        left = sorted({by_partition[partition] for partition in mine})
        eventually(lambda: fetchers() == left, lambda: f"only {left}; there are {fetchers()}")
        other.leave()
    eventually(lambda: fetchers() == sorted(set(by_partition.values())), "all of them again")
    reading.connector.shutdown()
    assert fetchers() == []


@dataclass(frozen=True)
class Asked:
    """A fetch request as it was sent."""

    session_id: int
    epoch: int
    partitions: int
    forgotten: int


@pytest.fixture
def asked(monkeypatch):
    """The fetch requests sent since, in order."""
    requests: list[Asked] = []
    honest = Connection.send

    def send(self, request, timeout):
        if request.name == FetchRequest.name:
            decoded = FetchRequest.decode(request.body, version=request.version)
            partitions = sum(len(topic.partitions) for topic in decoded.topics)
            forgotten = sum(len(topic.partitions) for topic in decoded.forgotten_topics_data or ())
            requests.append(Asked(decoded.session_id, decoded.session_epoch, partitions, forgotten))
        return honest(self, request, timeout)

    monkeypatch.setattr(Connection, "send", send)
    return requests


def test_requests_of_a_fetch_session_carry_only_changed_partitions(consumers, topic, produce, asked):
    name = topic(partitions=20)
    reading = consumers.reading(name, fetch_max_wait_ms=100)
    # Not at once: partitions of a new topic may have no leader yet.
    eventually(lambda: len(reading.connector.lag()) == 20, "an answer for each partition")
    begun = max(at for at, request in enumerate(asked) if request.epoch == 0)
    assert sum(request.partitions - request.forgotten for request in asked[begun:]) == 20
    idle = len(asked)
    eventually(lambda: len(asked) > idle + 5, "requests")
    first, *others = asked[idle:]
    assert first.session_id != 0
    assert all(request == Asked(first.session_id, request.epoch, 0, 0) for request in others)
    busy = len(asked)
    produce(name, [Rec(b"x", partition=7)])
    eventually(lambda: reading.count() == 1, "the record")
    eventually(lambda: len(asked) > busy + 10, "more requests")
    requests = list(asked)  # the consumer sends more
    carried = [request for request in requests[busy:] if request.partitions]
    assert [(request.partitions, request.forgotten) for request in carried] == [(1, 0)], "the new position of one"
    assert [request.epoch for request in requests[begun:]] == list(range(len(requests) - begun))


def forget(kafka, config, session_id):
    """Let the broker forget a session while its client is still connected, by a request that ends the session."""
    host, _, port = kafka.bootstrap_servers.partition(":")
    connection = Connection(host, int(port), config, 10)
    try:
        version = connection.version(FETCH)
        ending = (session_id, FINAL_EPOCH)
        request = fetch_request(version, (), config, max_bytes=1, partition_max_bytes=1, max_wait=0, session=ending)
        connection.send(request, 10)
        connection.receive_into(bytearray(4096), 10)
    finally:
        connection.close()


def test_a_session_that_its_broker_has_forgotten_restarts(kafka, consumers, topic, produce, asked):
    name = topic(partitions=4)
    produce(name, [Rec(b"x", partition=n % 4) for n in range(100)])
    reading = consumers.reading(name, 2, fetch_max_wait_ms=100)
    eventually(lambda: reading.count() == 100, "all records")
    (fetcher,) = (thread for thread in threading.enumerate() if thread.name in fetchers())
    for already in (100, 200):
        eventually(lambda: asked[-1].session_id and asked[-1].epoch > 1, "a session")
        forgotten = asked[-1].session_id
        forget(kafka, reading.connector.config.client, forgotten)
        eventually(lambda: asked[-1].session_id not in (0, forgotten), "another session")  # noqa: B023
        produce(name, [Rec(b"x", partition=n % 4) for n in range(100)])
        eventually(lambda: reading.count() == already + 100, "what came after that")  # noqa: B023
    begun = [request for request in asked if request.epoch == 0]
    assert begun == [Asked(0, 0, 4, 0)] * 3
    assert max(reading.records().values()) == 1
    assert fetcher.is_alive(), "the same connection goes on"


def test_a_broker_without_sessions_gets_full_requests_and_no_partition_starves(asked):
    """Its responses hold one batch: that of the first partition, in request order, that has any."""
    with EmbeddedKafka(settings=SETTINGS | {"max.incremental.fetch.session.cache.slots": 0}) as kafka:
        kafka.create_topic("t", 4)
        consumers = Consumers(kafka)
        producer = Producer(rdkafka(kafka.client_options(prefix="")))
        for _ in range(20):
            send(producer, "t", [Rec(bytes(100_000), partition=partition) for partition in range(4)])
            assert producer.flush(60) == 0
        try:
            reading = consumers.reading("t", fetch_max_bytes=1, queued_max_message_chunks=1)
            eventually(lambda: reading.count() == 80, "all records")
            assert {request.session_id for request in asked} == {0}
            ahead = Counter()
            for _, partition, _ in reading.seen[0]:
                ahead[partition] += 1
                assert ahead[partition] <= min(ahead[each] for each in range(4)) + 2, "one is far ahead of the others"
        finally:
            consumers.close()
