"""A member of a group when sessions, coordinators and networks fail, and when it is closed at a bad moment."""

import contextlib
import logging
import socket
import threading
import time

import pytest
from kafka.protocol.consumer.group import JoinGroupRequest

from fixtures.members import DEADLINE, Made, await_shared, partitions, wait_for
from penstock.consumer.subscription import NamedTopics
from penstock.errors import AuthorizationFailed, BrokerUnavailable, CommitRefused
from penstock.model.reader_index import _java_hash
from penstock.model.topic_partition import TopicPartition
from penstock.testing import EmbeddedKafka
from penstock.testing.node import free_ports
from penstock.wire.api.group_member import GroupMember
from penstock.wire.api.group_membership import ask_leave
from penstock.wire.transport.connection import Connection
from penstock.wire.transport.pool import POOL
from support.group_configs import set_session

COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
CONSUMER = {"group.protocol": "consumer"}
ASSIGNORS = ["range", "cooperative-sticky"]
BOTH = pytest.mark.parametrize("protocol", [{}, CONSUMER], ids=["classic", "consumer"])


def throw_out(made, kafka):
    """Leave the group with the id of another member."""
    host, port = kafka.bootstrap_servers.split(":")
    connection = POOL.acquire(made.config.client, host, int(port), DEADLINE)
    try:
        ask_leave(connection, made.config.group, GroupMember(made.membership.member_id), "removed", DEADLINE)
    finally:
        POOL.release(connection)


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_H5_a_member_that_was_removed_loses_all_partitions_and_joins_again(member, topic, kafka, assignor):
    name = topic(partitions=2)
    one = member({name: 1}, **{"partition.assignment.strategy": assignor})
    await_shared([one], partitions(name, 2))
    before = one.membership.member_id
    throw_out(one, kafka)
    wait_for(lambda: one.membership.rebalances == 2 and one.has, "a second assignment")
    assert one.recorder.events[1] == ("lost", sorted(partitions(name, 2)))
    assert one.membership.member_id != before
    assert not one.recorder.assignments[-1].fresh


def test_H15_a_commit_of_a_member_that_was_removed_is_refused_and_it_joins_again(member, topic, kafka):
    name = topic(partitions=1)
    one = member({name: 1}, **{"heartbeat.interval.ms": 60_000, "session.timeout.ms": 180_000})
    await_shared([one], partitions(name, 1))
    throw_out(one, kafka)
    with pytest.raises(CommitRefused, match="does not know this member"):
        one.membership.commit({TopicPartition(name, 0): 5})
    wait_for(lambda: one.membership.rebalances == 2, "a second assignment", seconds=50)  # no heartbeat was due yet


def test_H5_a_session_without_heartbeats_is_lost_and_joined_again(topic, kafka, group):
    name = topic(partitions=2)
    eager, cooperative = (
        Made(kafka, f"{group}-{i}", NamedTopics({name: 1}), {"session.timeout.ms": 6000, **settings})
        for i, settings in enumerate(({}, COOPERATIVE))
    )
    try:
        for one in (eager, cooperative):
            one.membership.start()
            await_shared([one], partitions(name, 2))
        kafka.pause_node(1)
        try:
            for one in (eager, cooperative):
                wait_for(lambda: one.recorder.partitions == {}, "partitions lost")  # noqa: B023
                assert one.recorder.events[-1][0] == "lost"
                with pytest.raises(CommitRefused, match="not a member"):
                    one.membership.commit({TopicPartition(name, 0): 5})
        finally:
            kafka.resume_node(1)
        for one in (eager, cooperative):
            await_shared([one], partitions(name, 2))
    finally:
        for one in (eager, cooperative):
            one.close()


@BOTH
def test_H5_heartbeats_continue_while_a_listener_is_slow(member, topic, kafka, group, protocol):
    name = topic(partitions=2)
    if protocol:
        set_session(kafka, group, 6000)
    one = member({name: 1}, **protocol or {"session.timeout.ms": 6000})
    await_shared([one], partitions(name, 2))
    one.recorder.on_revoke = lambda revoked, lost: time.sleep(7)  # longer than the session
    two = member({name: 1}, **protocol)
    await_shared([one, two], partitions(name, 2))
    assert [kind for kind, _ in one.recorder.events] == ["assigned", "revoked", "assigned"]
    one.recorder.on_revoke = lambda revoked, lost: None


