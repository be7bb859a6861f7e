"""ShareFetch against bytes that were written down from Kafka's definition of the message."""

from __future__ import annotations

import struct
import uuid

import pytest

from penstock.errors import ProtocolError
from penstock.model.acknowledgement import AckBatch, AcquiredRange, SharedPartition
from penstock.wire.api.error_codes import CODES
from penstock.wire.api.share_fetch import RECORD_LIMIT, read_share_fetch_response, share_fetch_request

TOPIC = uuid.UUID(int=7)
NOTHING = TAGS = b"\0"
HEADER = struct.pack(">i", 1) + TAGS


KEY = SharedPartition(TOPIC, 3)
ACKS = {KEY: [AckBatch(10, 12, [1]), AckBatch(13, 14, [2, 0])]}
ACK_BYTES = (
    *(b"\3", struct.pack(">qq", 10, 12), b"\2\1", TAGS),
    *(struct.pack(">qq", 13, 14), b"\3\2\0", TAGS),
)


def fetch(version, acks, **more):
    settings = {"max_wait": 0.5, "min_bytes": 1, "max_bytes": 9, "max_records": 100, "batch_size": 50}
    settings |= {"acquire_mode": RECORD_LIMIT, "added": (), "forgotten": ()}
    return share_fetch_request(version, "g", "m", 2, acks=acks, **(settings | more)).body


def test_a_fetch_names_new_partitions_and_carries_acknowledgements():
    numbers = struct.pack(">iiiiii", 2, 500, 1, 9, 100, 50)
    added = struct.pack(">i", 3) + b"".join(ACK_BYTES) + TAGS + struct.pack(">i", 4) + b"\1" + TAGS
    rest = b"\2" + TOPIC.bytes + b"\3" + added + TAGS
    rest += b"\2" + TOPIC.bytes + b"\2" + struct.pack(">i", 8) + TAGS + TAGS
    more = {"added": (KEY, SharedPartition(TOPIC, 4)), "forgotten": (SharedPartition(TOPIC, 8),)}
    assert fetch(1, ACKS, **more) == b"\2g\2m" + numbers + rest
    assert fetch(2, ACKS, **more) == b"\2g\2m" + numbers + b"\1\0" + rest


def test_a_fetch_of_an_unchanged_session_names_nothing():
    assert fetch(2, {}).endswith(b"\1\0" + b"\1" + b"\1" + TAGS)


def response(partition, code=0):
    begin = struct.pack(">ih", 250, code) + NOTHING + struct.pack(">i", 30_000)
    return HEADER + begin + b"\2" + TOPIC.bytes + b"\2" + partition + TAGS + b"\1" + TAGS


def acquired_partition(ranges, records=b"abc", ack_code=0):
    listed = b"".join(struct.pack(">qqh", *each) + TAGS for each in ranges)
    codes = struct.pack(">ih", 3, 0) + NOTHING + struct.pack(">h", ack_code) + NOTHING + struct.pack(">ii", -1, -1)
    return codes + TAGS + bytes([len(records) + 1]) + records + bytes([len(ranges) + 1]) + listed + TAGS


def test_a_response_has_records_and_the_ranges_that_were_acquired():
    frame = response(acquired_partition([(5, 9, 1), (11, 11, 3)], ack_code=CODES["INVALID_RECORD_STATE"]))
    read = read_share_fetch_response(memoryview(frame), 1, "b:9092")
    assert (read.throttle, read.error_code, read.lock_seconds) == (0.25, 0, 30.0)
    [partition] = read.partitions
    assert (partition.key, partition.error_code) == (KEY, 0)
    assert partition.acknowledge_error_code == CODES["INVALID_RECORD_STATE"]
    assert bytes(partition.records) == b"abc"
    assert partition.acquired == [AcquiredRange(5, 9, 1), AcquiredRange(11, 11, 3)]


@pytest.mark.parametrize("ranges", [[(5, 4, 1)], [(-1, 4, 1)], [(5, 9, 1), (9, 12, 1)], [(0, 2**62, 1)]])
def test_ranges_that_make_no_sense_are_an_error(ranges):
    with pytest.raises(ProtocolError, match="cannot be read"):
        read_share_fetch_response(memoryview(response(acquired_partition(ranges))), 1, "b:9092")


def test_a_response_that_is_cut_is_an_error():
    frame = response(acquired_partition([(5, 9, 1)]))
    for end in range(len(frame) - 3):
        with pytest.raises(ProtocolError, match="cannot be read"):
            read_share_fetch_response(memoryview(frame)[:end], 1, "b:9092")
