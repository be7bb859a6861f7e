"""Ends, leader epochs and record sizes from real brokers, some of them dead."""

import dataclasses
import random
import time
import uuid

import pytest

from fixtures.cluster import cluster_of
from fixtures.consumer import eventually
from fixtures.produce import Rec
from penstock.errors import BrokerUnavailable, UnknownTopic
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.find_coordinator import GROUP
from penstock.wire.cluster import Cluster
from penstock.wire.transport.connection import Connection

COUNT = 20_000


@pytest.fixture
def spread(kafka_cluster, produce):
    """`spread(replicas)`: a topic of six partitions over three nodes with p + 1 records in partition p."""

    def make(replicas):
        name = f"spread-{uuid.uuid4().hex[:12]}"
        kafka_cluster.create_topic(name, 6, replicas)
        produce(name, [Rec(b"v", partition=p) for p in range(6) for _ in range(p + 1)], cluster=kafka_cluster)
        return {TopicPartition(name, p): p + 1 for p in range(6)}

    return make


def leaders(cluster, partitions):
    """The node that leads each partition."""
    metadata = cluster.metadata(sorted({tp.topic for tp in partitions}))
    return {tp: metadata.leader(tp).broker.node_id for tp in partitions}


# --- topics -----------------------------------------------------------------------------------------------------------


def test_F14_a_listing_names_the_topics_that_are_not_there(cluster, topic):
    name = topic(partitions=2)
    metadata, unknown = cluster.listing([name, name + "-gone"])
    assert list(metadata.topics) == [name]
    assert list(metadata.topics[name].partitions) == [0, 1]
    assert unknown == [name + "-gone"]


def test_a_listing_finds_a_topic_that_appears_within_the_grace(cluster, kafka):
    name = f"late-{uuid.uuid4().hex[:12]}"
    made = []

    def make_it(seconds):
        if seconds and not made:  # the first pause, after a broker has denied the topic
            made.append(kafka.create_topic(name))

    late = Cluster(dataclasses.replace(cluster.config, retry_backoff=0.01), wait=make_it)
    metadata, unknown = late.listing([name])
    assert made, "the listing did not ask again"
    assert (list(metadata.topics), unknown) == ([name], [])


def test_what_is_known_grows_and_a_deleted_topic_leaves_it(cluster, kafka, topic):
    first, second = topic(), topic()
    cluster.metadata([first])
    cluster.metadata([second])
    assert {first, second} <= set(cluster.known.topics)
    kafka.delete_topic(first)
    with pytest.raises(UnknownTopic, match=first):
        cluster.end([TopicPartition(first, 0), TopicPartition(second, 0)])
    assert first not in cluster.known.topics
    assert cluster.end([TopicPartition(second, 0)]) == {TopicPartition(second, 0): 0}


# --- ends -------------------------------------------------------------------------------------------------------------


def test_ends_cost_one_request_when_leaders_are_known(cluster, topic, produce, asked):
    name = topic(partitions=4)
    produce(name, [Rec(b"v", partition=p) for p in range(4) for _ in range(p)])
    expected = {TopicPartition(name, p): p for p in range(4)}
    assert cluster.end(expected) == expected
    asked.clear()
    assert cluster.end(expected) == expected
    assert asked == ["ListOffsetsRequest"]


def test_brokers_are_all_asked_before_the_first_answer_is_read(kafka_cluster, spread, monkeypatch):
    expected = spread(3)
    cluster = cluster_of(kafka_cluster)
    assert set(leaders(cluster, expected).values()) == set(kafka_cluster.node_ids)
    assert cluster.end(expected) == expected  # connects
    steps = []

    def note(name):
        honest = getattr(Connection, name)

        def noted(self, *arguments):
            steps.append(name)
            return honest(self, *arguments)

        monkeypatch.setattr(Connection, name, noted)

    note("send")
    note("receive_into")
    assert cluster.end(expected) == expected
    assert steps == ["send"] * 3 + ["receive_into"] * 3