def test_H5_a_killed_coordinator_is_found_again_and_nothing_is_lost(kafka_cluster, group):
    name = f"coordinated-{group}"
    kafka_cluster.create_topic(name, 4, 3)
    groups = three_groups_of_one_coordinator(group)
    made = {
        each: [Made(kafka_cluster, each, NamedTopics({name: 1}), settings) for _ in range(3)]
        for each, settings in zip(groups, ({}, COOPERATIVE, CONSUMER), strict=True)
    }
    everybody = [one for members in made.values() for one in members]
    try:
        for one, two, _ in made.values():
            one.membership.start()
            two.membership.start()
            await_shared([one, two], partitions(name, 4))
        port = everybody[0].membership._coordinator._where.port
        node = next(n for n in kafka_cluster.node_ids if kafka_cluster._node(n).ports.client == port)
        kafka_cluster.kill_node(node)
        try:
            for one, two, three in made.values():
                for each in (one, two):
                    wait_for(lambda: _coordinator_port(each) not in (None, port), "another coordinator")  # noqa: B023
                    each.membership.commit({min(each.has): 3}, timeout=DEADLINE)
                three.membership.start()
                await_shared([one, two, three], partitions(name, 4))
        finally:
            kafka_cluster.restart_node(node)
    finally:
        for each in everybody:
            each.close()
    assert not any(kind == "lost" for each in everybody for kind, _ in each.recorder.events)


def three_groups_of_one_coordinator(group):
    """A group's offsets are in one of four partitions, by its name; the leader of that partition is its coordinator."""

    def at(name):
        return min(_java_hash(name), 2**32 - _java_hash(name)) % 4  # of the absolute value

    names = [f"{group}-{i}" for i in range(100)]
    return [name for name in names if at(name) == at(names[0])][:3]


def _coordinator_port(made):
    where = made.membership._heartbeats._coordinator._where
    return None if where is None else where.port


@BOTH
def test_H17_without_a_broker_it_waits_and_logs_it_once(topic, kafka, group, caplog, protocol):
    """First a port without a listener takes the broker's place, then one that forwards to it."""
    name = topic(partitions=1)
    [port] = free_ports(1)  # outside of the range from which the system gives ports to clients
    caplog.set_level(logging.INFO, "penstock.consumer")
    servers = f"127.0.0.1:{port}"
    one = Made(servers, group, NamedTopics({name: 1}), {"retry.backoff.ms": 10, "retry.backoff.max.ms": 20, **protocol})
    one.membership.start()
    retries = one.membership._heartbeats if protocol else one.membership
    try:

        def logged():
            return [record for record in caplog.records if "waiting for Kafka" in record.getMessage()]

        wait_for(logged, "a log line, but not at the first attempts")
        before = retries._failures
        wait_for(lambda: retries._failures > min(before + 5, 15), "more tries")
        assert one.membership.state in ("starting", "joining")
        waiting = logged()
        assert [record.levelname for record in waiting] == ["WARNING"]
        assert servers in waiting[0].getMessage()
        with Forward(port, kafka.bootstrap_servers):
            await_shared([one], partitions(name, 1))
    finally:
        one.close()
    assert one.recorder.errors == []


class Forward:
    """From now on the port forwards to the broker."""

    def __init__(self, port, servers):
        host, target = servers.split(":")
        self._target = (host, int(target))
        self._server = socket.create_server(("127.0.0.1", port))
        self._sockets = [self._server]
        self._threads = []

    def __enter__(self):
        self._run(self._accept)

    def __exit__(self, *_):
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(DEADLINE)

    def _run(self, target, *args):
        self._threads.append(threading.Thread(target=target, args=args, daemon=True))
        self._threads[-1].start()

    def _accept(self):
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            broker = socket.create_connection(self._target, DEADLINE)
            self._sockets += [client, broker]
            self._run(self._copy, client, broker)
            self._run(self._copy, broker, client)

    @staticmethod
    def _copy(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)


