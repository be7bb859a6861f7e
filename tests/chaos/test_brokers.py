"""Brokers that go and come back under a running query: it waits for them, and nothing is lost or read twice."""

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from chaos.load import Load
from chaos.processes import until
from penstock.embedded import EmbeddedKafka

pytestmark = [pytest.mark.spark, pytest.mark.broker]

PARTITIONS = 3


def test_a_broker_killed_and_restarted_twice_under_a_query_costs_no_record(running):
    with EmbeddedKafka() as kafka:
        kafka.create_topic("killed", PARTITIONS)
        query = running(kafka, subscribe="killed")
        with Load(kafka.client_options(prefix=""), lambda i: ("killed", i % PARTITIONS)) as load:
            for _ in range(2):
                query.await_rows(query.rows() + 100)
                kafka.kill_node(1)
                kafka.restart_node(1)
            query.await_rows(query.rows() + 100)
            query.await_exactly(load.stop())


def test_leaders_that_move_between_three_brokers_under_load_cost_no_record(running, kafka_cluster):
    topic = "moving-leaders"
    kafka_cluster.create_topic(topic, PARTITIONS, configs={"min.insync.replicas": 1})
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})

    def leaders() -> dict[int, int]:
        found = admin.list_topics(topic, timeout=30).topics[topic].partitions
        return {number: partition.leader for number, partition in found.items()}

    preferred = leaders()
    victim = preferred[0]
    query = running(kafka_cluster, subscribe=topic)
    try:
        with Load(kafka_cluster.client_options(prefix=""), lambda i: (topic, i % PARTITIONS)) as load:
            query.await_rows(100)
            kafka_cluster.stop_node(victim)
            assert until(lambda: victim not in leaders().values(), 60)
            query.await_rows(query.rows() + 200)
            kafka_cluster.restart_node(victim)

            def elected() -> bool:
                """Refused while the node is still catching up."""
                wanted = [TopicPartition(topic, number) for number in preferred]
                admin.elect_leaders(ElectionType.PREFERRED, wanted).result(30)
                return leaders() == preferred

            assert until(elected, 60, 0.5)
            query.await_rows(query.rows() + 200)
            query.await_exactly(load.stop())
    finally:
        if kafka_cluster.pid(victim) is None:
            kafka_cluster.restart_node(victim)