def test_F27_a_broker_that_is_killed_is_replaced_within_the_deadline(kafka_cluster, spread, produce):
    """Ends, leader epochs and commits: one kill for all, because a node takes its time to come back."""
    expected = spread(3)
    cluster = cluster_of(kafka_cluster)
    group = f"g-{uuid.uuid4().hex[:12]}"
    cluster.commit(group, dict.fromkeys(expected, 0))
    killed = cluster._coordinators[GROUP, group].node_id
    tp = next(tp for tp, node in leaders(cluster, expected).items() if node == killed)
    before = cluster.known.leader(tp).epoch
    assert cluster.epoch_ends({tp: before}) == {tp: (before, expected[tp])}
    kafka_cluster.kill_node(killed)
    try:
        assert cluster.end(expected) == expected
        assert killed not in leaders(cluster, expected).values()
        cluster.commit(group, expected)
        assert cluster.committed(group, expected) == expected
        assert cluster._coordinators[GROUP, group].node_id != killed
        produce(tp.topic, [Rec(b"v", partition=tp.partition)] * 5, cluster=kafka_cluster)
        now = cluster.known.leader(tp).epoch
        assert now > before
        assert cluster.epoch_ends({tp: before}) == {tp: (before, expected[tp])}
        assert cluster.epoch_ends({tp: now}) == {tp: (now, expected[tp] + 5)}
    finally:
        kafka_cluster.restart_node(killed)


def test_wrong_leaders_are_found_out_and_asked_for_anew(kafka_cluster, spread, asked):
    expected = spread(3)
    cluster = cluster_of(kafka_cluster)
    metadata = cluster.metadata(sorted({tp.topic for tp in expected}))
    (topic,) = metadata.topics.values()
    turned = dict(zip(topic.partitions, [*list(topic.partitions.values())[1:], topic.partitions[0]], strict=True))
    assert any(turned[p].broker != leader.broker for p, leader in topic.partitions.items())
    cluster._known = dataclasses.replace(metadata, topics={topic.name: dataclasses.replace(topic, partitions=turned)})
    assert cluster.end(expected) == expected
    asked.clear()
    assert cluster.end(expected) == expected
    assert "MetadataRequest" not in asked


def test_a_leader_epoch_that_the_broker_has_not_heard_of_is_asked_for_anew(cluster, topic):
    tp = TopicPartition(topic(), 0)
    metadata = cluster.metadata([tp.topic])
    right = metadata.leader(tp)
    (known,) = metadata.topics.values()
    wrong = {0: dataclasses.replace(right, epoch=right.epoch + 5)}
    cluster._known = dataclasses.replace(metadata, topics={tp.topic: dataclasses.replace(known, partitions=wrong)})
    assert cluster.end([tp]) == {tp: 0}
    assert cluster.known.leader(tp) == right


def test_what_a_dead_broker_leads_is_left_out_unless_waited_for(kafka_cluster, spread):
    expected = spread(1)  # one replica each: what a dead node leads has no other leader
    patient = cluster_of(kafka_cluster)  # for offsets that exist
    cluster = cluster_of(kafka_cluster, **{"kafka.default.api.timeout.ms": "4000"})  # for offsets that it gives up on
    led_by = leaders(patient, expected)
    leaders(cluster, expected)
    killed = led_by[min(expected)]
    dead = {tp for tp, node in led_by.items() if node == killed}
    alive = {tp: end for tp, end in expected.items() if tp not in dead}
    assert alive
    kafka_cluster.kill_node(killed)
    try:
        assert patient.reachable_ends(expected, wait_for=list(alive)) == alive
        # Brokers that are not waited for have a moment to answer, and a busy one may be too late.
        eventually(lambda: set(patient.bytes_per_record(dict.fromkeys(expected, 0))) == set(alive), "sizes")
        eventually(lambda: patient.reachable_ends(expected, wait_for=()) == alive, "ends")
        assert cluster.reachable_ends(expected, wait_for=list(dead)) == alive, "only nothing at all is an error"
        with pytest.raises(BrokerUnavailable, match=r"has no leader|connecting failed|closed by the broker"):
            cluster.reachable_ends(dead, wait_for=())
        with pytest.raises(BrokerUnavailable):
            cluster.end(expected)
    finally:
        kafka_cluster.restart_node(killed)
    assert patient.reachable_ends(expected, wait_for=list(expected)) == expected


def test_a_broker_that_does_not_answer_delays_only_callers_that_wait_for_it(kafka_cluster, spread, asked):
    expected = spread(1)
    cluster = cluster_of(kafka_cluster)
    led_by = leaders(cluster, expected)
    paused = led_by[min(expected)]
    alive = {tp: end for tp, end in expected.items() if led_by[tp] != paused}
    assert cluster.end(expected) == expected
    kafka_cluster.pause_node(paused)
    try:
        assert cluster.reachable_ends(expected, wait_for=list(alive)) == alive
        asked.clear()
        assert cluster.reachable_ends(expected, wait_for=list(alive)) == alive
        assert asked.count("ListOffsetsRequest") == len(set(led_by.values()) - {paused}), "it is left alone for a while"
    finally:
        kafka_cluster.resume_node(paused)
    assert cluster.end(expected) == expected, "a caller that waits gets an answer"


