"""Malicious batches with a correct CRC: no crash, no hang, no memory beyond the bytes that are there."""

from __future__ import annotations

import contextlib
import struct
import subprocess
import sys
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostile.record_batches import CODECS, Batch, counted, nullable, read, record, snappy_raw, varint
from penstock.errors import CorruptBatch
from support.examples import examples

MEGABYTE = 1 << 20
INT_MAX = 2**31 - 1


def compressed(codec: str, payload: bytes) -> bytes:
    return bytes(CODECS[codec][1](payload))


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "none"])
def test_a_bomb_ends_at_the_limit_and_names_it(codec: str) -> None:
    bomb = Batch(0, count=1, codec=codec, payload=compressed(codec, bytes(20 * MEGABYTE)))
    with pytest.raises(CorruptBatch, match="decompression limit of 1048576 bytes"):
        read(bomb.encode(), limit=MEGABYTE)


def test_a_zstd_frame_may_declare_any_size_or_window_and_gets_no_memory_for_it() -> None:
    """In its own process, because peak memory belongs to a process."""
    # Frame: magic, descriptor (8-byte content size, not a single segment), window of 128 MiB, 1 TiB of content, one RLE
    # block that is the last one.
    frame = bytes.fromhex("28b52ffd") + b"\xc0" + b"\x88" + struct.pack("<Q", 2**40) + b"\x0b\x00\x00" + b"a"
    data = Batch(0, count=1, codec="zstd", payload=frame).encode()
    assert growth_of_memory(data, "orders", 2**30) < 32 * MEGABYTE


def test_a_snappy_block_may_declare_any_size_and_gets_no_memory_for_it() -> None:
    data = Batch(0, count=1, codec="snappy", payload=b"\xff\xff\xff\xff\x03" + b"\0a").encode()
    assert growth_of_memory(data, "orders", 2**30) < 32 * MEGABYTE


@pytest.mark.parametrize("codec", CODECS)
def test_a_huge_record_count_gets_no_memory(codec: str) -> None:
    data = counted(0, 2, codec=codec).changed(count=INT_MAX, last_delta=INT_MAX - 1)
    with pytest.raises(CorruptBatch, match="cannot fit"):
        read(data)


def growth_of_memory(data: bytes, topic: str, limit: int) -> int:
    """How far peak memory rises while a new process reads `data`, which must be corrupt."""
    script = """
import resource, sys
from pathlib import Path
import pyarrow
from penstock._kernel import COLUMNS, Decoder
from penstock.errors import CorruptBatch

def peak():
    # Do not simplify: on Linux ru_maxrss survives exec, so it would begin at the peak of the test process.
    if sys.platform == "linux":
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

data = sys.stdin.buffer.read()
decoder = Decoder(sys.argv[1], 0, COLUMNS, decompression_limit=int(sys.argv[2]))
decoder.open(data, start=0, stop=9, high_watermark=9, aligned=True, cut=False)
before = peak()
for _ in range(3):
    try:
        decoder.next_batch()
    except CorruptBatch:
        continue
    sys.exit("the bytes were taken for good")
print(peak() - before)
"""
    command = [sys.executable, "-c", script, topic, str(limit)]
    done = subprocess.run(command, input=data, capture_output=True, check=True)
    return int(done.stdout)


def test_memory_is_measured_where_it_is_used() -> None:
    """Proves that the two tests above measure memory: a real decompression bomb must show."""
    payload = compressed("zstd", bytes(200 * MEGABYTE))
    data = Batch(0, count=1, codec="zstd", payload=payload).encode()
    assert growth_of_memory(data, "orders", 2**30) > 100 * MEGABYTE
    assert growth_of_memory(data, "orders", MEGABYTE) < 32 * MEGABYTE


def framed(body: bytes) -> bytes:
    return varint(len(body)) + body


EMPTY = b"\0\0\0" + nullable(None) + nullable(None)

