"""ShareGroupHeartbeat against bytes that were written down from Kafka's definition of the message."""

from __future__ import annotations

import struct
import uuid

import pytest

from penstock.errors import AuthorizationFailed, BrokerError, ProtocolError
from penstock.wire.api.error_codes import CODES, RetriableError
from penstock.wire.api.group_member import MembershipLost
from penstock.wire.api.message import Api
from penstock.wire.api.share_group_heartbeat import SHARE_GROUP_HEARTBEAT, ShareHeartbeat, ask_share_heartbeat

TOPIC = uuid.UUID(int=7)
NOTHING = TAGS = b"\0"
HEADER = struct.pack(">i", 1) + TAGS


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
        return SHARE_GROUP_HEARTBEAT.read_response(memoryview(HEADER + self._answer), self._version, 1)


def heartbeat_answer(code=0, epoch=3, assignment=b"\xff", interval=5000):
    return struct.pack(">ih", 0, code) + NOTHING * 2 + struct.pack(">ii", epoch, interval) + assignment + TAGS


def beat(broker, heartbeat=None):
    return ask_share_heartbeat(broker, "g", heartbeat or ShareHeartbeat("m", 0), 1.0)


def test_a_heartbeat_has_its_fields_in_order():
    broker = Broker(heartbeat_answer())
    beat(broker, ShareHeartbeat("m", 0, "r", ("a", "b")))
    assert broker.asked == b"\2g\2m" + struct.pack(">i", 0) + b"\2r" + b"\3\2a\2b" + TAGS
    beat(broker, ShareHeartbeat("m", 9))
    assert broker.asked == b"\2g\2m" + struct.pack(">i", 9) + NOTHING + NOTHING + TAGS


def test_an_assignment_is_read_by_topic_id():
    assignment = b"\1" + b"\2" + TOPIC.bytes + b"\3" + struct.pack(">ii", 0, 5) + TAGS + TAGS
    answer = beat(Broker(heartbeat_answer(assignment=assignment)))
    assert (answer.epoch, answer.interval, answer.assigned) == (3, 5.0, {TOPIC: frozenset({0, 5})})
    assert beat(Broker(heartbeat_answer())).assigned is None


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("UNKNOWN_MEMBER_ID", MembershipLost, ""),
        ("FENCED_MEMBER_EPOCH", MembershipLost, ""),
        ("COORDINATOR_LOAD_IN_PROGRESS", RetriableError, ""),
        ("GROUP_AUTHORIZATION_FAILED", AuthorizationFailed, ""),
        ("UNSUPPORTED_VERSION", BrokerError, "share.version=1"),
        ("GROUP_MAX_SIZE_REACHED", BrokerError, "group.share.max.size"),
        ("GROUP_ID_NOT_FOUND", BrokerError, "Choose another group.id"),
    ],
)
def test_what_the_coordinators_errors_mean(name, error, said):
    with pytest.raises(error) as raised:
        beat(Broker(heartbeat_answer(CODES[name])))
    assert said in str(raised.value)


def test_an_old_broker_is_named_with_what_share_groups_need():
    with pytest.raises(BrokerError, match=r"b:9092 does not offer share groups.*Kafka 4\.1"):
        beat(Broker(version=0))


def test_a_join_must_be_answered_with_an_epoch():
    with pytest.raises(ProtocolError, match="epoch 0"):
        beat(Broker(heartbeat_answer(epoch=0)))
