"""Shutdown at bad moments: it ends in time, and leaves no thread and no socket (H14, H17)."""

import os
import signal
import threading
import time
import uuid

import pytest

from chaos.members import Group, Listening, Process
from fixtures.consumer import Consumers, eventually
from fixtures.produce import Rec
from penstock.testing import EmbeddedKafka

TIMEOUT = 4.0
SLACK = 15.0
"""For a busy machine; shorter than the timeout of any request."""


def shut_down(connector, timeout=TIMEOUT):
    """It must not take longer than its timeout."""
    began = time.monotonic()
    connector.shutdown(timeout)
    assert time.monotonic() - began < timeout + SLACK


@pytest.fixture(scope="module")
def broker():
    """A broker that tests kill and pause."""
    with EmbeddedKafka() as kafka:
        yield kafka


@pytest.fixture
def victim(broker):
    """The same broker, restarted afterwards."""
    yield broker
    broker.resume_node(1)
    if broker.pid(1) is None:
        broker.restart_node(1)


def fill(produce, kafka, partitions=2, count=100):
    name = f"t-{uuid.uuid4().hex[:12]}"
    kafka.create_topic(name, partitions)
    produce(name, [Rec(b"x", partition=n % partitions) for n in range(count)], cluster=kafka)
    return name


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_while_the_coordinator_holds_a_join_back(kafka, topic, produce, tmp_path, assignor, left):
    name = topic(partitions=2)
    produce(name, [Rec(b"x", partition=n % 2) for n in range(100)])
    consumers = Consumers(kafka)
    # The test does not wait for the end of its session, which must not end before the test.
    settings = {"partition.assignment.strategy": assignor, "session.timeout.ms": 120_000}
    with Process(kafka, consumers.group, name, tmp_path, "asleep", **settings) as asleep:
        Group(kafka, consumers.group, name, 2).await_members(1)
        os.kill(asleep.pid, signal.SIGSTOP)
        reading = consumers.reading(name, 2, partition_assignment_strategy=assignor)
        eventually(lambda: reading.connector._membership.state == "joining", "a join that waits for the sleeper")
        time.sleep(0.5)  # the request is probably sent by now
        shut_down(reading.connector)
        reading.join()
        assert reading.count() == 0
        left.nothing()


@pytest.mark.parametrize("how", ["hangs", "is dead"])
def test_while_the_only_broker(victim, produce, left, how):
    """One consumer has read and not committed all of it; another one never reaches a broker."""
    name = fill(produce, victim)
    consumers = Consumers(victim)
    connecting = {"socket_connection_setup_timeout_ms": 2000}  # a connection attempt ends by its own timeout
    reading = consumers.reading(name, 2, auto_commit_interval_ms=600_000, **connecting)
    eventually(lambda: reading.count() == 100, "all records")
    if how == "hangs":
        victim.pause_node(1)
    else:
        victim.kill_node(1)
    late = consumers.reading(name, 2, **connecting)
    time.sleep(0.5)  # it connects, or tries to
    for each in (reading, late):
        shut_down(each.connector)
        each.join()
        assert not each.errors
    left.nothing()


def test_while_a_broker_that_hangs_is_asked_for_offsets(victim, produce, left):
    """In the middle of taking over an assignment."""
    name = fill(produce, victim)
    consumers = Consumers(victim)

    class Pausing(Listening):
        def revoked(self, owned):
            victim.pause_node(1)

    listener = Pausing()
    connector = consumers.connector()
    connector.set_rebalance_listener(listener)
    connector.create_message_streams({name: 1})
    eventually(lambda: len(connector.assignment()) == 2, "partitions")
    connector._membership.rejoin("a test")
    time.sleep(0.5)
    shut_down(connector)
    left.nothing()


@pytest.mark.parametrize("method", ["revoked", "assigned"])
def test_while_a_listener_does_not_return(kafka, topic, left, method):
    name = topic()
    consumers = Consumers(kafka)
    called, go_on = threading.Event(), threading.Event()

    class Blocking(Listening):
        def block(self):
            called.set()
            go_on.wait(60)

        def revoked(self, owned):
            super().revoked(owned)
            if method == "revoked":
                self.block()

        def assigned(self, consumer_id, assignment):
            super().assigned(consumer_id, assignment)
            if method == "assigned":
                self.block()

    listener = Blocking()
    connector = consumers.connector()
    connector.set_rebalance_listener(listener)
    (stream,) = connector.create_message_streams({name: 1})[name]
    if method == "revoked":
        eventually(lambda: connector.assignment(), "a partition")
        connector._membership.rejoin("a test")
    assert called.wait(60)
    shut_down(connector)
    assert list(stream) == []
    go_on.set()
    left.nothing()
    assert listener.count("revoked") <= 1


def test_by_the_listener_and_by_the_reader(kafka, topic, produce, left):
    name = topic()
    produce(name, [Rec(b"x") for _ in range(100)])

    class Ending(Listening):
        def assigned(self, consumer_id, assignment):
            connector.shutdown()

    connector = Consumers(kafka).connector()
    connector.set_rebalance_listener(Ending())
    (stream,) = connector.create_message_streams({name: 1})[name]
    assert list(stream) == []
    connector.shutdown()

    connector = Consumers(kafka).connector()
    (stream,) = connector.create_message_streams({name: 1})[name]
    seen = []
    for message in stream:
        seen.append(message.offset)
        connector.shutdown()
    assert seen == [0]
    left.nothing()


def test_a_listener_is_notified_of_a_revocation_once(kafka, topic):
    name = topic(partitions=3)
    listener = Listening()
    connector = Consumers(kafka).connector()
    connector.set_rebalance_listener(listener)
    connector.create_message_streams({name: 1})
    eventually(lambda: len(connector.assignment()) == 3, "partitions")
    connector.shutdown()
    assert listener.events == [("assigned", {0, 1, 2}), ("revoked", {0, 1, 2})]
