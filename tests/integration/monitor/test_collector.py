"""Lag in seconds against the truth, on a real broker."""

from __future__ import annotations

import json
import time
import uuid

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from fixtures.members import wait_for
from fixtures.produce import Rec, rdkafka, send
from penstock import cli
from penstock.config.source import parse_options
from penstock.model.topic_partition import TopicPartition
from penstock.monitor.collector import Collector
from penstock.monitor.selection import Selection
from penstock.monitor.settings import MonitorSettings
from penstock.monitor.snapshot import Certainty
from penstock.wire.cluster import Cluster

pytestmark = pytest.mark.broker

DAY_MS = 86_400_000


@pytest.fixture
def topic(kafka):
    name = f"monitored-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, 1, configs={"retention.ms": -1})
    return name


@pytest.fixture
def client(kafka):
    return parse_options(kafka.client_options() | {"subscribePattern": ".*"}).client


@pytest.fixture
def collector(client, topic):
    selected = Selection(f"^{topic}$")
    with Collector(
        client, MonitorSettings(interval=0.1, topics=selected, groups=selected, begins_interval=0)
    ) as started:
        yield started


def position_of(collector, group, is_wanted, seconds=60.0):
    """The position of a group in the only partition, when it is as wanted; and the time of the snapshot."""

    def look():
        snapshot = collector.snapshot
        for each in () if snapshot is None else snapshot.groups:
            for position in each.positions:
                if each.name == group and is_wanted(position):
                    return position, each.measured_at
        return None

    return wait_for(look, f"a position of {group}", seconds)


def is_close(seconds, truth):
    """The promise: within 5%, or a second."""
    return abs(seconds - truth) <= max(1.0, 0.05 * truth)


@pytest.mark.parametrize(
    ("begins_ago", "compression"),
    [
        pytest.param(0, "zstd", id="live-zstd"),
        pytest.param(DAY_MS, "none", id="replayed"),
        pytest.param(0, "none", id="live", marks=pytest.mark.extended),
        pytest.param(DAY_MS, "zstd", id="replayed-zstd", marks=pytest.mark.extended),
    ],
)
def test_lag_in_seconds_is_the_age_of_the_next_record(topic, client, collector, produce, begins_ago, compression):
    began = int(time.time() * 1000) - begins_ago - 60_000
    # Batches of many records, 100 ms apart: offsets lie inside of them.
    produce(topic, [Rec(b"x" * 50, timestamp=began + 100 * n) for n in range(500)], **{"compression.type": compression})
    tp = TopicPartition(topic, 0)
    for offset in (0, 123, 499, 500):
        Cluster(client).commit(topic, {tp: offset})
        position, measured_at = position_of(
            collector,
            topic,
            lambda position, offset=offset: position.committed == offset and position.certainty is Certainty.EXACT,
        )
        truth = 0.0 if offset == 500 else measured_at - (began + 100 * offset) / 1000
        assert position.lag == 500 - offset
        assert position.seconds is not None
        assert is_close(position.seconds, truth), (offset, position.seconds, truth)


def test_a_deleted_next_record_is_said(kafka, topic, client, collector, produce):
    began = int(time.time() * 1000) - 60_000
    for part in range(5):  # in batches of their own
        produce(topic, [Rec(b"x", timestamp=began + 1000 * (10 * part + n)) for n in range(10)])
    Cluster(client).commit(topic, {TopicPartition(topic, 0): 5})
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in admin.delete_records([Place(topic, 0, 25)]).values():
        future.result(60)
    position, measured_at = position_of(collector, topic, lambda position: position.certainty is Certainty.AT_LEAST)
    assert (position.lag, position.deleted) == (45, 20)
    assert is_close(position.seconds, measured_at - (began + 25_000) / 1000)


def test_a_group_of_the_new_protocol_has_members_and_lag(kafka, topic, client, collector, produce):
    produce(topic, [Rec(b"x", timestamp=int(time.time() * 1000) - 30_000) for _ in range(100)])
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": topic,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        wait_for(lambda: consumer.poll(1.0) is not None, "a record")
        consumer.commit(offsets=[Place(topic, 0, 40)], asynchronous=False)
        position, _ = position_of(collector, topic, lambda position: position.member_id and position.committed == 40)
        assert (position.lag, position.certainty) == (60, Certainty.EXACT)
        (group,) = collector.snapshot.groups
        assert (group.kind, group.state, len(group.members)) == ("consumer", "Stable", 1)
    finally:
        consumer.close()


def test_sizes_settings_and_leaders(topic, collector, produce):
    produce(topic, [Rec(b"x" * 1000) for _ in range(100)])
    found = wait_for(
        lambda: (
            (snapshot := collector.snapshot) is not None
            and snapshot.topics
            and snapshot.topics[0].size is not None
            and snapshot.topics[0].records == 100
            and snapshot.topics[0]
        ),
        "a size",
    )
    assert (found.retention_seconds, found.cleanup_policy, found.partitions[0].leader is not None) == (
        -1,
        "delete",
        True,
    )
    assert found.records == 100
    assert collector.snapshot.problems == ()


@pytest.mark.extended
def test_the_picture_survives_brokers_that_die_and_equals_what_groups_describe_shows(kafka_cluster, capsys):
    name = f"monitored-{uuid.uuid4().hex[:8]}"
    kafka_cluster.create_topic(name, 6, 3, configs={"retention.ms": -1})
    client = parse_options(kafka_cluster.client_options() | {"subscribePattern": ".*"}).client
    producer = Producer(rdkafka(kafka_cluster.client_options(prefix="")))
    send(producer, name, [Rec(b"x", partition=n % 6, timestamp=int(time.time() * 1000)) for n in range(600)])
    assert producer.flush(120) == 0
    Cluster(client).commit(name, {TopicPartition(name, number): 10 * number for number in range(6)})
    selected = Selection(f"^{name}$")
    settings = MonitorSettings(interval=0.5, topics=selected, groups=selected)

    def with_lag(snapshot):
        return snapshot is not None and snapshot.groups and snapshot.groups[0].lag == 450 and snapshot

    with Collector(client, settings) as collector:
        before = wait_for(lambda: with_lag(collector.snapshot), "the lag")
        code = cli.main(["groups", "describe", name, "-b", kafka_cluster.bootstrap_servers, "--json"])
        described = json.loads(capsys.readouterr().out)
        assert (code, described["lag"]) == (0, 450)
        shown = {(row["partition"], row["committed"], row["end"], row["lag"]) for row in described["partitions"]}
        assert {(row.partition, row.committed, row.end, row.lag) for row in before.groups[0].positions} == shown
        kafka_cluster.kill_node(1)
        try:
            # Its partitions and groups have moved: everything is known again, without a problem.
            wait_for(
                lambda: (
                    (now := collector.snapshot).number > before.number + 1
                    and now.groups
                    and all(each.leader not in (None, 1) for each in now.topics[0].partitions)
                    and now.groups[0].measured_at > before.taken_at
                    and now.groups[0].seconds is not None
                    and not now.problems
                ),
                "a picture without the dead broker",
            )
        finally:
            kafka_cluster.restart_node(1)
        wait_for(lambda: len(collector.snapshot.brokers) == 3 and not collector.snapshot.problems, "all three brokers")
