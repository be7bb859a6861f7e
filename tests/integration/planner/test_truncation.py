"""F27: a leader elected from a replica that lagged gives the offsets of lost records to others. That is data loss."""

import dataclasses
import uuid

import pytest
from confluent_kafka.admin import AdminClient

from fixtures.consumer import eventually
from fixtures.produce import Rec
from penstock.config.source import parse_options
from penstock.errors import DataLoss
from penstock.model.offset_spec import StartRules
from penstock.planner.batch import plan_batch
from penstock.planner.stream import StreamPlanner
from penstock.wire.cluster import Cluster
from support.configs import stream_options
from support.reading import range_reader

UNSAFE = {"enable.idempotence": False, "acks": 1}


def replicas(cluster, topic):
    """The leader of a topic's only partition, and its other replica."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})

    def listed():
        """Some brokers learn of a topic later than others."""
        found = admin.list_topics(topic, timeout=30).topics[topic].partitions.get(0)
        return found if found is not None and found.leader in found.replicas else None

    partition = eventually(listed, "a leader")
    (other,) = set(partition.replicas) - {partition.leader}
    return partition.leader, other


def values(batches):
    return [value for batch in batches for value in batch.column("value").to_pylist()]


@pytest.fixture
def cut_log(kafka_cluster, produce):
    """A topic of 200 records whose second half was lost and replaced by 50 others: (options, range planned before,
    the values a reader had seen before, and its further batches)."""
    name = f"cut-{uuid.uuid4().hex[:8]}"
    kafka_cluster.create_topic(name, 1, 2, {"min.insync.replicas": 1, "unclean.leader.election.enable": True})
    small = {"batch.num.messages": 10}
    produce(name, [Rec(b"%d" % i) for i in range(100)], cluster=kafka_cluster, **small)
    leader, other = replicas(kafka_cluster, name)
    kafka_cluster.stop_node(other)
    try:
        produce(name, [Rec(b"%d" % i) for i in range(100, 200)], cluster=kafka_cluster, **small, **UNSAFE)
        client = kafka_cluster.client_options() | {"kafka.max.partition.fetch.bytes": "1000"}
        options = parse_options(client | {"subscribe": name})
        # One that ended in a hurry is counted in until it is missed, and what it has not got cannot be read till then.
        eventually(lambda: [each.stop for each in plan_batch(options)] == [200], "all records")
        (planned,) = plan_batch(options)
        assert (planned.start, planned.stop) == (0, 200)
        assert planned.leader_epoch >= 0
        begun = range_reader(planned, ["value"], options.client)
        batches = iter(begun)
        seen = values([next(batches)])
        kafka_cluster.kill_node(leader)
        kafka_cluster.restart_node(other)
        produce(name, [Rec(b"another %d" % i) for i in range(50)], cluster=kafka_cluster, **small, **UNSAFE)
        yield options, planned, seen, batches
    finally:
        for node in (leader, other):
            if kafka_cluster.pid(node) is None:
                kafka_cluster.restart_node(node)


def test_F27_records_replaced_after_an_unclean_election_are_data_loss(cut_log, caplog):
    options, planned, seen, begun = cut_log
    assert Cluster(options.client).end([planned.topic_partition]) == {planned.topic_partition: 150}
    lost = "wanted offsets 100 to 200 as leader epoch"

    assert 0 < len(seen) < 100
    with pytest.raises(DataLoss, match=lost):
        seen += values(begun)
    assert seen == [b"%d" % i for i in range(len(seen))], "a reader under way has seen other records"

    with pytest.raises(DataLoss, match=lost):
        list(range_reader(planned, ["value"], options.client))

    # Were the log not known to be cut, its end would be waited for: longer than a test may take.
    reader = range_reader(planned, ["value"], options.client, fail_on_data_loss=False, poll_timeout=600.0)
    assert values(reader) == [b"%d" % i for i in range(100)] + [b"another %d" % i for i in range(50)]
    assert reader.lost == (100, planned.stop)
    assert caplog.text.count("Reading on") == 1

    # What lies below the cut is what it was: no false alarm, though the epoch is another one.
    part = dataclasses.replace(planned, stop=100)
    assert values(range_reader(part, ["value"], options.client)) == [b"%d" % i for i in range(100)]

    # A query that was down meanwhile stands where the new log has records too: only the epoch in its group tells.
    tp, group = planned.topic_partition, uuid.uuid4().hex
    Cluster(options.client).commit(group, {tp: 120}, {tp: planned.leader_epoch})
    restored = dataclasses.replace(options, rules=StartRules(group), stream=stream_options(commit_mode="on-checkpoint"))
    with pytest.raises(DataLoss, match="wanted from offset 120, the broker has offsets up to 100 of what was read"):
        StreamPlanner.connect(restored).latest({tp: 120})
    lenient = StreamPlanner.connect(dataclasses.replace(restored, fail_on_data_loss=False))
    assert lenient.latest({tp: 120}) == {tp: 100}
    assert lenient.latest({tp: 100}) == {tp: 150}