WRONG_RECORDS = {
    "negative record length": varint(-5) + bytes(10),
    "record past the end": varint(INT_MAX) + bytes(10),
    "negative key length": framed(b"\0\0\0" + varint(-2) + nullable(None) + b"\0\0"),
    "huge key length": framed(b"\0\0\0" + varint(INT_MAX) + b"xxxxx"),
    "negative value length": framed(b"\0\0\0" + nullable(None) + varint(-2) + b"\0\0"),
    "negative header count": framed(EMPTY + varint(-1)),
    "huge header count": framed(EMPTY + varint(INT_MAX) + bytes(100)),
    "header without key": framed(EMPTY + varint(1) + nullable(None) + nullable(None)),
    "header key past the end": framed(EMPTY + varint(1) + varint(9) + b"xx"),
    "header value past the end": framed(EMPTY + varint(1) + nullable(b"k") + varint(9) + b"x"),
    "fewer headers than counted": framed(EMPTY + varint(2) + nullable(b"key") + nullable(None)),
    "more headers than counted": framed(EMPTY + varint(1) + 2 * (nullable(b"k") + nullable(None))),
    "headers though none are counted": framed(EMPTY + varint(0) + b"xx"),
    "endless varint": b"\xff" * 20,
    "endless timestamp": framed(b"\0" + b"\xff" * 20),
    "negative offset delta": record(-1),
    "offset delta past the last": record(1),
    "huge offset delta": record(INT_MAX),
    "bytes after the last record": record(0) + b"\0",
    "no record at all": b"",
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("payload", WRONG_RECORDS.values(), ids=WRONG_RECORDS)
def test_a_record_with_false_lengths_is_corrupt(payload: bytes, codec: str) -> None:
    data = Batch(0, count=1, codec=codec, payload=compressed(codec, payload)).encode()
    with pytest.raises(CorruptBatch):
        read(data)
    with pytest.raises(CorruptBatch):
        read(data, columns=["offset"])


def test_a_header_bomb_is_no_larger_than_its_bytes() -> None:
    headers = [(b"", None)] * 200_000
    (row,) = read(Batch(0, [record(0, headers=headers)]).encode()).rows
    assert len(row["headers"]) == 200_000


@pytest.mark.parametrize(
    "changes",
    [
        {"base": -1},
        {"base": 2**63 - 1},
        {"base": 2**63 - 2},
        {"last_delta": -1},
        {"last_delta": INT_MAX, "base": 2**63 - INT_MAX},
        {"count": -1},
        {"count": 3},
        {"count": 1},
        {"count": 0},
        {"last_delta": 0},
        {"attributes": 5},
        {"attributes": 6},
        {"attributes": 7},
    ],
    ids=str,
)
def test_a_batch_header_with_false_fields_is_corrupt(changes: dict[str, int]) -> None:
    with pytest.raises(CorruptBatch):
        read(counted(0, 2).changed(**changes))


def test_a_codec_that_was_not_used_is_corrupt() -> None:
    for codec in range(1, 5):
        with pytest.raises(CorruptBatch):
            read(counted(0, 2).changed(attributes=codec))


def test_bytes_after_a_compressed_stream_are_corrupt() -> None:
    payload = record(0)
    for codec in ("gzip", "xerial", "lz4", "zstd"):
        data = Batch(0, count=1, codec=codec, payload=compressed(codec, payload) + b"\x07\x07\x07\x07").encode()
        with pytest.raises(CorruptBatch):
            read(data)


def test_gzip_members_and_joined_snappy_streams_are_read() -> None:
    one, two = record(0), record(1)
    deflate = zlib.compressobj(wbits=31)
    members = deflate.compress(one) + deflate.flush() + compressed("gzip", two)
    joined = compressed("xerial", one) + compressed("xerial", two)
    for codec, payload in [("gzip", members), ("xerial", joined)]:
        data = Batch(0, count=2, last_delta=1, codec=codec, payload=payload).encode()
        assert read(data).offsets == [0, 1]


@given(st.binary(max_size=300), st.booleans(), st.booleans())
def test_random_bytes_are_corrupt_or_nothing(data: bytes, cut: bool, aligned: bool) -> None:
    try:
        found = read(data, cut=cut, aligned=aligned, aborted=[(0, 0)])
    except CorruptBatch:
        return
    assert found.rows == []
    assert found.position == 0


@given(
    st.binary(max_size=200),
    st.integers(0, 127),
    st.integers(-2, 30),
    st.integers(-2, 30),
    st.none() | st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 9)), max_size=3),
)
@settings(max_examples=examples(500))
def test_random_records_with_a_correct_crc_are_rows_or_corrupt(
    payload: bytes, attributes: int, count: int, last_delta: int, aborted: list[tuple[int, int]] | None
) -> None:
    batch = Batch(0, payload=payload, attributes=attributes, count=count, last_delta=last_delta, producer=1)
    try:
        found = read(batch.encode(), aborted=aborted, limit=MEGABYTE)
    except CorruptBatch:
        return
    assert found.next_offset == last_delta + 1
    assert len(found.rows) in (0, count)


@given(st.binary(max_size=2000), st.integers(0, 2**32))
def test_a_damaged_snappy_block_is_corrupt_or_the_same(payload: bytes, seed: int) -> None:
    packed = bytearray(snappy_raw(record(0, payload)))
    packed[seed % len(packed)] ^= 1 << (seed >> 16) % 8
    data = Batch(0, count=1, codec="snappy", payload=bytes(packed)).encode()
    with contextlib.suppress(CorruptBatch):
        assert len(read(data, limit=MEGABYTE).rows) == 1
