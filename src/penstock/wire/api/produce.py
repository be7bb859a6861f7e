"""The Produce API: writes batches of records and waits for each. For the demo, and for dead letters.

kafka-python's producer writes 10,000 to 50,000 records a second and spends most of that on checksums in pure Python.
This one writes up to 300,000 on one core: it encodes whole batches, and computes the checksum of compressed bytes, four
at a time. It has no retries, and no ordering beyond one connection per partition. A failure is raised; a caller that
tries again may write twice.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from types import TracebackType
from typing import NamedTuple, Self

import pyarrow as pa

from penstock.errors import BrokerError, BrokerUnavailable, ProtocolError
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, RetriableError, check
from penstock.wire.api.message import (
    Api,
    Structure,
    array,
    data,
    int16,
    int32,
    int64,
    nullable_text,
    text,
)
from penstock.wire.client_config import ClientConfig
from penstock.wire.cluster import Broker, Cluster, Leader
from penstock.wire.transport.connection import Connection, Pending
from penstock.wire.transport.pool import POOL


class Codec(NamedTuple):
    """A compression codec: its number in a batch's attributes, and its name for Arrow."""

    number: int
    name: str


ZSTD = Codec(4, "zstd")
GZIP = Codec(1, "gzip")

KNOWS_ZSTD = 7
"""The first version of Produce that accepts zstd (KIP-110): Kafka 2.1. Older brokers answer UNKNOWN_SERVER_ERROR to
zstd. All brokers know gzip."""

TRANSACTIONAL = 1 << 4
"""The bit in a batch's attributes that marks it as part of a transaction."""

LAST_NAMED = 12
"""Produce requests name topics by id from version 13 on."""

LAST_ADDED = 11
"""From version 12 on a Produce request adds its partition to the transaction itself, if the cluster supports that."""

