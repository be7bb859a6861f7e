"""ConsumerGroupHeartbeat against bytes that were written down from Kafka's definition of the message."""

from __future__ import annotations

import struct
import uuid
from types import SimpleNamespace

import pytest

from penstock.errors import AuthorizationFailed, BrokerError, ProtocolError
from penstock.wire.api.consumer_group_heartbeat import (
    CONSUMER_GROUP_HEARTBEAT,
    InstanceNotReleased,
    MemberHeartbeat,
    ask_group_heartbeat,
)
from penstock.wire.api.error_codes import CODES, RetriableError
from penstock.wire.api.group_member import FencedInstance, MembershipLost
from penstock.wire.api.heartbeat_answer import HeartbeatAnswer
from penstock.wire.api.message import Api

TOPIC = uuid.UUID(int=7)
NOTHING = b"\0"
TAGS = b"\0"


class Broker:
    """A connection to a broker that answers with these bytes."""

    address = "b:9092"

    def __init__(self, answer: bytes = b"", version: int = 1) -> None:
        self._answer = answer
        self._version = version
        self.asked = b""

    def speaks(self, api: Api, version: int) -> bool:
        return version <= self._version

    def version(self, api: Api) -> int:
        return self._version

    def call(self, request, timeout):
        self.asked = request.body
        frame = struct.pack(">i", 1) + TAGS + self._answer
        return CONSUMER_GROUP_HEARTBEAT.read_response(memoryview(frame), self._version, 1)


def answer(code=0, epoch=3, assignment=b"\xff", message=NOTHING, member=NOTHING, interval=5000):
    numbers = struct.pack(">ih", 0, code) + message + member + struct.pack(">ii", epoch, interval)
    return numbers + assignment + TAGS


def ask(broker, heartbeat=None):
    return ask_group_heartbeat(broker, "g", heartbeat or MemberHeartbeat("m", 0), 1.0)


def test_a_join_has_every_field():
    broker = Broker(answer())
    ask(broker, MemberHeartbeat("m", 0, "i", "r", 300.0, ("a", "b"), "a.*", "uniform", {}))
    assert broker.asked == b"".join(
        (
            *(b"\2g", b"\2m", struct.pack(">i", 0), b"\2i", b"\2r", struct.pack(">i", 300_000)),
            *(b"\3\2a\2b", b"\4a.*", b"\x08uniform", b"\1", TAGS),
        )
    )


def test_what_has_not_changed_is_null():
    broker = Broker(answer())
    ask(broker, MemberHeartbeat("m", 3))
    unchanged = struct.pack(">i", 3) + NOTHING * 2 + struct.pack(">i", -1) + NOTHING * 4
    assert broker.asked == b"\2g\2m" + unchanged + TAGS


def test_version_0_has_no_pattern():
    broker = Broker(answer(), version=0)
    ask(broker, MemberHeartbeat("m", 3))
    assert broker.asked == b"\2g\2m" + struct.pack(">i", 3) + NOTHING * 2 + struct.pack(">i", -1) + NOTHING * 3 + TAGS
    with pytest.raises(BrokerError, match="b:9092 takes no regular expressions"):
        ask(broker, MemberHeartbeat("m", 0, pattern="a.*"))


def test_owned_partitions_are_listed_by_topic_id():
    broker = Broker(answer())
    ask(broker, MemberHeartbeat("m", 3, owned={TOPIC: frozenset({2, 0})}))
    assert broker.asked.endswith(b"\2" + TOPIC.bytes + b"\3" + struct.pack(">ii", 0, 2) + TAGS + TAGS)


def test_an_answer_may_have_an_assignment():
    listed = b"\1" + b"\2" + TOPIC.bytes + b"\3" + struct.pack(">ii", 2, 0) + TAGS + TAGS
    expected = HeartbeatAnswer("n", 3, 5.0, {TOPIC: frozenset({0, 2})})
    assert ask(Broker(answer(assignment=listed, member=b"\2n"))) == expected
    assert ask(Broker(answer(assignment=b"\1\1" + TAGS))) == HeartbeatAnswer(None, 3, 5.0, {})
    assert ask(Broker(answer())) == HeartbeatAnswer(None, 3, 5.0, None)


@pytest.mark.parametrize(
    ("name", "epoch", "error", "text"),
    [
        ("FENCED_MEMBER_EPOCH", 3, MembershipLost, "has fenced this member"),
        ("UNKNOWN_MEMBER_ID", 3, MembershipLost, "does not know this member"),
        ("GROUP_ID_NOT_FOUND", 3, MembershipLost, "does not exist any more"),
        ("GROUP_ID_NOT_FOUND", 0, BrokerError, r"classic one.*group.user.data"),
        ("FENCED_INSTANCE_ID", 3, FencedInstance, "same group.instance.id"),
        ("UNRELEASED_INSTANCE_ID", 0, InstanceNotReleased, "same group.instance.id"),
        ("UNSUPPORTED_ASSIGNOR", 0, BrokerError, r"\(why\): set group.remote.assignor"),
        ("INVALID_REGULAR_EXPRESSION", 0, BrokerError, "RE2"),
        ("GROUP_MAX_SIZE_REACHED", 0, BrokerError, "group.consumer.max.size"),
        ("UNSUPPORTED_VERSION", 0, BrokerError, "group.version=1"),
        ("NOT_COORDINATOR", 3, RetriableError, "NOT_COORDINATOR"),
        ("GROUP_AUTHORIZATION_FAILED", 3, AuthorizationFailed, "GROUP_AUTHORIZATION_FAILED"),
        ("INVALID_REQUEST", 3, BrokerError, r"\(why\): INVALID_REQUEST"),
    ],
)
def test_errors_are_about_the_member_or_say_what_to_change(name, epoch, error, text):
    with pytest.raises(error, match=text):
        ask(Broker(answer(CODES[name], message=b"\4why")), MemberHeartbeat("m", epoch))


def test_a_broker_before_kafka_4_is_named():
    with pytest.raises(BrokerError, match=r"b:9092 does not know the group protocol consumer .*Remove group.protocol"):
        ask(Broker(version=-1))


def test_an_answer_that_makes_no_sense_is_refused():
    with pytest.raises(ProtocolError, match="epoch 0"):
        ask(Broker(answer(epoch=0)))
    assert ask(Broker(answer(interval=-1))).interval > 0


def test_a_member_that_leaves_is_answered_with_its_own_epoch():
    assert ask(Broker(answer(epoch=-1)), MemberHeartbeat("m", -1)).epoch == -1


def test_bytes_that_end_early_are_an_error_and_not_a_crash():
    whole = answer(assignment=b"\1\2" + TOPIC.bytes + b"\2" + bytes(4) + TAGS + TAGS)
    for end in range(len(whole)):
        with pytest.raises((struct.error, IndexError, ValueError)):
            ask(Broker(whole[:end]))


def test_a_count_is_checked_against_the_bytes_that_follow():
    with pytest.raises(ValueError, match="an array of"):
        ask(Broker(answer(assignment=b"\1\xff\xff\xff\x7f")))


def test_it_is_the_api_that_brokers_know():
    assert SimpleNamespace(key=CONSUMER_GROUP_HEARTBEAT.key, flexible=CONSUMER_GROUP_HEARTBEAT.flexible) == (
        SimpleNamespace(key=68, flexible=0)
    )
