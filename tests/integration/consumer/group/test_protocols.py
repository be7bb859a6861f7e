"""Groups that move from one protocol to the other while they run, and groups with members of both (H5)."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer

from fixtures.consumer import eventually
from fixtures.members import Made, partitions, wait_for
from penstock.consumer.subscription import NamedTopics
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_admin import GroupAdmin
from support.group_clients import JavaConsumer, Polled, settled

CONSUMER = {"group.protocol": "consumer"}
CONVERTIBLE = {"group.user.data": False, "partition.assignment.strategy": "cooperative-sticky"}
QUICK = {"auto.offset.reset": "earliest", "enable.auto.commit": False}


@pytest.fixture
def joined(kafka, group):
    """`joined(topic, settings)`: a Penstock member of the test's group. Closed at the end."""
    made = []

    def join(topic, settings, streams=1):
        made.append(Made(kafka, group, NamedTopics({topic: streams}), settings))
        made[-1].membership.start()
        return made[-1]

    yield join
    for each in made:
        each.close()


def kind_of(cluster, group):
    described = GroupAdmin(cluster.config).describe(group)
    return None if described is None else described.kind


@pytest.mark.extended
def test_H5_a_running_group_moves_to_the_protocol_of_the_brokers_and_back(joined, topic, cluster, group):
    name = topic(partitions=4)
    everything = partitions(name, 4)
    old = [joined(name, CONVERTIBLE) for _ in range(2)]
    settled(old, everything)
    assert kind_of(cluster, group) == "classic"
    new = [joined(name, CONSUMER)]
    settled([*old, *new], everything)
    assert kind_of(cluster, group) == "consumer"
    old.pop().close()
    new.append(joined(name, CONSUMER))
    settled([*old, *new], everything)
    old.pop().close()
    settled(new, everything)
    # And back.
    old = [joined(name, CONVERTIBLE)]
    settled([*old, *new], everything)
    new.pop().close()
    settled([*old, *new], everything)  # else brokers that convert the group refuse the old member's generation
    new.pop().close()
    settled(old, everything)
    assert kind_of(cluster, group) == "classic"
    assert not any(kind == "lost" for each in old for kind, _ in each.recorder.events)


def test_H5_a_classic_group_with_user_data_is_not_converted_and_the_error_says_how(joined, kafka, topic, group):
    name = topic(partitions=2)
    settled([joined(name, {}, streams=2)], partitions(name, 2))
    refused = Made(kafka, group, NamedTopics({name: 1}), CONSUMER)
    refused.membership.start()
    wait_for(lambda: refused.recorder.errors, "an error")
    assert "group.user.data" in str(refused.recorder.errors[0])
    refused.close()


def test_H5_a_classic_member_joins_a_group_of_the_brokers_whatever_it_sends(joined, topic):
    name = topic(partitions=6)
    first = joined(name, CONSUMER)
    settled([first], partitions(name, 6))
    second = joined(name, {"partition.assignment.strategy": "range"}, streams=2)
    settled([first, second], partitions(name, 6))
    assert sorted(second.recorder.partitions.values()) in ([0, 0, 1], [0, 1, 1])


# --- other clients ----------------------------------------------------------------------------------------------------


def librdkafka(kafka, group, topic, protocol):
    times = {"heartbeat.interval.ms": 200, "session.timeout.ms": 30_000} if protocol == "classic" else {}
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "group.protocol": protocol}
    consumer = Consumer(settings | QUICK | times)
    consumer.subscribe([topic])

    def poll():
        consumer.poll(0.05)
        return {TopicPartition(tp.topic, tp.partition) for tp in consumer.assignment()}

    return Polled("librdkafka", poll, consumer.close)


class JavaMember(JavaConsumer):
    """Kafka's console consumer, in either protocol."""

    def __init__(self, kafka, group, topic, protocol):
        super().__init__(kafka, group, topic, "range", protocol)


OTHERS = {"librdkafka": librdkafka, "java": JavaMember}


@pytest.mark.extended
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("other", list(OTHERS))
def test_H5_a_group_is_shared_with_other_clients_of_both_protocols(joined, kafka, topic, group, other, protocol):
    name = topic(partitions=6)
    everything = partitions(name, 6)
    ours = joined(name, CONSUMER, streams=2)
    settled([ours], everything)
    theirs = OTHERS[other](kafka, group, name, protocol)
    try:
        settled([ours, theirs], everything)
        more = joined(name, CONSUMER)
        settled([ours, theirs, more], everything)
    finally:
        theirs.close()
    settled([ours, more], everything)
    assert not any(kind == "lost" for kind, _ in ours.recorder.events)


@pytest.mark.extended
@pytest.mark.parametrize("other", list(OTHERS))
def test_H5_another_client_moves_a_group_of_classic_penstock_members(joined, kafka, topic, group, other, cluster):
    name = topic(partitions=6)
    everything = partitions(name, 6)
    ours = joined(name, {**CONVERTIBLE, "partition.assignment.strategy": "range"})
    settled([ours], everything)
    theirs = OTHERS[other](kafka, group, name, "consumer")
    try:
        settled([ours, theirs], everything)
        assert kind_of(cluster, group) == "consumer"
    finally:
        theirs.close()
    settled([ours], everything)
    eventually(lambda: kind_of(cluster, group) == "classic", "a classic group again")