@BOTH
def test_a_group_that_may_not_be_joined_ends_with_an_error(group, protocol):
    acls = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    with EmbeddedKafka(listener="SASL_PLAINTEXT", users={"nobody": None}, settings=acls) as kafka:
        kafka.create_topic("t")
        options = kafka.client_options(prefix="")
        one = Made(options.pop("bootstrap.servers"), group, NamedTopics({"t": 1}), options | protocol)
        one.membership.start()
        wait_for(lambda: one.recorder.errors, "an error")
        one.close()
    assert isinstance(one.recorder.errors[0], AuthorizationFailed)
    assert group in str(one.recorder.errors[0])


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_F17_closing_wakes_a_join_that_the_coordinator_holds_back(topic, kafka, group, assignor):
    name = topic(partitions=2)
    begins, goes_on = threading.Event(), threading.Event()

    def take_its_time(assignment):
        begins.set()
        assert goes_on.wait(DEADLINE)

    slow, held_back = (
        Made(kafka, group, NamedTopics({name: 1}), {"partition.assignment.strategy": assignor}) for _ in range(2)
    )
    slow.recorder.on_assign = take_its_time
    slow.membership.start()
    try:
        assert begins.wait(DEADLINE)
        held_back.membership.start()
        wait_for(lambda: held_back.membership.member_id, "a join under way")
        time.sleep(0.3)  # until it waits there; if it does not yet, the test is only weaker
        assert held_back.membership.state == "joining"
        held_back.close()
        assert held_back.membership.state == "closed"
        assert not goes_on.is_set()
        goes_on.set()
        await_shared([slow], partitions(name, 2))
    finally:
        goes_on.set()
        slow.close()
    assert slow.recorder.errors == []


def test_F17_closing_in_the_middle_of_the_first_join_does_not_make_the_group_wait(
    member, topic, kafka, group, monkeypatch
):
    """The coordinator has assigned it an id by then. A member that closes without that answer cannot leave by its id,
    and the coordinator would let all others wait for it in their next rebalance, until its session is over."""
    name = topic(partitions=2)
    one = member({name: 1})
    await_shared([one], partitions(name, 2))
    leaving = Made(kafka, group, NamedTopics({name: 1}), {"session.timeout.ms": 900_000})
    call, asked = Connection.call, threading.Event()

    def slow(connection, request, timeout):
        if (
            request.name != "JoinGroupRequest"
            or JoinGroupRequest.decode(request.body, version=request.version).member_id
        ):
            return call(connection, request, timeout)
        answer = connection.ask(request, timeout)
        asked.set()
        assert leaving.membership._closing.wait(DEADLINE)
        time.sleep(0.5)  # the answer has arrived, and the closing thread waits
        return answer(timeout)

    monkeypatch.setattr(Connection, "call", slow)
    leaving.membership.start()
    assert asked.wait(DEADLINE)
    leaving.close()
    one.membership.rejoin("a test")
    wait_for(lambda: one.membership.rebalances == 2 and one.has, "a rebalance without the one that left")


@BOTH
def test_F17_closing_without_having_started_and_twice(topic, kafka, group, protocol):
    one = Made(kafka, group, NamedTopics({topic(): 1}), protocol)
    one.close()
    two = Made(kafka, group, NamedTopics({topic(): 1}), protocol)
    two.membership.start()
    two.close()
    two.close()


@BOTH
def test_F17_no_thread_is_left_behind(member, topic, group, protocol):
    name = topic(partitions=2)
    one, two = member({name: 1}, **protocol), member({name: 1}, **protocol)
    await_shared([one, two], partitions(name, 2))
    ours = {thread.name for thread in threading.enumerate() if thread.name.endswith(group)}
    assert ours == {f"penstock-group-{group}", f"penstock-heartbeat-{group}"}
    one.close()
    two.close()
    assert not any(thread.name.endswith(group) for thread in threading.enumerate())


def test_F17_closing_from_within_a_rebalance(member, topic):
    name = topic(partitions=2)
    one = member({name: 1})
    await_shared([one], partitions(name, 2))
    one.recorder.on_revoke = lambda revoked, lost: one.membership.close(DEADLINE)
    one.membership.rejoin("a test")
    wait_for(lambda: one.membership.state == "closed", "the end")
    assert one.recorder.partitions == {}


@BOTH
def test_F17_closing_gives_up_on_brokers_that_do_not_answer(topic, kafka, group, protocol):
    name = topic(partitions=1)
    one = Made(kafka, group, NamedTopics({name: 1}), protocol)
    one.membership.start()
    await_shared([one], partitions(name, 1))
    refused = []

    def commit(revoked, lost):
        with pytest.raises((CommitRefused, BrokerUnavailable)) as caught:
            one.membership.commit({TopicPartition(name, 0): 5})
        refused.append(caught.value)

    one.recorder.on_revoke = commit
    kafka.pause_node(1)
    try:
        one.membership.close(1.0)
        wait_for(lambda: one.membership.state == "closed", "the end of its thread")
    finally:
        kafka.resume_node(1)
    assert len(refused) == 1
