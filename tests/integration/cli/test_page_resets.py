"""Resets of the page on a real broker: what is shown is committed, all of it or nothing."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka import Consumer

from fixtures.members import wait_for
from fixtures.produce import Rec
from penstock.cli.page_resets import PageResets
from penstock.errors import BrokerError, PenstockError
from penstock.model.topic_partition import TopicPartition
from penstock.watch.resets import PlannedMove, PlanRequest

pytestmark = pytest.mark.broker


@pytest.fixture
def resets(kafka):
    return PageResets({"bootstrap.servers": kafka.bootstrap_servers})


@pytest.fixture
def group():
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def name(topic, produce):
    made = topic(partitions=2)
    produce(made, [Rec(b"v", partition=at % 2) for at in range(100)])
    return made


def committed(cluster, group, name):
    return list(cluster.committed(group, [TopicPartition(name, at) for at in (0, 1)]).values())


def test_what_was_shown_is_committed(resets, cluster, group, name):
    cluster.commit(group, {TopicPartition(name, 0): 10})
    moves = resets.plan(PlanRequest(group, "latest"))
    assert moves == [PlannedMove(name, 0, 10, 50)], "partitions with a committed offset"
    moves = resets.plan(PlanRequest(group, "-5", name))
    assert moves == [PlannedMove(name, 0, 10, 45), PlannedMove(name, 1, None, 45)]
    assert committed(cluster, group, name) == [10, None]
    resets.commit(group, moves)
    assert committed(cluster, group, name) == [45, 45]


def test_nothing_is_committed_if_a_committed_offset_has_changed(resets, cluster, group, name):
    cluster.commit(group, {TopicPartition(name, 0): 10, TopicPartition(name, 1): 20})
    moves = resets.plan(PlanRequest(group, "earliest"))
    cluster.commit(group, {TopicPartition(name, 1): 21})
    with pytest.raises(BrokerError, match="is at 21, and 20 was shown"):
        resets.commit(group, moves)
    assert committed(cluster, group, name) == [10, 21]


@pytest.mark.extended
def test_a_made_up_request_commits_nothing(resets, cluster, group, name):
    for move in (PlannedMove(name, 0, None, 51), PlannedMove(name, 7, None, 0), PlannedMove("nowhere", 0, None, 0)):
        with pytest.raises(PenstockError):
            resets.commit(group, [PlannedMove(name, 1, None, 5), move])
    assert committed(cluster, group, name) == [None, None]


@pytest.mark.extended
def test_a_group_with_members_is_refused_before_and_after_the_plan(resets, kafka, cluster, group, name):
    cluster.commit(group, {TopicPartition(name, 0): 10})
    moves = resets.plan(PlanRequest(group, "earliest"))
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "enable.auto.commit": False})
    try:
        consumer.subscribe([name])
        wait_for(lambda: (consumer.poll(0.1), consumer.assignment())[1], "partitions")
        for refused in (lambda: resets.plan(PlanRequest(group, "latest")), lambda: resets.commit(group, moves)):
            with pytest.raises(BrokerError, match="is in use by 1 member"):
                refused()
    finally:
        consumer.close()
    assert committed(cluster, group, name) == [10, None]
