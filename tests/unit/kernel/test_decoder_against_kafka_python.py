"""Random records, encoded by kafka-python's builder: what the kernel reads is what kafka-python reads."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from kafka.record.util import calc_crc32c

from hostile.record_batches import CODECS, FOREVER, read

MOST_MILLISECONDS = (2**63 - 1) // 1000

maybe_bytes = st.none() | st.binary(max_size=300)
records = st.lists(
    st.tuples(
        st.integers(0, 2**42),  # timestamp
        maybe_bytes,  # key
        maybe_bytes,  # value
        st.lists(st.tuples(st.text(max_size=20), maybe_bytes), max_size=4),
    ),
    min_size=1,
    max_size=30,
)


def encoded(base: int, content: list[Any]) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=2**30,
    )
    for at, (timestamp, key, value, headers) in enumerate(content):
        assert builder.append(at, timestamp=timestamp, key=key, value=value, headers=headers)
    return struct.pack(">q", base) + bytes(builder.build())[8:]


def repacked(batch: bytes, codec: str) -> bytes:
    """The same batch under another codec: kafka-python's own codecs are packages we do not depend on."""
    number, pack = CODECS[codec]
    (attributes,) = struct.unpack_from(">h", batch, 21)
    covered = struct.pack(">h", attributes | number) + batch[23:61] + pack(batch[61:])
    return (
        batch[:8]
        + struct.pack(">i", len(covered) + 9)
        + batch[12:17]
        + struct.pack(">I", calc_crc32c(covered))
        + covered
    )


def by_kafka_python(batch: bytes) -> list[tuple[Any, ...]]:
    return [
        (r.offset, r.timestamp * 1000, r.timestamp_type, r.key, r.value, [tuple(h) for h in r.headers])
        for r in MemoryRecords(batch).next_batch()
    ]


def by_kernel(data: bytes, **more: Any) -> list[tuple[Any, ...]]:
    return [
        (
            row["offset"],
            row["timestamp"],
            row["timestampType"],
            row["key"],
            row["value"],
            [(header["key"], header["value"]) for header in row["headers"] or []],
        )
        for row in read(data, **more).rows
    ]


@given(st.lists(records, min_size=1, max_size=3), st.sampled_from(sorted(CODECS)), st.integers(0, 2**40))
def test_kernel_and_kafka_python_read_the_same_records(batches: list[list[Any]], codec: str, base: int) -> None:
    wanted, data = [], b""
    for content in batches:
        batch = encoded(base, content)
        wanted += by_kafka_python(batch)
        data += repacked(batch, codec)
        base += len(content)
    found = by_kernel(data, start=wanted[0][0], high_watermark=base, aligned=True)
    assert found == wanted


@given(records, st.integers(0, 30), st.integers(0, 30), st.integers(1, 40))
def test_any_range_in_any_batch_size_is_a_slice_of_the_whole(
    content: list[Any], start: int, length: int, batch_rows: int
) -> None:
    batch = encoded(0, content)
    start = min(start, len(content) - 1)
    found = by_kernel(batch, start=start, stop=start + length, batch_rows=batch_rows)
    assert found == by_kafka_python(batch)[start : start + length]


@given(records)
def test_gzip_of_kafka_pythons_own_builder_is_read(content: list[Any]) -> None:
    builder = DefaultRecordBatchBuilder(2, 1, False, -1, -1, -1, 2**30)
    for at, (timestamp, key, value, headers) in enumerate(content):
        builder.append(at, timestamp=timestamp, key=key, value=value, headers=headers)
    data = bytes(builder.build())
    assert by_kernel(data, stop=FOREVER) == by_kafka_python(data)