PRODUCE = Api(
    "Produce",
    0,
    lowest=3,
    highest=LAST_NAMED,
    flexible=9,
    request_body=Structure(
        nullable_text("transactional_id"),
        int16("acks"),
        int32("timeout_ms"),
        array("topic_data", text("name"), array("partition_data", int32("index"), data("records"))),
    ),
    response_body=Structure(
        array(
            "responses",
            text("name"),
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

LEADER, ALL = 1, -1
"""Values of acks: a batch counts as written when the leader has it, or when all in-sync replicas have it."""


class BatchTooLarge(Exception):
    """The broker does not accept a batch of this size for this topic."""


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    timestamp: int
    """Milliseconds since 1970."""
    headers: Sequence[tuple[str, bytes | None]] = ()


class Sender(NamedTuple):
    """The identity of a transactional producer. By it the broker detects duplicate batches and fenced producers."""

    transactional_id: str
    producer_id: int
    epoch: int


class Producer:
    """Appends batches to the partitions of one topic. For one thread; a `with` block returns its connections."""

    def __init__(self, config: ClientConfig, topic: str, acks: int = LEADER) -> None:
        self._config = config
        self._topic = topic
        self._acks = acks
        self._cluster = Cluster(config)
        leaders = self._cluster.metadata((topic,)).topics[topic].partitions
        leaderless = [str(TopicPartition(topic, p)) for p, leader in leaders.items() if leader is None]
        if leaderless:
            raise BrokerUnavailable(f"no leader to write to for {', '.join(leaderless)}")
        self._leaders: dict[int, Leader] = {p: leader for p, leader in leaders.items() if leader is not None}
        self._connections: dict[Broker, Connection] = {}

    @property
    def partitions(self) -> int:
        return len(self._leaders)

    def append(self, partition: int, records: Sequence[Record]) -> None:
        """Write one batch and wait until the broker has it."""
        self.append_packed(partition, pack(records))

    def append_packed(self, partition: int, records: PackedRecords) -> None:
        """The same for records that are encoded already. The demo writes each of them many times."""
        leader = self._leaders[partition]
        broker, tp = leader.broker, TopicPartition(self._topic, partition)

        def overdue_check() -> str | None:
            return self._cluster.departed(broker, {tp: leader}).get(tp)

        if broker not in self._connections:
            self._connections[broker] = POOL.acquire(
                self._config, broker.host, broker.port, self._config.request_timeout, overdue_check
            )
        connection = self._connections[broker]
        connection.overdue_check = overdue_check
        batch = encode_packed(records, codec_for(connection))
        error_code = ask_append(connection, tp, batch, self._acks)(self._config.request_timeout)
        try:
            check(error_code, f"writing to {tp}", retries_unknown=False)
        except RetriableError as error:
            raise BrokerError(str(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._connections:
            POOL.release(self._connections.popitem()[1])


def codec_for(connection: Connection) -> Codec:
    """The best codec that this broker accepts."""
    return ZSTD if connection.speaks(PRODUCE, KNOWS_ZSTD) else GZIP


def ask_append(
    connection: Connection, tp: TopicPartition, batch: bytes, acks: int, sender: Sender | None = None
) -> Pending[int]:
    """Send one batch. The returned function waits for the broker's error code, and may raise BatchTooLarge."""
    timeout = connection.config.request_timeout
    version = connection.version(PRODUCE, at_most=LAST_NAMED if sender is None else LAST_ADDED)
    request = PRODUCE.request(
        version,
        transactional_id=None if sender is None else sender.transactional_id,
        acks=acks,
        timeout_ms=int(timeout * 1000),
        topic_data=[{"name": tp.topic, "partition_data": [{"index": tp.partition, "records": batch}]}],
    )
    pending = connection.ask(request, timeout)

    def answer(timeout: float) -> int:
        answers = [each for topic in pending(timeout).responses for each in topic.partition_responses]
        if len(answers) != 1:
            raise ProtocolError(f"wrote to one partition, the response has {len(answers)}")
        error_code = int(answers[0].error_code)
        if error_code in (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE):
            raise BatchTooLarge
        return error_code

    return answer


class PackedRecords(NamedTuple):
    """Records in Kafka's encoding, before compression. Their timestamps are relative to `first`, which may be moved."""

    size: int
    """How many there are."""
    first: int
    """Milliseconds since 1970."""
    span: int
    """Milliseconds from `first` to the highest timestamp."""
    body: bytes


def pack(records: Sequence[Record]) -> PackedRecords:
    first = records[0].timestamp
    body = bytearray()
    for at, (key, value, timestamp, headers) in enumerate(records):
        record = b"".join(
            (
                b"\0",
                _varint(timestamp - first),
                _varint(at),
                _sized(key),
                _sized(value),
                _encoded_headers(headers) if headers else b"\0",
            )
        )
        body += _varint(len(record))
        body += record
    last = max(record.timestamp for record in records)
    return PackedRecords(len(records), first, last - first, bytes(body))


def encode_batch(
    records: Sequence[Record], codec: Codec = ZSTD, sender: Sender | None = None, sequence: int = -1
) -> bytes:
    """One record batch of magic 2. With a sender it is part of a transaction, after `sequence` records of it."""
    return encode_packed(pack(records), codec, sender, sequence)


def encode_packed(
    records: PackedRecords, codec: Codec = ZSTD, sender: Sender | None = None, sequence: int = -1
) -> bytes:
    packed: bytes = pa.compress(records.body, codec=codec.name, asbytes=True)
    attributes, producer_id, epoch = codec.number, -1, -1
    if sender is not None:
        attributes, producer_id, epoch = codec.number | TRANSACTIONAL, sender.producer_id, sender.epoch
    first, last = records.first, records.first + records.span
    covered = struct.pack(
        ">hiqqqhii", attributes, records.size - 1, first, last, producer_id, epoch, sequence, records.size
    )
    covered += packed
    return struct.pack(">qiibI", 0, 9 + len(covered), -1, 2, crc32c(covered)) + covered


def _encoded_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    return _varint(len(headers)) + b"".join(_sized(name.encode()) + _sized(value) for name, value in headers)


def _sized(data: bytes | None) -> bytes:
    return b"\1" if data is None else _varint(len(data)) + data


def _encode_varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


_SMALL = [_encode_varint(number) for number in range(1 << 13)]


def _varint(number: int) -> bytes:
    return _SMALL[number] if 0 <= number < 1 << 13 else _encode_varint(number)


@cache
def _crc_tables() -> tuple[list[int], list[int]]:
    """The effect of two bytes on a checksum, and their effect two bytes later."""
    byte = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        byte.append(value)
    near = [byte[byte[i & 0xFF] & 0xFF ^ i >> 8] ^ byte[i & 0xFF] >> 8 for i in range(1 << 16)]
    return near, [near[value & 0xFFFF] ^ value >> 16 for value in near]


def crc32c(data: bytes) -> int:
    """Castagnoli's CRC, four bytes a step: 14 MB/s where byte by byte makes 3."""
    near, far = _crc_tables()
    crc = 0xFFFFFFFF
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", memoryview(data)[:whole]):
        crc ^= word
        crc = far[crc & 0xFFFF] ^ near[crc >> 16]
    for byte in data[whole:]:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
