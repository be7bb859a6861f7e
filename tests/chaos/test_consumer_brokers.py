"""Brokers that lose leaderships, die, hang and come back: the consumer follows (H10), continues with the partitions of
the other brokers (H13), and hands out each record once."""

import threading
import time
import uuid
from collections import Counter

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonPartition

from chaos.load import Load
from chaos.members import ends
from fixtures.cluster import await_nodes, elect_preferred
from fixtures.consumer import MORTAL, Consumers, eventually
from fixtures.produce import Rec
from penstock import OffsetOutOfRange
from penstock import TopicPartition as Partition
from penstock.testing import EmbeddedKafka

PARTITIONS = 6
LASTING = {"session_timeout_ms": 120_000}
"""A group that survives the absence of its brokers, which take many seconds to come back on a busy machine."""


def make(kafka, partitions=PARTITIONS, **more):
    name = f"t-{uuid.uuid4().hex[:12]}"
    kafka.create_topic(name, partitions, **more)
    return name


def load(kafka, topic, partitions=PARTITIONS):
    return Load(kafka.client_options(prefix=""), lambda i: (topic, i % partitions))


def goes_on(reading, records=100):
    reached = reading.count()
    eventually(lambda: reading.count() > reached + records, lambda: f"{records} more; errors: {reading.errors}")


def everything(kafka, topic, load, partitions=PARTITIONS):
    """All records in the logs after the load. Not those of the producer: if its broker was killed, it may have written
    a record twice."""
    count = sum(load.stop().values())

    def written():
        try:
            return ends(kafka.client_options(prefix=""), topic, partitions)
        except KafkaException:  # a new leader does not know its end yet
            return None

    logs = eventually(written, "the ends of all logs")
    assert sum(logs.values()) >= count
    return {(topic, partition, offset) for partition, end in logs.items() for offset in range(end)}


def exactly_once(kafka, consumers, topic, load, partitions=PARTITIONS):
    """No record is missing, and none came twice."""
    written = everything(kafka, topic, load, partitions)
    eventually(lambda: consumers.records().keys() == written, "every record")
    assert max(consumers.records().values()) == 1
    assert not [error for reading in consumers.readings for error in reading.errors]


def fetchers(*brokers):
    """Names of the threads that fetch from these brokers; without arguments, from any."""
    wanted = tuple(f"penstock-fetch-{broker}-" for broker in brokers) or ("penstock-fetch-",)
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith(wanted))


class Leaders:
    def __init__(self, kafka, topic, partitions=PARTITIONS):
        self._servers = kafka.bootstrap_servers
        self._admin = AdminClient({"bootstrap.servers": self._servers})
        self._topic = topic
        # Some brokers learn of a topic later than others.
        eventually(
            lambda: len(self.listed()) == partitions and all(each.leader > 0 for each in self.listed().values()),
            "all partitions, each with a leader",
        )

    def listed(self):
        return self._list(self._topic).topics[self._topic].partitions

    def _list(self, *topic):
        """The broker that is asked may be stopping."""

        def ask():
            try:
                return self._admin.list_topics(*topic, timeout=30)
            except KafkaException:
                return None

        return eventually(ask, "a listing")

    def __call__(self):
        """The id of the leader by partition."""
        return {number: partition.leader for number, partition in self.listed().items()}

    def address(self, node_id):
        broker = self._list().brokers[node_id]
        return f"{broker.host}:{broker.port}"

    def coordinator(self, group):
        """librdkafka's request hangs if the coordinator has moved: then another client must ask."""

        def ask():
            admin = AdminClient({"bootstrap.servers": self._servers})
            try:
                return admin.describe_consumer_groups([group], request_timeout=3)[group].result(6).coordinator.id
            except (KafkaException, TimeoutError):
                return None

        return eventually(ask, "the coordinator")


def test_H10_partitions_that_move_to_another_broker_are_fetched_there(kafka_cluster, cluster_consumers):
    topic = make(kafka_cluster, 2, replication_factor=1)
    leaders = Leaders(kafka_cluster, topic, 2)
    old = leaders()[0]
    new = next(node for node in kafka_cluster.node_ids if node not in leaders().values())
    with load(kafka_cluster, topic, 2) as writing:
        reading = cluster_consumers.reading(topic)
        goes_on(reading)
        eventually(lambda: fetchers(leaders.address(old)), "a fetcher of the leader")
        assert not fetchers(leaders.address(new))
        admin = KafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap_servers)
        try:
            admin.alter_partition_reassignments({PythonPartition(topic, 0): [new]})
        finally:
            admin.close()
        eventually(lambda: leaders()[0] == new, "another leader")
        eventually(lambda: fetchers(leaders.address(new)), "a fetcher of the new leader")
        eventually(lambda: not fetchers(leaders.address(old)), "no fetcher of a broker that leads nothing (H9)")
        goes_on(reading)
        exactly_once(kafka_cluster, cluster_consumers, topic, writing, 2)
    assert reading.connector.metrics().out_of_range_resets == 0


