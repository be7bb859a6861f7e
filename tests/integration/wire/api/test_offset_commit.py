"""Offsets of groups: committed by us, seen by the broker's own tool and another client; and what refuses a commit."""

import dataclasses
import time
import uuid

import pytest
from confluent_kafka import Consumer
from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaPartition

from fixtures.cluster import cluster_of
from fixtures.produce import Rec
from penstock.errors import AuthorizationFailed, BrokerError, BrokerUnavailable, UnknownTopic
from penstock.model.topic_partition import TopicPartition
from penstock.testing import EmbeddedKafka
from penstock.wire.api.find_coordinator import GROUP
from penstock.wire.cluster import Cluster
from support.group_tool import described

JOIN_SECONDS = 60


@pytest.fixture
def group():
    return f"g-{uuid.uuid4().hex[:12]}"


def live_member(kafka, group, topic):
    """A consumer that the coordinator has taken into the group."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    consumer.subscribe([topic])
    deadline = time.monotonic() + JOIN_SECONDS
    while not consumer.assignment():
        assert time.monotonic() < deadline, "the consumer got no partition"
        consumer.poll(0.1)
    return consumer


def test_F23_a_commit_is_seen_by_us_and_by_the_brokers_own_tool(cluster, kafka, topic, produce, group):
    name = topic(partitions=3)
    produce(name, [Rec(b"v", partition=p) for p in range(3) for _ in range(10)])
    offsets = {TopicPartition(name, 0): 7, TopicPartition(name, 1): 0, TopicPartition(name, 2): 10}
    cluster.commit(group, offsets)
    assert cluster.committed(group, offsets) == offsets
    assert described(kafka, group) == [
        [name, "0", "7", "10", "3"],
        [name, "1", "0", "10", "10"],
        [name, "2", "10", "10", "0"],
    ]


def test_leader_epoch_and_metadata_text_go_along(cluster, kafka, topic, group):
    tp = TopicPartition(topic(), 0)
    cluster.commit(group, {tp: 5}, epochs={tp: 3}, metadata={tp: "batch 12"})
    # Not librdkafka's Python client: it reads metadata past its end, as if a zero byte followed.
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    try:
        (seen,) = admin.list_group_offsets({group: [KafkaPartition(*tp)]})[group].values()
    finally:
        admin.close()
    assert (seen.offset, seen.leader_epoch, seen.metadata) == (5, 3, "batch 12")


def test_F24_while_the_coordinator_stays_a_commit_is_one_request(cluster, topic, group, asked):
    tp = TopicPartition(topic(), 0)
    cluster.commit(group, {tp: 1})
    assert "FindCoordinatorRequest" in asked
    asked.clear()
    for offset in (2, 3, 4):
        cluster.commit(group, {tp: offset})
    assert cluster.committed(group, [tp]) == {tp: 4}
    assert asked == ["OffsetCommitRequest"] * 3 + ["OffsetFetchRequest"]


def test_nothing_to_commit_needs_no_request(cluster, group, asked):
    cluster.commit(group, {})
    assert asked == []


def test_F23_a_negative_offset_is_refused_before_anything_is_sent(cluster, group, asked):
    offsets = {TopicPartition("t", 0): 3, TopicPartition("t", 1): -2}
    with pytest.raises(ValueError, match="offset -2 of t-1"):
        cluster.commit(group, offsets)
    assert asked == []


def test_more_than_a_thousand_partitions(cluster, kafka, topic, group):
    name = topic(partitions=1100)
    try:
        offsets = {TopicPartition(name, p): p for p in range(1100)}
        cluster.commit(group, offsets)
        assert cluster.committed(group, offsets) == offsets
    finally:
        kafka.delete_topic(name)  # the broker is shared, and so many partitions are a load


def test_a_group_with_live_members_is_refused_with_a_hint(cluster, kafka, topic, group):
    name = topic()
    consumer = live_member(kafka, group, name)
    try:
        with pytest.raises(BrokerError, match=r"in use by other consumers.*another kafka\.group\.id"):
            cluster.commit(group, {TopicPartition(name, 0): 1})
    finally:
        consumer.close()
    cluster.commit(group, {TopicPartition(name, 0): 1})
    assert cluster.committed(group, [TopicPartition(name, 0)]) == {TopicPartition(name, 0): 1}


def test_a_deleted_topic_is_named_and_the_others_are_committed(cluster, kafka, topic, group):
    gone, there = TopicPartition(topic(), 0), TopicPartition(topic(), 0)
    kafka.delete_topic(gone.topic)
    with pytest.raises(UnknownTopic, match=f"partition {gone} does not exist: so group '{group}' cannot commit"):
        cluster.commit(group, {gone: 4, there: 6})
    assert cluster.committed(group, [there]) == {there: 6}


def test_a_coordinator_that_is_not_one_is_looked_up_again(kafka_cluster, group):
    name = f"coordinated-{group}"
    kafka_cluster.create_topic(name, 1, 3)
    tp = TopicPartition(name, 0)
    cluster = cluster_of(kafka_cluster)
    cluster.commit(group, {tp: 1})
    right = cluster._coordinators[GROUP, group]
    cluster._coordinators[GROUP, group] = next(
        b for b in cluster.metadata((name,)).brokers.values() if b.port != right.port
    )
    cluster.commit(group, {tp: 2})
    assert cluster._coordinators[GROUP, group].port == right.port
    assert cluster.committed(group, [tp]) == {tp: 2}


def test_an_unreachable_coordinator_is_an_error_with_its_history_within_the_time_out(cluster, topic, group):
    tp = TopicPartition(topic(), 0)
    nowhere = Cluster(dataclasses.replace(cluster.config, bootstrap=(("127.0.0.1", 1),), api_timeout=3.0))
    with pytest.raises(BrokerUnavailable, match=f"committing 1 offsets of group '{group}'") as caught:
        nowhere.commit(group, {tp: 1})
    assert len(caught.value.history) >= 2


def test_a_commit_without_permission_names_the_group():
    acls = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    with EmbeddedKafka(listener="SASL_PLAINTEXT", users={"nobody": None}, settings=acls) as kafka:
        kafka.create_topic("t")
        with pytest.raises(AuthorizationFailed, match="'secret group'"):
            cluster_of(kafka).commit("secret group", {TopicPartition("t", 0): 1})
