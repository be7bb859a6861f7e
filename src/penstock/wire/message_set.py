"""Message sets of magic 0 and 1, which brokers before Kafka 0.11 wrote and newer ones still serve from old segments.

kafka-python's decoder reads the messages. It does not check lengths: in a compressed set it follows them anywhere (a
length of -12 makes it loop forever), and it truncates a key or value at the end of the bytes. So they are checked here
first. pyarrow decompresses, with a limit, so that no codec package is needed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from kafka.errors import KafkaError
from kafka.record.legacy_records import LegacyRecordBatch

from penstock.errors import BrokerError, CorruptBatch
from penstock.model.columns import TYPES, arrow_schema

READ_STEP = 1 << 20
"""Bytes that are decompressed at a time, so that memory grows with the real data only."""

_OVERHEAD = 12  # offset and length, which the length does not count
_FIXED = {0: 14, 1: 22}  # by magic: crc, magic, attributes, timestamp of magic 1, lengths of key and value
_GZIP, _SNAPPY, _LZ4 = 1, 2, 3
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
_MOST_MILLISECONDS = (2**63 - 1) // 1000
_NO_TIMESTAMP = -1


def decode_legacy(
    data: memoryview,
    position: int,
    topic: str,
    partition: int,
    columns: Sequence[str],
    start: int,
    stop: int,
    decompression_limit: int,
) -> tuple[pa.RecordBatch | None, int, int]:
    """Decode the messages of magic 0 and 1 that begin at byte `position`, up to one of another magic or the end.

    Returns the rows with offsets in [start, stop) or None, the first offset that was not read, and the byte where its
    message (set) begins. A message that is cut short at the end of `data` is not read.
    """
    rows: list[Any] = []
    next_offset = start
    last_offset = -1
    while next_offset < stop and (size := _whole_message(data, position, topic, partition)):
        view = data[position : position + size]
        (claimed,) = struct.unpack_from(">q", view)
        try:
            records = _read(view, decompression_limit)
        except (KafkaError, ValueError, struct.error, OSError, pa.ArrowException) as error:
            raise CorruptBatch(topic, partition, claimed, position, str(error) or type(error).__name__) from error
        for record in records:
            if record.offset <= last_offset:
                reason = f"offset {record.offset} comes after {last_offset}"
                raise CorruptBatch(topic, partition, claimed, position, reason)
            last_offset = record.offset
        if last_offset < start and not rows and next_offset == start:
            reason = f"last offset {last_offset} is below {start}, the offset of the fetch"
            raise CorruptBatch(topic, partition, claimed, position, reason)
        rows += [record for record in records if start <= record.offset < stop]
        if last_offset >= stop:
            next_offset = stop
            break
        next_offset = last_offset + 1
        position += size
    return _columns(rows, topic, partition, columns), next_offset, position


def _whole_message(data: memoryview, position: int, topic: str, partition: int) -> int:
    """The bytes of the message (set) at `position`; 0 if it is cut short or of magic 2."""
    if len(data) - position < _OVERHEAD + 5:
        return 0
    offset, length, magic = struct.unpack_from(">qi4xb", data, position)
    fixed = _FIXED.get(magic)
    if fixed is None:
        return 0
    if length < fixed:
        raise CorruptBatch(topic, partition, offset, position, f"message length {length} is too small")
    size: int = _OVERHEAD + length
    return size if size <= len(data) - position else 0


class _Checked(LegacyRecordBatch):  # type: ignore[misc]  # kafka-python has no types
    """kafka-python's decoder, for bytes whose lengths were checked."""

    __slots__ = ("limit",)

    def _decompress(self, key_offset: int) -> bytes:
        buffer, magic = self._buffer, self._magic
        (key_size,) = struct.unpack_from(">i", buffer, key_offset)
        begin = key_offset + 4 + max(key_size, 0)
        (value_size,) = struct.unpack_from(">i", buffer, begin)
        if value_size < 0:
            raise ValueError("a compressed set has no bytes")
        inner = _decompressed(
            bytes(buffer[begin + 4 : begin + 4 + value_size]), self.compression_type, magic, self.limit
        )
        position, view = 0, memoryview(inner)
        while position < len(inner):
            position += _check_message(view[position:], magic, inner=True)
        if not inner:
            raise ValueError("a compressed set is empty")
        return inner


def _read(view: memoryview, limit: int) -> list[Any]:
    """The records of one message, or of the set that it wraps."""
    magic = view[16]
    _check_message(view, magic, inner=False)
    batch = _Checked(view, magic)
    batch.limit = limit
    if not batch.validate_crc():
        raise ValueError("the CRC is wrong")
    records = list(batch)
    for record in records:
        if not record.validate_crc():
            raise ValueError(f"the CRC of offset {record.offset} is wrong")
        if record.offset < 0:
            raise ValueError(f"offset {record.offset} is negative")
    if batch.compression_type and records[-1].offset > batch.base_offset:
        raise ValueError(f"offset {records[-1].offset} is above that of its set")
    return records