def test_H13_a_broker_killed_and_restarted_loses_no_record_and_the_others_continue(kafka_cluster, cluster_consumers):
    """Also for the coordinator of the group."""
    topic = make(kafka_cluster)
    leaders = Leaders(kafka_cluster, topic)
    with load(kafka_cluster, topic) as writing:
        reading = cluster_consumers.reading(topic, 2, **LASTING)
        goes_on(reading)
        victim = leaders.coordinator(cluster_consumers.group)
        before = leaders()
        others = [partition for partition, leader in before.items() if leader != victim]
        assert 0 < len(others) < PARTITIONS
        eventually(lambda: len(reading.connector.position()) == PARTITIONS, "a position in each")
        reached = {tp.partition: at for tp, at in reading.connector.position().items()}
        kafka_cluster.kill_node(victim)
        try:
            eventually(
                lambda: all(reading.connector.position()[topic, p] > reached[p] + 5 for p in others), "the others go on"
            )
            eventually(lambda: victim not in leaders().values(), "other leaders")
            goes_on(reading)
        finally:
            kafka_cluster.restart_node(victim)
        goes_on(reading)
        exactly_once(kafka_cluster, cluster_consumers, topic, writing)
        reading.connector.commit_offsets()


def test_H10_a_replica_of_the_same_rack_is_read_and_the_leader_when_it_is_gone(kafka_cluster, cluster_consumers):
    topic = make(kafka_cluster, 2)
    leaders = Leaders(kafka_cluster, topic, 2)
    follower = next(node for node in kafka_cluster.node_ids if node not in leaders().values())
    addresses = {node: leaders.address(node) for node in kafka_cluster.node_ids}
    with load(kafka_cluster, topic, 2) as writing:
        reading = cluster_consumers.reading(topic, client_rack=f"r{follower}", **LASTING)
        eventually(lambda: fetchers() == fetchers(addresses[follower]) != [], "only the replica of that rack is asked")
        goes_on(reading)
        kafka_cluster.kill_node(follower)
        try:
            eventually(
                lambda: fetchers() == fetchers(*(addresses[node] for node in set(leaders().values()))) != [],
                "only the leaders are asked",
            )
            goes_on(reading)
        finally:
            kafka_cluster.restart_node(follower)
        eventually(lambda: fetchers() == fetchers(addresses[follower]) != [], "it is back, and in sync")
        goes_on(reading)
        exactly_once(kafka_cluster, cluster_consumers, topic, writing, 2)
    assert reading.connector.metrics().out_of_range_resets == 0


@pytest.mark.parametrize("coordinates", [False, True], ids=["leader", "coordinator"])
def test_H13_partitions_of_a_leader_that_hangs_are_read_from_the_next_one(
    kafka_cluster, cluster_consumers, coordinates
):
    """Its answer takes as long as the request timeout, which is longer than this test."""
    topic = make(kafka_cluster)
    elect_preferred(kafka_cluster, topic)
    leaders = Leaders(kafka_cluster, topic)
    with load(kafka_cluster, topic) as writing:
        reading = cluster_consumers.reading(
            topic, 2, request_timeout_ms=600_000, **(LASTING if not coordinates else {})
        )
        goes_on(reading)
        coordinator = leaders.coordinator(cluster_consumers.group)
        victim = coordinator if coordinates else next(node for node in leaders().values() if node != coordinator)
        held = [partition for partition, leader in leaders().items() if leader == victim]
        assert held
        eventually(lambda: len(reading.connector.position()) == PARTITIONS, "a position in each")
        kafka_cluster.pause_node(victim)
        try:
            eventually(lambda: victim not in leaders().values(), "other leaders")
            reached = reading.connector.position()
            eventually(
                lambda: all(reading.connector.position()[topic, p] > reached[topic, p] + 20 for p in held),
                "records of the partitions that it led",
            )
            reading.connector.commit_offsets()
        finally:
            kafka_cluster.resume_node(victim)
            await_nodes(kafka_cluster)
        goes_on(reading)
        exactly_once(kafka_cluster, cluster_consumers, topic, writing)
    assert reading.connector.metrics().out_of_range_resets == 0
    assert reading.connector.metrics().rebalances == 1, "its membership has outlived that"


@pytest.fixture(scope="module")
def broker():
    """A broker that tests kill and pause."""
    with EmbeddedKafka() as kafka:
        yield kafka


