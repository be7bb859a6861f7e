"""The ShareFetch API: acquires records of a share group and acknowledges others in one request (KIP-932).

The response is decoded by hand, so that records stay where the socket put them, as in `fetch`.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from penstock.errors import ProtocolError
from penstock.model.acknowledgement import AcquiredRange, SharedPartition
from penstock.wire.api.frame import READ_ERRORS, FrameReader
from penstock.wire.api.message import (
    Api,
    EncodedRequest,
    Structure,
    array,
    boolean,
    int8,
    int32,
    nullable_text,
    numbers,
    topic_id,
)
from penstock.wire.api.share_acknowledge import ACK_BATCHES, Acknowledgements, by_topic

BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1
"""Acquire modes (KIP-1206): whole record batches, even if they exceed the limit of records; or the limit exactly."""

KNOWS_RECORD_LIMIT = 2
"""From this version on a request can name the acquire mode: Kafka 4.2."""

SHARE_FETCH = Api(
    "ShareFetch",
    78,
    lowest=1,
    highest=2,
    flexible=0,
    request_body=Structure(
        nullable_text("group_id"),
        nullable_text("member_id"),
        int32("share_session_epoch"),
        int32("max_wait_ms"),
        int32("min_bytes"),
        int32("max_bytes"),
        int32("max_records"),
        int32("batch_size"),
        int8("share_acquire_mode", since=KNOWS_RECORD_LIMIT, default=BATCH_OPTIMIZED),
        boolean("is_renew_ack", since=2, default=False),
        array("topics", topic_id("topic_id", since=0), array("partitions", int32("partition_index"), ACK_BATCHES)),
        array("forgotten_topics_data", topic_id("topic_id", since=0), numbers("partitions")),
    ),
)
"""Version 0 was the early access of Kafka 4.0. Kafka 4.1 does not take it."""

MOST_OFFSETS = 1 << 24
"""From the first to the last offset that is acquired in a partition: each takes a byte. A group locks 10,000 records of
a partition at most (group.share.max.partition.max.record.locks), and compaction may have removed most offsets between
them."""

_RESPONSE = struct.Struct(">ih")
_NUMBER = struct.Struct(">i")
_BEGIN = struct.Struct(">ih")
_CODE = struct.Struct(">h")
_LEADER = struct.Struct(">ii")
_ACQUIRED = struct.Struct(">qqh")


@dataclass(slots=True)
class SharedRecords:
    """The response for one partition. `records` is a view of the frame: valid until the buffer is used again."""

    key: SharedPartition
    error_code: int
    acknowledge_error_code: int
    records: memoryview
    acquired: list[AcquiredRange]


@dataclass(slots=True)
class ShareFetchResponse:
    throttle: float
    error_code: int
    error_message: str | None
    lock_seconds: float
    """How long acquired records are locked."""
    partitions: list[SharedRecords]


def share_fetch_request(
    version: int,
    group: str,
    member_id: str,
    epoch: int,
    *,
    max_wait: float,
    min_bytes: int,
    max_bytes: int,
    max_records: int,
    batch_size: int,
    acquire_mode: int,
    added: Collection[SharedPartition],
    forgotten: Iterable[SharedPartition],
    acks: Acknowledgements,
) -> EncodedRequest:
    """A fetch of the partitions of a session. `added`: those that the session does not have yet."""
    gone: dict[uuid.UUID, list[int]] = {}
    for each in forgotten:
        gone.setdefault(each.topic_id, []).append(each.partition)
    return SHARE_FETCH.request(
        version,
        group_id=group,
        member_id=member_id,
        share_session_epoch=epoch,
        max_wait_ms=int(max_wait * 1000),
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        max_records=max_records,
        batch_size=batch_size,
        share_acquire_mode=acquire_mode,
        topics=by_topic(dict.fromkeys([*added, *acks]), acks),
        forgotten_topics_data=[{"topic_id": topic, "partitions": numbers} for topic, numbers in gone.items()],
    )


def read_share_fetch_response(frame: memoryview, correlation_id: int, broker: str) -> ShareFetchResponse:
    """Read a response frame of versions 1 and 2, which have the same fields."""
    try:
        reader = FrameReader(frame, flexible=True)
        reader.response_header(correlation_id)
        throttle, error_code = reader.compiled(_RESPONSE)
        message = reader.nullable_text()
        (lock,) = reader.compiled(_NUMBER)
        partitions = []
        for _ in range(reader.count()):
            topic = uuid.UUID(bytes=bytes(reader.take(16)))
            for _ in range(reader.count()):
                partitions.append(_read_partition(reader, topic))
            reader.tags()
        # The endpoints of new leaders follow. They are not read: a metadata lookup finds the leaders.
        return ShareFetchResponse(throttle / 1000, error_code, message, lock / 1000, partitions)
    except READ_ERRORS as error:
        raise ProtocolError(f"{broker} sent a share fetch response that cannot be read: {error}") from error


def _read_partition(reader: FrameReader, topic: uuid.UUID) -> SharedRecords:
    number, error_code = reader.compiled(_BEGIN)
    reader.nullable_text()
    (acknowledge_error_code,) = reader.compiled(_CODE)
    reader.nullable_text()
    reader.compiled(_LEADER)
    reader.tags()
    records = reader.data()
    acquired: list[AcquiredRange] = []
    follows = 0
    for _ in range(reader.count(_ACQUIRED.size)):
        each = AcquiredRange(*reader.compiled(_ACQUIRED))
        if not follows <= each.first <= each.last < (acquired[0].first if acquired else each.first) + MOST_OFFSETS:
            raise ValueError(f"offsets {each.first} to {each.last} are acquired, after {follows - 1}")
        acquired.append(each)
        follows = each.last + 1
        reader.tags()
    reader.tags()
    return SharedRecords(SharedPartition(topic, number), error_code, acknowledge_error_code, records, acquired)
