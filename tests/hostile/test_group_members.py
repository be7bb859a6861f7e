"""Faulty group members: a leader that sends us nonsense, and members that send us nonsense as their leader."""

from __future__ import annotations

import contextlib
import threading
import zlib

import pytest

from fixtures.members import DEADLINE, await_shared, partitions, wait_for
from penstock.config.source import parse_options
from penstock.consumer.group.user_data import MAGIC, AssignmentUserData
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.consumer_protocol import Subscription, encode_assignment, encode_subscription
from penstock.wire.api.error_codes import RetriableError
from penstock.wire.api.find_coordinator import find_coordinator
from penstock.wire.api.group_member import GroupMember, MembershipLost, Rebalancing
from penstock.wire.api.group_membership import MemberIdRequired, ask_heartbeat, ask_join, ask_leave, ask_sync
from penstock.wire.transport.connection import Connection


class Odd:
    """A member with arbitrary metadata. `assign`: member ids -> the assignment of each, if it leads."""

    def __init__(self, kafka, group, subscription, assign=lambda members: {}, assignor="range"):
        host, port = kafka.bootstrap_servers.split(":")
        self._connection = Connection(
            host, int(port), parse_options(kafka.client_options() | {"subscribe": "t"}).client, 30
        )
        self._group, self._subscription, self._assign, self._assignor = group, subscription, assign, assignor
        self._closing = threading.Event()
        self._member = GroupMember()
        self.rounds = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            while not self._closing.is_set():
                try:
                    self._join()
                    while not self._closing.wait(0.1):
                        ask_heartbeat(self._connection, self._group, self._member, DEADLINE)
                except MemberIdRequired as answer:
                    self._member = GroupMember(answer.member_id)
                except Rebalancing:
                    pass
                except MembershipLost as lost:
                    if lost.forgotten:
                        self._member = GroupMember()
                except RetriableError:  # the first group of a broker: its coordinator is starting
                    with contextlib.suppress(RetriableError):
                        find_coordinator(self._connection, self._group, DEADLINE)
                    self._closing.wait(0.1)
            ask_leave(self._connection, self._group, self._member, "", DEADLINE)
        finally:
            self._connection.close()

    def _join(self):
        joined = ask_join(
            self._connection,
            self._group,
            self._member,
            {self._assignor: self._subscription},
            session_timeout=30,  # long, because a busy machine may stop a process for seconds
            rebalance_timeout=30,
            reason="",
            timeout=DEADLINE,
        )
        self._member = joined.member
        given = self._assign([m.member_id for m in joined.members]) if joined.leader else {}
        ask_sync(self._connection, self._group, joined.member, self._assignor, given, DEADLINE)
        self.rounds += 1

    def close(self):
        self._closing.set()
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()


BOMB = b'{"consumer":"' + b"c" * 15_000_000 + b'","threads":1,"fresh":true,"streams":{}}'


def to_everybody(data):
    return lambda members: dict.fromkeys(members, data)


@pytest.mark.parametrize("data", [b"\x00", b"\xff" * 40, b"\x00\x01\x7f\xff\xff\xff", bytes(range(64, 80))])
def test_a_member_waits_after_an_unreadable_assignment_of_its_leader(kafka, topic, group, member, data, caplog):
    name = topic(partitions=2)
    odd = Odd(kafka, group, encode_subscription(Subscription((name,))), to_everybody(data))
    try:
        wait_for(lambda: odd.rounds, "a leader")
        one = member({name: 1})
        wait_for(lambda: "its leader sent an invalid assignment" in caplog.text, "a warning")
        assert one.recorder.events == []
    finally:
        odd.close()
    await_shared([one], partitions(name, 2))


@pytest.mark.parametrize(
    "user_data",
    [
        b"",
        b"\x00" * 30,
        MAGIC + b"\x78\x9c",
        MAGIC + zlib.compress(b'{"member":3,"fresh":1,"streams":{"x":{"0":"y"}},"others":{}}'),
        AssignmentUserData("m", True, {}).encode(),
        AssignmentUserData("m", True, {TopicPartition("?", -1): 10**12}, {TopicPartition("?", 1): "nobody"}).encode(),
    ],
)
def test_without_valid_user_data_of_the_leader_a_member_spreads_partitions_itself(
    kafka, topic, group, member, user_data
):
    name = topic(partitions=4)
    mine = partitions(name, 4) | {TopicPartition("not-mine", 0)}
    odd = Odd(
        kafka, group, encode_subscription(Subscription((name,))), to_everybody(encode_assignment(mine, user_data))
    )
    try:
        wait_for(lambda: odd.rounds, "a leader")
        one = member({name: 2})
        await_shared([one], partitions(name, 4))
        last = one.recorder.assignments[-1]
        assert sorted(last.partitions.values()) == [0, 0, 1, 1]
        assert not last.leader
        assert not last.fresh
    finally:
        odd.close()


@pytest.mark.parametrize(
    "subscription",
    [
        # Metadata that cannot be read at all is not here: Kafka 4 answers all members with UNKNOWN then. See
        # test_membership_notes.py.
        b"",
        encode_subscription(Subscription(())),
        encode_subscription(Subscription(("no such topic", "", "x" * 1000))),
        encode_subscription(Subscription(("no-such-topic",), b"\x00\x00\x00\x01" + MAGIC + b"\x00")),
        # 15 kB that became 15 MB for every partition of the topic: such a member ended the process of its leader.
        encode_subscription(Subscription(("no-such-topic",), b"\x00\x00\x00\x01" + MAGIC + zlib.compress(BOMB))),
    ],
)
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_leader_tolerates_members_with_invalid_metadata(kafka, topic, group, member, subscription, assignor):
    name = topic(partitions=3)
    one = member({name: 1}, **{"partition.assignment.strategy": assignor})
    await_shared([one], partitions(name, 3))
    odd = Odd(kafka, group, subscription, assignor=assignor)
    try:
        wait_for(lambda: odd.rounds, "a generation with it")
        await_shared([one], partitions(name, 3))
        assert one.recorder.assignments[-1].leader
    finally:
        odd.close()


def test_a_leader_does_not_trust_the_owned_partitions_that_members_claim(kafka, topic, group, member):
    """A member that claims all partitions, from a future generation, gets no more than its share in the end."""
    name = topic(partitions=4)
    claim = (*partitions(name, 4), TopicPartition(name, 99), TopicPartition("other", 0))
    claimed = Subscription((name,), b"", claim, 2**31 - 1)
    one = member({name: 1}, **{"partition.assignment.strategy": "cooperative-sticky"})
    await_shared([one], partitions(name, 4))
    odd = Odd(kafka, group, encode_subscription(claimed), assignor="cooperative-sticky")
    try:
        wait_for(lambda: odd.rounds and one.membership.state == "stable" and one.recorder.events[-2:], "a generation")
    finally:
        odd.close()
    await_shared([one], partitions(name, 4))