def _check_message(view: memoryview, magic: int, *, inner: bool) -> int:
    """Check that key and value fill the first message of `view`; returns its size."""
    if len(view) < _OVERHEAD + _FIXED[magic]:
        raise ValueError("a message is cut short")
    length, found = struct.unpack_from(">i4xb", view, 8)
    if inner and found != magic:
        raise ValueError(f"a set of magic {magic} holds a message of magic {found}")
    if length < _FIXED[magic] or length > len(view) - _OVERHEAD:
        raise ValueError(f"message length {length} does not fit")
    if inner and view[17] & 0x07:
        raise ValueError("a compressed set holds a compressed set")
    at: int = _OVERHEAD + _FIXED[magic] - 8
    end: int = _OVERHEAD + length
    for _ in ("key", "value"):
        if end - at < 4:
            raise ValueError("key and value do not fill the message")
        (size,) = struct.unpack_from(">i", view, at)
        if size < -1:
            raise ValueError(f"a length of {size} bytes")
        at += 4 + max(size, 0)
    if at != end:
        raise ValueError("key and value do not fill the message")
    return end


def _decompressed(packed: bytes, codec: int, magic: int, limit: int) -> bytes:
    if codec == _GZIP:
        return _streamed(packed, "gzip", limit)
    if codec == _SNAPPY:
        return _unsnapped(packed, limit)
    if codec == _LZ4 and magic == 1:
        return _streamed(packed, "lz4", limit)
    if codec == _LZ4:
        # Kafka wrote a wrong checksum into the frames of magic 0, which no other reader accepts.
        raise BrokerError("lz4 in messages of magic 0 is not supported; let the broker rewrite the topic")
    raise ValueError(f"unknown codec {codec}")


def _streamed(packed: bytes, codec: str, limit: int) -> bytes:
    unpacked = bytearray()
    with pa.CompressedInputStream(pa.BufferReader(packed), codec) as stream:
        while piece := stream.read(READ_STEP):
            unpacked += piece
            if len(unpacked) > limit:
                raise ValueError(_over_limit(limit))
    return bytes(unpacked)


def _unsnapped(packed: bytes, limit: int) -> bytes:
    if not packed.startswith(_XERIAL):
        return _snappy_block(packed, limit, limit)
    position, left, blocks = _XERIAL_HEADER, limit, []
    while position < len(packed):
        (size,) = struct.unpack_from(">i", packed, position)
        position += 4
        if not 0 < size <= len(packed) - position:
            raise ValueError(f"a snappy block of {size} bytes does not fit")
        blocks.append(_snappy_block(packed[position : position + size], left, limit))
        position += size
        left -= len(blocks[-1])
    return b"".join(blocks)


def _snappy_block(block: bytes, left: int, limit: int) -> bytes:
    size = 0
    for at, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            break
    else:
        raise ValueError("a snappy block has no length")
    if size > left:
        raise ValueError(_over_limit(limit))
    if size * 3 > len(block) * 64:  # 3 bytes of snappy produce at most 64
        raise ValueError(f"{len(block)} bytes of snappy cannot unpack to {size}")
    unpacked: bytes = pa.decompress(block, decompressed_size=size, codec="snappy", asbytes=True)
    return unpacked


def _over_limit(limit: int) -> str:
    return f"unpacks to more than the decompression limit of {limit} bytes"


def _columns(rows: list[Any], topic: str, partition: int, columns: Sequence[str]) -> pa.RecordBatch | None:
    if not rows:
        return None
    values: dict[str, Callable[[], list[Any]]] = {
        "key": lambda: [row.key for row in rows],
        "value": lambda: [row.value for row in rows],
        "topic": lambda: [topic] * len(rows),
        "partition": lambda: [partition] * len(rows),
        "offset": lambda: [row.offset for row in rows],
        "timestamp": lambda: [_microseconds(row.timestamp) for row in rows],
        # Magic 0 has no timestamps: type -1, and a timestamp of -1 ms, as Spark's source shows it.
        "timestampType": lambda: [-1 if row.timestamp_type is None else row.timestamp_type for row in rows],
        "headers": lambda: [None] * len(rows),
    }
    arrays = [pa.array(values[name](), TYPES[name]) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


def _microseconds(milliseconds: int | None) -> int | None:
    """Null where microseconds do not fit, as in the kernel."""
    if milliseconds is None:
        milliseconds = _NO_TIMESTAMP
    return milliseconds * 1000 if -_MOST_MILLISECONDS <= milliseconds <= _MOST_MILLISECONDS else None
