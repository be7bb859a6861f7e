"""The Produce API: its messages, and requests that carry encoded record batches."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from penstock.wire.api.frame import encode_count, encode_length, encode_nullable_text, encode_text
from penstock.wire.api.message import (
    Api,
    EncodedRequest,
    Structure,
    array,
    data,
    int16,
    int32,
    int64,
    nullable_text,
    text,
    topic_id,
)

KNOWS_ZSTD = 7
"""The first version of Produce that accepts zstd (KIP-110): Kafka 2.1. Older brokers answer UNKNOWN_SERVER_ERROR to
zstd. All brokers know gzip."""

FLEXIBLE = 9
"""The first flexible version of Produce."""

LAST_NAMED = 12
"""Produce requests name topics by id from version 13 on."""

LAST_ADDED = 11
"""From version 12 on a Produce request adds its partition to the transaction itself, if the cluster supports that."""

PRODUCE = Api(
    "Produce",
    0,
    lowest=3,
    highest=13,
    flexible=FLEXIBLE,
    request_body=Structure(
        nullable_text("transactional_id"),
        int16("acks"),
        int32("timeout_ms"),
        array(
            "topic_data",
            text("name", until=LAST_NAMED),
            topic_id("topic_id", since=LAST_NAMED + 1),
            array("partition_data", int32("index"), data("records")),
        ),
    ),
    response_body=Structure(
        array(
            "responses",
            text("name", until=LAST_NAMED),
            topic_id("topic_id", since=LAST_NAMED + 1),
            array(
                "partition_responses",
                int32("index"),
                int16("error_code"),
                int64("base_offset"),
                int64("log_append_time_ms"),
                int64("log_start_offset", since=5),
                array("record_errors", int32("batch_index"), nullable_text("batch_index_error_message"), since=8),
                nullable_text("error_message", since=8),
            ),
        ),
        int32("throttle_time_ms"),
    ),
)


class TopicBatches(NamedTuple):
    """Encoded record batches for partitions of one topic: at most one for each partition."""

    name: str
    topic_id: uuid.UUID | None
    """Needed after LAST_NAMED."""
    batches: Sequence[tuple[int, bytes]]
    """Partitions, and their batches."""


class ProduceRequest(EncodedRequest):
    """A Produce request whose batches are copied once, into the frame. Field by field each would be copied six times.

    `body` holds everything before the batches of the first partition.
    """

    __slots__ = ("_parts",)

    def __init__(
        self, version: int, transactional_id: str | None, acks: int, timeout_ms: int, topics: Sequence[TopicBatches]
    ) -> None:
        flexible = version >= FLEXIBLE
        end = b"\0" if flexible else b""  # no tagged fields
        head = encode_nullable_text(transactional_id, flexible) + struct.pack(">hi", acks, timeout_ms)
        super().__init__(PRODUCE, version, head + encode_count(len(topics), flexible))
        self._parts: list[bytes] = []
        for topic in topics:
            self._parts.append(_topic_name(topic, version) + encode_count(len(topic.batches), flexible))
            for partition, batch in topic.batches:
                self._parts += (struct.pack(">i", partition) + encode_length(len(batch), flexible), batch, end)
            self._parts.append(end)
        self._parts.append(end)

    def encode(self, correlation_id: int, client_id: str) -> bytes:
        size = len(self.body) + sum(map(len, self._parts))
        return b"".join((self.header(size, correlation_id, client_id), self.body, *self._parts))


def _topic_name(topic: TopicBatches, version: int) -> bytes:
    if version <= LAST_NAMED:
        return encode_text(topic.name, version >= FLEXIBLE)
    assert topic.topic_id is not None, "this version names topics by id"
    return topic.topic_id.bytes
