"""When a stream asks the cluster for its partitions, over a cluster of plain values."""

from __future__ import annotations

import logging
import math

import pytest

from penstock.model.subscription import AssignedPartitions, TopicNames, TopicPattern
from penstock.model.topic_partition import TopicPartition
from penstock.planner import partition_discovery
from penstock.planner.partition_discovery import Discovery
from support.fake_cluster import FakeCluster

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.fixture
def cluster():
    fake = FakeCluster()
    fake.create("a", 1, 1)
    return fake


def discovery(cluster, subscription=None, interval=10.0):
    """A discovery, and its clock."""
    clock = [0.0]
    found = Discovery(subscription or TopicNames(("a",)), cluster, interval, lambda: clock[0])
    return found, clock


def test_F14_the_cluster_is_asked_once_per_interval(cluster):
    found, clock = discovery(cluster)
    for now in (0.0, 5.0, 9.9, 10.0, 15.0):
        clock[0] = now
        assert found.look([]).partitions == (A0, A1)
    assert cluster.questions == ["listing", "listing"]


def test_F14_a_look_can_be_forced(cluster):
    found, _ = discovery(cluster)
    found.look([])
    cluster.delete("a")
    assert found.look([A0]).deleted == frozenset()
    assert found.look([A0], force=True).deleted == {A0}


def test_F14_an_endless_interval_looks_for_new_partitions_only_once(cluster):
    found, clock = discovery(cluster, interval=math.inf)
    found.look([])
    cluster.grow("a", 1)
    clock[0] = 1e9
    assert found.look([], force=True).partitions == (A0, A1)


def test_metadata_that_came_between_two_looks_shows_a_recreated_topic_but_adds_no_partition(cluster):
    found, _ = discovery(cluster)
    found.look([])
    cluster.recreate("a", 1, 1, 1)
    cluster.listing(["a"])
    assert not found.is_current
    assert found.is_recreated("a")
    changes = found.look([A0, A1])
    assert changes.recreated == {A0, A1}
    assert changes.partitions == (A0, A1)
    assert found.is_current
    assert not found.is_recreated("a"), "reported once"


def test_the_ids_of_a_new_query_count_from_its_start(cluster):
    found, _ = discovery(cluster)
    cluster.listing(["a"])
    found.remember([A0, A1])
    cluster.recreate("a", 1, 1)
    assert found.look([A0, A1]).recreated == {A0, A1}


def test_a_pattern_selects_matching_topics_but_no_internal_ones(cluster):
    cluster.create("b", 1)
    cluster.create("__internal", 1)
    found, _ = discovery(cluster, TopicPattern(".*"))
    assert found.look([]).partitions == (A0, A1, B0)


def test_assigned_partitions_that_do_not_exist_are_left_out(cluster):
    found, _ = discovery(cluster, AssignedPartitions((A1, TopicPartition("a", 9))))
    assert found.look([]).partitions == (A1,)


def test_a_subscribed_topic_that_does_not_exist_is_warned_of_once_and_joins_later(cluster, caplog):
    found, _ = discovery(cluster, TopicNames(("a", "b")), interval=0.0)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert found.look([]).partitions == (A0, A1)
    assert caplog.text.count("'b'") == 1
    cluster.create("b", 1)
    assert found.look([]).partitions == (A0, A1, B0)


def test_a_deleted_topic_keeps_its_id_for_the_case_that_it_comes_back(cluster):
    found, _ = discovery(cluster, interval=0.0)
    found.look([])
    before = cluster.topic_ids["a"]
    cluster.delete("a")
    found.look([A0, A1])
    assert found.id_of_deleted("a") == before
    cluster.create("a", 1)
    found.look([])
    assert found.id_of_deleted("a") is None
    assert found.topic_id("a") == cluster.topic_ids["a"] != before


def test_a_partition_without_a_topic_id_counts_as_deleted_after_it_stayed_unlisted(cluster, monkeypatch):
    monkeypatch.setattr(partition_discovery, "CONFIRM_SECONDS", 0.05)
    cluster.create("b", 1, with_id=False)
    found, _ = discovery(cluster, TopicNames(("b",)))
    gone = TopicPartition("b", 1)
    assert found.look([B0, gone]).deleted == {gone}


def test_partitions_of_unknown_topics_are_looked_up(cluster):
    found, _ = discovery(cluster)
    assert found.locate([A0, B0]) == {B0}
    cluster.questions.clear()
    assert found.locate([A0]) == frozenset()
    assert cluster.questions == []