@pytest.fixture
def broker_consumers(broker):
    made = Consumers(broker)
    yield made
    made.close()


@pytest.mark.parametrize("seconds", [0, pytest.param(20, marks=pytest.mark.soak)])
def test_H13_all_brokers_down_and_back_lose_no_record(broker, broker_consumers, seconds):
    """For this time, and the time that a killed broker takes to start again: about seven seconds."""
    topic = make(broker)
    with load(broker, topic) as writing:
        reading = broker_consumers.reading(topic, 2, **LASTING)
        goes_on(reading)
        broker.kill_node(1)
        time.sleep(seconds)
        assert not reading.errors
        broker.restart_node(1)
        goes_on(reading)
        exactly_once(broker, broker_consumers, topic, writing)
    assert reading.connector.metrics().rebalances == 1, "its membership has outlived that"


def test_H5_a_member_whose_session_ended_reads_uncommitted_records_again(broker, broker_consumers):
    topic = make(broker)
    with load(broker, topic) as writing:
        reading = broker_consumers.reading(topic, 2, auto_commit_interval_ms=600_000, **MORTAL)
        goes_on(reading)
        eventually(lambda: len(reading.connector.position()) == PARTITIONS, "a position in each")
        committed = reading.connector.position()
        reading.connector.commit_offsets(committed)
        goes_on(reading)
        broker.kill_node(1)
        eventually(lambda: reading.connector.assignment() == {}, "its partitions are taken from it")
        given = set(reading.records())
        broker.restart_node(1)
        goes_on(reading, 500)
        written = everything(broker, topic, writing)
    eventually(lambda: broker_consumers.records().keys() == written, "every record")
    twice = {record for record, times in broker_consumers.records().items() if times > 1}
    assert twice
    assert twice == {(name, partition, at) for name, partition, at in given if at >= committed[name, partition]}


def test_H13_a_broker_that_hangs_longer_than_a_request_may_take(broker, broker_consumers):
    topic = make(broker)
    with load(broker, topic) as writing:
        reading = broker_consumers.reading(topic, 2, request_timeout_ms=1000, **LASTING)
        goes_on(reading)
        broker.pause_node(1)
        try:
            time.sleep(3)
        finally:
            broker.resume_node(1)
        goes_on(reading)
        exactly_once(broker, broker_consumers, topic, writing)


def test_H12_a_log_truncated_by_an_unclean_election_is_read_from_the_truncation(kafka_cluster, produce):
    """By a consumer that was running, by one that was down, and not by one without a reset rule."""
    topic = make(kafka_cluster, 1, replication_factor=2, configs={"unclean.leader.election.enable": True})
    unsafe = {"enable.idempotence": False, "acks": 1}
    there, strict, down = (Consumers(kafka_cluster) for _ in range(3))
    partition = Leaders(kafka_cluster, topic, 1).listed()[0]
    leader, (other,) = partition.leader, set(partition.replicas) - {partition.leader}
    try:
        produce(topic, [Rec(b"x") for _ in range(100)], cluster=kafka_cluster)
        kafka_cluster.stop_node(other)
        produce(topic, [Rec(b"x") for _ in range(100)], cluster=kafka_cluster, **unsafe)
        readings = [
            there.reading(topic, **LASTING),
            strict.reading(topic, auto_offset_reset="none", start={Partition(topic, 0): 0}, **LASTING),
            down.reading(topic, enable_auto_commit=False, **LASTING),
        ]
        for reading in readings:
            eventually(lambda: reading.count() == 200, "all records")  # noqa: B023
        readings[2].connector.commit_offsets({Partition(topic, 0): 120})
        readings[2].connector.shutdown()
        kafka_cluster.kill_node(leader)
        kafka_cluster.restart_node(other)
        produce(topic, [Rec(b"y") for _ in range(50)], cluster=kafka_cluster, **unsafe)
        expected = Counter({(topic, 0, offset): 2 if 100 <= offset < 150 else 1 for offset in range(200)})
        eventually(lambda: readings[0].records() == expected, "what came in place of the lost records")
        eventually(lambda: readings[1].errors, "an error")
        assert isinstance(readings[1].errors[0], OffsetOutOfRange)
        assert "another log from offset 100" in str(readings[1].errors[0])
        again = down.reading(topic, **LASTING)
        eventually(lambda: again.count() >= 50, "records")
        assert again.records() == Counter((topic, 0, offset) for offset in range(100, 150))
    finally:
        for node in (leader, other):
            if kafka_cluster.pid(node) is None:
                kafka_cluster.restart_node(node)
        for each in (there, strict, down):
            each.close()
