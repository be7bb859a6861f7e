"""Messages of magic 0 and 1, through kafka-python's decoder into the kernel's columns."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pyarrow as pa
import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from hostile.record_batches import PARTITION, TOPIC, counted, read, snappy_raw, snappy_xerial
from penstock._kernel import COLUMNS, Decoder
from penstock.errors import BrokerError, CorruptBatch
from penstock.wire.message_set import decode_legacy

TIME = 1_600_000_000_000


def message(offset: int, value: bytes | None, key: bytes | None = b"k", magic: int = 1, attributes: int = 0) -> bytes:
    body = struct.pack(">bb", magic, attributes)
    body += struct.pack(">q", TIME + offset) if magic else b""
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def wrapped(offset: int, codec: int, packed: bytes, magic: int = 1) -> bytes:
    return message(offset, packed, None, magic, codec)


def pack(codec: str) -> Any:
    return lambda payload: bytes(pa.compress(payload, codec=codec, asbytes=True))


def decode(
    data: bytes, start: int = 0, stop: int = 2**62, position: int = 0, columns: Any = COLUMNS, limit: int = 1 << 28
) -> Any:
    return decode_legacy(memoryview(data), position, TOPIC, PARTITION, columns, start, stop, limit)


@pytest.mark.parametrize(("magic", "time", "kind"), [(0, -1, -1), (1, TIME + 5, 0)])
def test_messages_fill_the_kernels_columns(magic: int, time: int, kind: int) -> None:
    batch, next_offset, position = decode(data := message(5, b"v", None, magic))
    batch.validate(full=True)
    decoder = Decoder(TOPIC, PARTITION, COLUMNS)
    decoder.open(counted(0, 1).encode(), start=0, stop=1, high_watermark=1, aligned=True, cut=False)
    assert batch.schema.equals(pa.record_batch(decoder.next_batch()).schema, check_metadata=True)
    (row,) = batch.to_pylist()
    assert (row["key"], row["value"], row["topic"], row["partition"], row["offset"]) == (
        None,
        b"v",
        TOPIC,
        PARTITION,
        5,
    )
    assert (row["timestamp"].timestamp() * 1000, row["timestampType"], row["headers"]) == (time, kind, None)
    assert (next_offset, position) == (6, len(data))


def test_kafka_pythons_own_builder_is_read() -> None:
    for codec in (0, 1):
        builder = LegacyRecordBatchBuilder(1, codec, 2**20)
        for at in range(5):
            builder.append(at, TIME + at, None, b"value %d" % at)
        built = bytes(builder.build())
        # A broker gives a set the offset of its last message; the builder leaves that to it.
        batch, next_offset, _ = decode(struct.pack(">q", 4) + built[8:] if codec else built)
        assert batch.column("value").to_pylist() == [b"value %d" % at for at in range(5)]
        assert next_offset == 5


@pytest.mark.parametrize(
    ("codec", "packer"), [(1, pack("gzip")), (2, snappy_raw), (2, snappy_xerial), (3, pack("lz4"))]
)
def test_compressed_sets_have_relative_offsets(codec: int, packer: Any) -> None:
    inner = b"".join(message(at, b"%d" % at) for at in range(4))
    data = message(9, b"before") + wrapped(13, codec, packer(inner)) + message(14, b"after")
    batch, next_offset, position = decode(data, 9)
    assert batch.column("offset").to_pylist() == [9, 10, 11, 12, 13, 14]
    assert (next_offset, position) == (15, len(data))


def test_a_set_that_reaches_past_stop_can_be_read_again_for_its_tail() -> None:
    first = message(0, b"0")
    data = first + wrapped(4, 1, pack("gzip")(b"".join(message(at, b"x") for at in range(4))))
    batch, next_offset, position = decode(data, 0, 3)
    assert batch.column("offset").to_pylist() == [0, 1, 2]
    assert (next_offset, position) == (3, len(first))
    batch, next_offset, position = decode(data, 3, 100, position)
    assert batch.column("offset").to_pylist() == [3, 4]


def test_only_the_columns_asked_for_are_built() -> None:
    assert decode(message(0, b"v"), columns=["offset", "value"])[0].to_pylist() == [{"offset": 0, "value": b"v"}]


def test_a_tail_cut_short_is_left_where_it_is() -> None:
    whole = message(0, b"whole")
    for length in range(1, len(whole)):
        batch, next_offset, position = decode(whole + message(1, b"whole")[:length])
        assert (batch.num_rows, next_offset, position) == (1, 1, len(whole))


def test_decoding_ends_where_magic_2_begins_and_the_kernel_goes_on() -> None:
    data = message(0, b"old") + counted(1, 2).encode()
    assert read(data).legacy
    _, next_offset, position = decode(data)
    assert read(data, next_offset, position=position).offsets == [1, 2]


def test_every_flipped_bit_but_those_of_the_offset_is_found() -> None:
    inner = b"".join(message(at, b"%d" % at) for at in range(2))
    data = wrapped(1, 1, pack("gzip")(inner))
    wanted = decode(data)
    for bit in range(64, len(data) * 8):
        bad = bytearray(data)
        bad[bit // 8] ^= 1 << (bit % 8)
        try:
            found = decode(bytes(bad))
        except CorruptBatch:
            continue
        # The length points past the end or the magic is another one: nothing is read, and it says so.
        assert found == (None, 0, 0)
        assert 8 <= bit // 8 < 12 or bit // 8 == 16
    assert wanted[0].num_rows == 2


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (struct.pack(">qi4xb", 0, -12, 1) + bytes(30), "length -12"),
        (struct.pack(">qi4xb", 0, 10**6, 1) + bytes(30), "length 1000000"),
        (message(0, b"v")[:-1], "does not fit"),
        (message(0, b"v", magic=0) + bytes(20), "magic"),
        (wrapped(0, 1, b"x"), "compressed set"),
        (b"", "empty"),
        (message(0, b"v")[:-5] + b"\xff\xff\xff\xfev", "a length of"),
        (message(0, b"v")[:-1] + b"w", "CRC of offset"),
        (message(3, b"v") + message(1, b"v"), "comes after"),
    ],
)
def test_sets_that_lie_about_what_they_hold_are_refused(inner: bytes, reason: str) -> None:
    with pytest.raises(CorruptBatch, match=reason):
        decode(wrapped(9, 1, pack("gzip")(inner)))


def test_a_bomb_ends_at_the_limit() -> None:
    for codec, packer in [(1, pack("gzip")), (2, snappy_raw), (2, snappy_xerial), (3, pack("lz4"))]:
        with pytest.raises(CorruptBatch, match="decompression limit of 10000 bytes"):
            decode(wrapped(0, codec, packer(bytes(10_001))), limit=10_000)


def test_lz4_of_magic_0_is_named_as_not_supported() -> None:
    with pytest.raises(BrokerError, match="magic 0"):
        decode(wrapped(0, 3, pack("lz4")(message(0, b"v", magic=0)), magic=0))


def test_offsets_that_do_not_rise_are_refused() -> None:
    with pytest.raises(CorruptBatch, match="comes after"):
        decode(message(4, b"v") + message(4, b"v"))
    with pytest.raises(CorruptBatch, match="the offset of the fetch"):
        decode(message(4, b"v"), 5)
