"""F11, F14: new topics and partitions join a running query, from their first record on."""

import uuid

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from chaos.load import Load

pytestmark = [pytest.mark.spark, pytest.mark.broker]

DISCOVERY = {"partition.discovery.interval.ms": 200}


def test_F14_a_topic_grows_from_2_to_8_partitions_under_load(running, kafka, topic):
    name = topic(partitions=2)
    partitions = 2
    query = running(kafka, subscribe=name, **DISCOVERY)
    with Load(kafka.client_options(prefix=""), lambda i: (name, i % partitions)) as load:
        query.await_rows(100)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        admin.create_partitions([NewPartitions(name, 8)])[name].result(30)
        partitions = 8
        query.await_that(lambda records: {partition for _, partition, _, _ in records} == set(range(8)))
        query.await_exactly(load.stop())


def test_F14_fifty_topics_by_pattern_half_of_them_created_during_the_query(running, kafka):
    prefix = f"many-{uuid.uuid4().hex[:8]}"
    names = [f"{prefix}-{number}" for number in range(50)]
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})

    def make(some: list[str]) -> None:
        for made in admin.create_topics([NewTopic(name, 1, 1) for name in some]).values():
            made.result(30)

    make(names[:25])
    there = names[:25]
    query = running(kafka, subscribePattern=f"{prefix}-.*", **DISCOVERY)
    try:
        with Load(kafka.client_options(prefix=""), lambda i: (there[i % len(there)], 0)) as load:
            query.await_rows(100)
            for at in range(25, 50, 5):
                make(names[at : at + 5])
                there = names[: at + 5]
            query.await_that(lambda records: {topic for topic, _, _, _ in records} == set(names))
            query.await_exactly(load.stop())
    finally:
        query.query.stop()  # before its topics are deleted, which is data loss for it
        for deleted in admin.delete_topics(names).values():
            deleted.result(30)
