"""A broker that hangs with its connections open: what waits for its answer goes to the broker elected since.

A request may take longer here than a test: only by going to the new leader, or coordinator, does anything end.
"""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from fixtures.cluster import await_nodes, elect_preferred
from fixtures.produce import Rec
from penstock.config.source import parse_options
from penstock.dead_letters.letter import fault_letters
from penstock.dead_letters.letter_writer import TopicWriter
from penstock.dead_letters.scope import LetterScope
from penstock.dead_letters.task_letters import RangeLetters
from penstock.model.columns import TYPES
from penstock.model.offset_range import OffsetRange
from penstock.model.topic_partition import TopicPartition
from penstock.wire.cluster import Broker, Cluster
from support.producing import values_in, writing
from support.reading import range_reader

PARTITIONS = 3
RECORDS = 300
COLUMNS = ["offset", "value"]


@pytest.fixture
def client(kafka_cluster):
    options = {"kafka.request.timeout.ms": "600000", "kafka.default.api.timeout.ms": "601000"}
    return parse_options(kafka_cluster.client_options() | {"subscribe": "t"} | options).client


@pytest.fixture
def filled(kafka_cluster, produce):
    """A topic with a hundred records in each partition, each led by another node."""
    name = f"t-{uuid.uuid4().hex[:12]}"
    kafka_cluster.create_topic(name, PARTITIONS)
    elect_preferred(kafka_cluster, name)
    produce(name, [Rec(b"{", partition=n % PARTITIONS) for n in range(RECORDS)], cluster=kafka_cluster)
    return name


def coordinator_of(cluster: Cluster, group: str) -> Broker:
    attempts = cluster._brokers.attempts("looking for the coordinator")
    return cluster._brokers.retry(attempts, lambda: cluster._brokers.find_coordinator(attempts, group))


def letters_of(range_: OffsetRange) -> pa.RecordBatch:
    rows = [
        {"key": None, "value": b"{", "topic": range_.topic, "partition": range_.partition, "offset": offset}
        | {"timestamp": 1_600_000_000_000_000, "timestampType": 0, "headers": None}
        for offset in range(range_.start, range_.stop)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema(list(TYPES.items())))


def test_planning_tasks_commits_and_dead_letters_go_to_the_brokers_elected_since(kafka_cluster, client, filled):
    tps = [TopicPartition(filled, number) for number in range(PARTITIONS)]
    cluster, group = Cluster(client), f"g-{uuid.uuid4().hex[:12]}"
    end = cluster.end(tps)
    victim = coordinator_of(cluster, group)
    tp = next(tp for tp in tps if cluster.known.leader(tp).broker.node_id == victim.node_id)
    number, leader = tp.partition, cluster.known.leader(tp)
    planned = OffsetRange(
        *(filled, number, 0, end[tp], cluster.known.topics[filled].topic_id, victim.host, victim.port, leader.epoch)
    )
    cluster.commit(group, {tp: 1})
    assert sum(map(len, range_reader(planned, COLUMNS, client))) == RECORDS // PARTITIONS, "its connection is kept"
    bad = letters_of(OffsetRange(filled, number, 0, 10))
    faults = [(row, "value", "bad") for row in range(5)]
    writer = TopicWriter(client, filled)
    scope = LetterScope("query", uuid.uuid4().hex)
    with RangeLetters(client, filled, OffsetRange(filled, number, 0, 10), scope) as letters:
        writer.write(list(fault_letters(tp, bad.slice(0, 5), faults)))
        letters.add(bad.slice(0, 5), faults)
        assert letters.finish(5) == 5
        # Until the markers of its transaction are written: the coordinator would wait for the broker, too, for 30 s.
        letters._producer.begin()
        kafka_cluster.pause_node(victim.node_id)
        try:
            assert cluster.end(tps)[tp] > end[tp]
            assert cluster.known.leader(tp).broker.node_id != victim.node_id
            assert sum(map(len, range_reader(planned, COLUMNS, client))) == RECORDS // PARTITIONS
            cluster.commit(group, {tp: 2})
            assert cluster.committed(group, [tp]) == {tp: 2}
            assert Cluster(client).end(tps)[tp] > end[tp], "by one that knows only the bootstrap servers"
            writer.write(list(fault_letters(tp, bad.slice(0, 5), faults)))
            letters.add(bad.slice(5, 5), faults)
            assert letters.finish() == 10
        finally:
            kafka_cluster.resume_node(victim.node_id)
            await_nodes(kafka_cluster)
    writer.close()


def test_W9_a_producer_leaves_a_leader_that_hangs(kafka_cluster, client, filled):
    tp = TopicPartition(filled, 0)
    small = [b"%d" % number for number in range(10)]
    with writing(client, delivery_timeout=600.0) as sink:
        sink.deliver(filled, small, 0)
        victim = sink.producer.cluster.known.leader(tp).broker.node_id
        kafka_cluster.pause_node(victim)
        try:
            sink.deliver(filled, small, 0)
            assert sink.producer.cluster.known.leader(tp).broker.node_id != victim
            assert sink.producer.written[tp].rows == 20
            # Before it wakes up: it still believes that it leads, and would answer so.
            assert values_in(kafka_cluster, filled)[0][-20:] == small * 2
        finally:
            kafka_cluster.resume_node(victim)
            await_nodes(kafka_cluster)
