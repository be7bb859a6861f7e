"""How a stream's partitions have changed between two listings, on plain values."""

from __future__ import annotations

import uuid
from types import SimpleNamespace

import pytest

from penstock.model.topic_partition import TopicPartition
from penstock.planner.partition_diff import KnownPartitions, PartitionChanges, diff, remember, unidentified

OLD, NEW = uuid.UUID(int=1), uuid.UUID(int=2)
A0, A1, A2, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("a", 2), TopicPartition("b", 0)


def topic(*partitions, topic_id=OLD):
    return SimpleNamespace(topic_id=topic_id, partitions=partitions)


KNOWN = KnownPartitions((A0, A1), {"a": OLD})


def test_nothing_has_changed():
    assert diff(KNOWN, {"a": topic(0, 1)}, [A0, A1], [A0, A1]) == PartitionChanges((A0, A1))


def test_F14_partitions_that_neither_the_last_look_nor_the_state_had_are_new():
    changes = diff(KNOWN, {"a": topic(0, 1, 2), "b": topic(0)}, [A0, B0], [A0, A1, A2, B0])
    assert changes.new == (A2,)
    assert changes.partitions == (A0, A1, A2, B0)


def test_F14_without_a_discovery_new_partitions_do_not_join():
    assert diff(KNOWN, {"a": topic(0, 1, 2)}, [A0, A1]) == PartitionChanges((A0, A1))


def test_F27_the_partitions_of_a_topic_that_the_cluster_denies_are_deleted():
    changes = diff(KNOWN, {}, [A0, A1], [], deleted_topics={"a"})
    assert changes == PartitionChanges((), deleted=frozenset({A0, A1}))
    assert diff(KNOWN, {}, [A0, A1], deleted_topics={"a"}).partitions == (), "also without a discovery"


def test_a_topic_that_is_only_not_listed_is_not_deleted():
    assert diff(KNOWN, {}, [A0, A1]) == PartitionChanges((A0, A1))


def test_F27_a_topic_with_another_id_is_recreated():
    changes = diff(KNOWN, {"a": topic(0, 1, topic_id=NEW)}, [A0, A1], [A0, A1])
    assert changes == PartitionChanges((A0, A1), recreated=frozenset({A0, A1}))


def test_F27_partitions_that_a_recreated_topic_lacks_are_deleted():
    changes = diff(KNOWN, {"a": topic(0, topic_id=NEW)}, [A0, A1], [A0])
    assert changes == PartitionChanges((A0,), deleted=frozenset({A1}), recreated=frozenset({A0}))


@pytest.mark.parametrize(("before", "now"), [(None, NEW), (OLD, None), (None, None)])
def test_a_topic_whose_id_is_unknown_is_not_recreated(before, now):
    known = KnownPartitions((A0,), {} if before is None else {"a": before})
    assert diff(known, {"a": topic(0, topic_id=now)}, [A0], [A0]) == PartitionChanges((A0,))


def test_a_partition_that_the_same_topic_does_not_list_exists():
    changes = diff(KNOWN, {"a": topic(0)}, [A0, A1], [A0])
    assert changes == PartitionChanges((A0,), unlisted=frozenset({A1}))


def test_a_partition_counts_as_deleted_without_a_topic_id_only_if_the_cluster_was_asked_again():
    known = KnownPartitions((A0, A1))
    topics = {"a": topic(0, topic_id=None)}
    assert unidentified(known, topics, [A0, A1]) == {A1}
    assert diff(known, topics, [A0, A1], [A0]).unlisted == {A1}
    confirmed = diff(known, topics, [A0, A1], [A0], deleted_partitions={A1})
    assert confirmed == PartitionChanges((A0,), deleted=frozenset({A1}))


def test_a_known_topic_id_needs_no_second_question():
    assert unidentified(KNOWN, {"a": topic(0)}, [A0, A1]) == set()
    assert unidentified(KnownPartitions(), {}, [A0, A1]) == set(), "nor does a topic that is not listed at all"


def test_ids_are_remembered_for_the_topics_that_still_matter():
    known = KnownPartitions((A0,), {"a": OLD, "b": OLD, "c": OLD})
    after = remember(known, {"a": topic(0, topic_id=NEW)}, (A0, A1), also=["b"])
    assert after == KnownPartitions((A0, A1), {"a": NEW, "b": OLD}), "b is not listed, and keeps its id; c is gone"
