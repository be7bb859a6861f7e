"""ShareAcknowledge against bytes that were written down from Kafka's definition of the message."""

from __future__ import annotations

import struct
import uuid

import pytest

from penstock.model.acknowledgement import AckBatch, AcknowledgeType, SharedPartition
from penstock.wire.api.error_codes import CODES
from penstock.wire.api.share_acknowledge import SHARE_ACKNOWLEDGE, acknowledge_answer, acknowledge_request

TOPIC = uuid.UUID(int=7)
NOTHING = TAGS = b"\0"
HEADER = struct.pack(">i", 1) + TAGS


KEY = SharedPartition(TOPIC, 3)
ACKS = {KEY: [AckBatch(10, 12, [1]), AckBatch(13, 14, [2, 0])]}
ACK_BYTES = (
    *(b"\3", struct.pack(">qq", 10, 12), b"\2\1", TAGS),
    *(struct.pack(">qq", 13, 14), b"\3\2\0", TAGS),
)


def test_acknowledgements_have_one_type_or_one_per_offset():
    body = b"".join((b"\2" + TOPIC.bytes + b"\2" + struct.pack(">i", 3), *ACK_BYTES, TAGS, TAGS, TAGS))
    begin = b"\2g\2m" + struct.pack(">i", 4)
    assert acknowledge_request(1, "g", "m", 4, ACKS).body == begin + body
    assert acknowledge_request(2, "g", "m", 4, ACKS).body == begin + b"\0" + body
    assert acknowledge_request(2, "g", "m", 4, ACKS, renews=True).body == begin + b"\1" + body


@pytest.mark.parametrize("version", [1, 2])
def test_the_answer_to_acknowledgements_has_an_error_per_partition(version):
    partition = struct.pack(">ih", 3, CODES["INVALID_RECORD_STATE"]) + NOTHING + struct.pack(">ii", 1, 2) + TAGS + TAGS
    lock = struct.pack(">i", 30_000) if version == 2 else b""
    frame = HEADER + struct.pack(">ih", 1500, 0) + NOTHING + lock
    frame += b"\2" + TOPIC.bytes + b"\2" + partition + TAGS + b"\1" + TAGS
    answer = acknowledge_answer(SHARE_ACKNOWLEDGE.read_response(memoryview(frame), version, 1))
    assert (answer.throttle, answer.error_code) == (1.5, 0)
    assert answer.lock_seconds == (30.0 if version == 2 else 0.0)
    assert answer.errors == {KEY: CODES["INVALID_RECORD_STATE"]}


def test_types_have_kafkas_numbers():
    assert {kind.name: int(kind) for kind in AcknowledgeType} == {
        "GAP": 0, "ACCEPT": 1, "RELEASE": 2, "REJECT": 3, "RENEW": 4,
    }  # fmt: skip
