"""The partitions of a Metadata response, which are read by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.frame import READ_ERRORS, FrameReader
from penstock.wire.api.metadata import METADATA, Broker, Leader, Metadata, Topic

replicas = st.lists(st.integers(0, 9), max_size=4)
partitions = st.tuples(st.integers(0, 9), st.integers(-1, 2**31 - 1), replicas, replicas, replicas)


def partition(number, leader, epoch, replica_nodes=(1, 2, 3), isr_nodes=(1, 2, 3), offline_replicas=()):
    return {
        "error_code": 0,
        "partition_index": number,
        "leader_id": leader,
        "leader_epoch": epoch,
        "replica_nodes": replica_nodes,
        "isr_nodes": isr_nodes,
        "offline_replicas": offline_replicas,
    }


def encoded(listed, version):
    topic = {
        "error_code": 0,
        "name": "t",
        "topic_id": None,
        "is_internal": False,
        "partitions": listed,
        "topic_authorized_operations": 7,
    }
    response = {
        "throttle_time_ms": 0,
        "brokers": [],
        "cluster_id": None,
        "controller_id": 1,
        "topics": [topic],
        "cluster_authorized_operations": 0,
    }
    return METADATA.response_body.encode(version, version >= METADATA.flexible, response)


def read(body, version):
    reader = FrameReader(memoryview(body), version >= METADATA.flexible)
    [topic] = METADATA.response_body.decode(version, reader).topics
    assert reader.at == len(body)
    assert version < 8 or topic.topic_authorized_operations == 7
    return [tuple(each) for each in topic.partitions]


@pytest.mark.parametrize("version", [7, 9, METADATA.highest])
@given(
    st.one_of(
        st.lists(partitions, max_size=8),  # of different lengths
        st.tuples(partitions, st.integers(1, 8)).map(lambda pair: [pair[0]] * pair[1]),  # all alike
    )
)
def test_partitions_are_read_alike_whatever_their_replicas(version, given):
    listed = [partition(number, *each) for number, each in enumerate(given)]
    expected = [(0, number, leader, epoch) for number, (leader, epoch, *_) in enumerate(given)]
    assert read(encoded(listed, version), version) == expected


@pytest.mark.parametrize("many", [127, 128, 300])
def test_partitions_with_many_replicas(many):
    listed = [partition(number, 1, 4, replica_nodes=range(many)) for number in range(5)]
    assert read(encoded(listed, 12), 12) == [(0, number, 1, 4) for number in range(5)]


def test_a_response_that_is_cut_anywhere_is_refused():
    body = encoded([partition(number, 1, 4) for number in range(5)], 12)
    for length in range(len(body)):
        with pytest.raises(READ_ERRORS):
            read(body[:length], 12)


def test_partitions_by_leader_and_their_epochs():
    one, two = Broker(1, "a", 9092), Broker(2, "b", 9092)
    leaders = {0: Leader(one, 4), 1: Leader(two, 4), 2: Leader(one, 5), 3: None, 4: Leader(two)}
    metadata = Metadata({1: one, 2: two}, {"t": Topic("t", None, False, leaders)})
    t0, t1, t2, t3, t4 = (TopicPartition("t", number) for number in range(5))
    other = TopicPartition("other", 0)
    by_leader, leaderless = metadata.by_leader([t0, t1, t2, t3, t4, other])
    assert {broker: sorted(led) for broker, led in by_leader.items()} == {one: [t0, t2], two: [t1, t4]}
    assert leaderless == [t3, other]
    assert metadata.leader_epochs([t0, t1, t2, t3, t4, other]) == {t0: 4, t1: 4, t2: 5}
