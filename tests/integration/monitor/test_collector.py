"""Lag in seconds against the truth, on a real broker."""

from __future__ import annotations

import time
import uuid

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from fixtures.members import wait_for
from fixtures.produce import Rec
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


@pytest.mark.parametrize("begins_ago", [0, DAY_MS], ids=["live", "replayed"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
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