def test_a_broker_that_did_not_answer_is_asked_again_if_there_is_no_other(kafka, topic, produce):
    """A healthy broker on a busy machine may be slow once. It must still be asked afterwards."""
    name = topic(partitions=2)
    count = produce(name, [Rec(b"x", partition=0)])
    cluster = cluster_of(kafka, **{"kafka.default.api.timeout.ms": "8000"})
    partitions = [TopicPartition(name, 0), TopicPartition(name, 1)]
    (broker,) = cluster.metadata([name]).brokers.values()
    cluster._brokers._avoided[broker.host, broker.port] = time.monotonic() + 1000
    assert cluster.reachable_ends(partitions, wait_for=()) == {partitions[0]: count, partitions[1]: 0}


def test_no_partitions_need_no_request(cluster, asked):
    assert cluster.end([]) == cluster.reachable_ends([], []) == cluster.epoch_ends({}) == {}
    assert cluster.bytes_per_record({}) == {}
    assert asked == []


def test_a_partition_that_does_not_exist(cluster, topic):
    name = topic(partitions=2)
    with pytest.raises(UnknownTopic, match=f"partition {name}-7 does not exist: the topic has partitions 0 to 1"):
        cluster.reachable_ends([TopicPartition(name, 7)], [])


# --- leader epochs ----------------------------------------------------------------------------------------------------


def test_unknown_epochs_have_no_end(cluster, topic):
    name = topic(partitions=2)
    epochs = {TopicPartition(name, 0): -1, TopicPartition(name, 1): 77}
    assert cluster.epoch_ends(epochs) == dict.fromkeys(epochs, (-1, -1))


# --- sizes ------------------------------------------------------------------------------------------------------------


def stored_bytes(kafka, topic, count):
    """What the broker's disk says."""
    (log,) = kafka._node(1).data_dir.glob(f"{topic}-0/00000000000000000000.log")
    return log.stat().st_size / count


@pytest.mark.parametrize(
    "config", [{"compression.type": "none"}, {"compression.type": "lz4"}, {"compression.type": "zstd"}]
)
@pytest.mark.parametrize("batch", [16_384, 1_000_000])
def test_sizes_are_those_on_the_brokers_disk(cluster, kafka, topic, produce, config, batch):
    name = topic()
    rng = random.Random(5)
    records = [Rec(b"%064x" % rng.getrandbits(200), key=b"%08d" % i) for i in range(COUNT)]
    produce(name, records, **config, **{"batch.size": batch, "linger.ms": 50})
    tp = TopicPartition(name, 0)
    truth = stored_bytes(kafka, name, COUNT)
    for position in (0, COUNT // 3, COUNT - 10):
        found = cluster.bytes_per_record({tp: position})
        assert found[tp] == pytest.approx(truth, rel=0.25), f"at offset {position}"


def test_sizes_of_many_partitions_with_batches_larger_than_the_sample(cluster, topic, produce):
    name = topic(partitions=10)
    records = [Rec(bytes(100), partition=p) for p in range(10) for _ in range(3000)]
    produce(name, records, **{"batch.size": 1_000_000, "linger.ms": 200, "compression.type": "none"})
    found = cluster.bytes_per_record({TopicPartition(name, p): 0 for p in range(10)}, sample=2000)
    assert len(found) >= 9
    assert set(found) <= {TopicPartition(name, p) for p in range(10)}
    for size in found.values():
        assert size == pytest.approx(107, rel=0.25)


def test_partitions_without_data_are_left_out(cluster, topic, produce):
    name = topic(partitions=3)
    produce(name, [Rec(bytes(100))] * 50)
    positions = {TopicPartition(name, 0): 0, TopicPartition(name, 1): 0, TopicPartition(name, 2): 1000}
    assert list(cluster.bytes_per_record(positions)) == [TopicPartition(name, 0)]
    assert cluster.bytes_per_record({TopicPartition(name, 0): 50}) == {}


def test_offsets_without_records_weigh_nothing(cluster, kafka, topic, produce):
    """A compacted log: fewer bytes per offset, because many offsets have no record."""
    name = topic(cleanup_policy="compact", segment_ms=100, min_cleanable_dirty_ratio=0.01, max_compaction_lag_ms=100)
    tp = TopicPartition(name, 0)
    produce(name, [Rec(bytes(100), key=b"k") for _ in range(1000)])
    full = cluster.bytes_per_record({tp: 0})[tp]
    deadline = time.monotonic() + 60
    while cluster.bytes_per_record({tp: 0})[tp] > full / 10:
        assert time.monotonic() < deadline, "the log was not compacted"
        produce(name, [Rec(bytes(100), key=b"other")])  # closes the segment before it
        time.sleep(0.3)
