"""Damaged and random ListOffsets responses: they are read, or rejected with a Penstock error; never a crash."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import ListOffsetsResponse

from penstock.errors import BrokerError
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.list_offsets import FLEXIBLE, HIGHEST, LATEST, LOWEST, read_offsets_response

VERSIONS = range(LOWEST, HIGHEST + 1)
ASKED = {"events": {p: TopicPartition("events", p) for p in range(3)}}
TIMES = dict.fromkeys(ASKED["events"].values(), LATEST)
REFUSED = (struct.error, IndexError, ValueError)  # the caller turns these into a ProtocolError


def frame(version):
    topic_class = ListOffsetsResponse.ListOffsetsTopicResponse
    partitions = [
        topic_class.ListOffsetsPartitionResponse(
            version=version, partition_index=p, error_code=0, timestamp=-1, offset=100 + p, leader_epoch=3
        )
        for p in range(3)
    ]
    topics = [topic_class(version=version, name="events", partitions=partitions)]
    body = ListOffsetsResponse(version=version, throttle_time_ms=0, topics=topics).encode()
    return struct.pack(">i", 5) + (b"\0" if version >= FLEXIBLE else b"") + body


def read(data, version):
    found, refused = read_offsets_response(memoryview(data), version, 5, ASKED, TIMES)
    assert set(found) | set(refused) <= set(TIMES)
    assert all(offset >= 0 for offset in found.values())
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_a_truncated_response_is_rejected(version):
    whole = frame(version)
    assert read(whole, version) == {TopicPartition("events", p): 100 + p for p in range(3)}
    end = len(whole) - (1 if version >= FLEXIBLE else 0)  # without only the last tag count it is still complete
    for length in range(end):
        with pytest.raises(REFUSED):
            read(whole[:length], version)


@pytest.mark.parametrize("version", [1, 4, 6, 11])
def test_a_response_with_a_flipped_bit_is_read_or_rejected(version):
    whole = frame(version)
    for position in range(len(whole) * 8):
        flipped = bytearray(whole)
        flipped[position // 8] ^= 1 << (position % 8)
        with contextlib.suppress(*REFUSED, BrokerError):
            read(flipped, version)


@given(st.binary(max_size=300), st.sampled_from(list(VERSIONS)))
def test_garbage_is_read_or_rejected(garbage, version):
    with contextlib.suppress(*REFUSED, BrokerError):
        read(b"\0\0\0\5" + garbage, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_false_counts_cause_no_loop_and_no_allocation(version):
    head = struct.pack(">i", 5) + (b"\0" if version >= FLEXIBLE else b"") + (b"\0" * 4 if version >= 2 else b"")
    many = b"\xff\xff\xff\xff\x07" if version >= FLEXIBLE else struct.pack(">i", 2**31 - 1)
    with pytest.raises(REFUSED):
        read(head + many, version)
    one = b"\x02" if version >= FLEXIBLE else struct.pack(">i", 1)
    name = b"\x02a" if version >= FLEXIBLE else b"\0\1a"
    with pytest.raises(REFUSED):
        read(head + one + name + many, version)


def test_the_answer_to_another_request_is_refused():
    with pytest.raises(ValueError, match="answers request 5, not 6"):
        read_offsets_response(memoryview(frame(11)), 11, 6, ASKED, TIMES)
