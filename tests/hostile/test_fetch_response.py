"""Fetch responses written by kafka-python are read. A truncated or damaged one is a Penstock error, never a crash."""

import contextlib
import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchResponse

from penstock.errors import ProtocolError
from penstock.wire.api.fetch import LOWEST, read_fetch_response

VERSIONS = range(LOWEST, FetchResponse.max_version + 1)
TOPIC_ID = uuid.UUID("0f0e0d0c-0b0a-0908-0706-050403020100")


def frame(version, *, records=b"records", aborted=((7, 70), (8, 80)), leader=None, partitions=1, correlation_id=5):
    topic_class = FetchResponse.FetchableTopicResponse
    partition_class = topic_class.PartitionData
    made = [
        partition_class(
            version=version,
            partition_index=index,
            error_code=6 if leader else 0,
            high_watermark=1000 + index,
            last_stable_offset=900,
            log_start_offset=10,
            aborted_transactions=None
            if aborted is None
            else [
                partition_class.AbortedTransaction(version=version, producer_id=p, first_offset=o) for p, o in aborted
            ],
            preferred_read_replica=3,
            records=records,
            **(
                {"current_leader": partition_class.LeaderIdAndEpoch(version=version, leader_id=2, leader_epoch=9)}
                if leader and version >= 12
                else {}
            ),
        )
        for index in range(partitions)
    ]
    response = FetchResponse(
        version=version,
        throttle_time_ms=250,
        error_code=0,
        session_id=0,
        responses=[topic_class(version=version, topic="events", topic_id=TOPIC_ID, partitions=made)],
    )
    header = struct.pack(">i", correlation_id) + (b"\0" if version >= 12 else b"")
    return memoryview(bytearray(header + response.encode()))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_read_as_it_was_written(version):
    response = read_fetch_response(frame(version, partitions=2), version, 5, "broker")
    assert response.throttle == 0.25
    first, second = response.partitions
    assert first.topic == (TOPIC_ID if version >= 13 else "events")
    assert (first.partition, second.partition) == (0, 1)
    assert (first.high_watermark, second.high_watermark) == (1000, 1001)
    assert first.last_stable_offset == 900
    assert first.aborted == [(7, 70), (8, 80)]
    assert first.preferred_replica == (3 if version >= 11 else -1)
    assert bytes(first.records) == b"records"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("records", [None, b""])
def test_no_records_and_no_aborted_list(version, records):
    (fetched,) = read_fetch_response(frame(version, records=records, aborted=None), version, 5, "broker").partitions
    assert len(fetched.records) == 0
    assert fetched.aborted == []


@pytest.mark.parametrize("version", [v for v in VERSIONS if v >= 12])
def test_tagged_fields_are_skipped(version):
    (fetched,) = read_fetch_response(frame(version, leader=True), version, 5, "broker").partitions
    assert (fetched.error_code, bytes(fetched.records)) == (6, b"records")


def test_the_records_are_a_view_not_a_copy():
    data = frame(17)
    (fetched,) = read_fetch_response(data, 17, 5, "broker").partitions
    fetched.records[0] = ord("R")
    assert b"Records" in bytes(data)


def test_the_answer_to_another_request_is_refused():
    with pytest.raises(ProtocolError, match="answers request 5, not 6"):
        read_fetch_response(frame(17), 17, 6, "broker")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_truncated_response_is_a_protocol_error(version):
    whole = frame(version)
    end = len(whole) - (3 if version >= 12 else 0)  # without only its closing tag counts a frame is still complete
    for length in range(end):
        with pytest.raises(ProtocolError):
            read_fetch_response(whole[:length], version, 5, "broker")


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_a_response_with_a_flipped_bit_is_read_or_rejected(version):
    whole = bytes(frame(version))
    for position in range(len(whole) * 8):
        flipped = bytearray(whole)
        flipped[position // 8] ^= 1 << (position % 8)
        with contextlib.suppress(ProtocolError):
            read_fetch_response(memoryview(flipped), version, 5, "broker")


@given(st.binary(max_size=300), st.sampled_from(list(VERSIONS)))
def test_garbage_is_read_or_rejected(garbage, version):
    with contextlib.suppress(ProtocolError):
        read_fetch_response(memoryview(b"\0\0\0\5" + garbage), version, 5, "broker")
