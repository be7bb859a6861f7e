"""Random rows of all types and codecs: the kernel's decoder and kafka-python read what the encoder wrote."""

from __future__ import annotations

import struct
from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2
from kafka.record.memory_records import MemoryRecords
from kafka.record.util import calc_crc32c

from hostile.record_batches import read
from penstock._kernel import EncodedBatch, Encoder

NOW = 1_700_000_000_000
TOPICS = {"a": 1, "b": 3, "große": 5}
STRINGS = (pa.string(), pa.large_string(), pa.string_view())
BINARIES = (pa.binary(), pa.large_binary(), pa.binary_view())
UNITS = ("s", "ms", "us", "ns")

Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]


def texts(most: int) -> st.SearchStrategy[bytes]:
    """Valid UTF-8, so that the column may be of any type."""
    return st.text(max_size=most).map(str.encode)


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.RecordBatch, list[dict[str, Any]]]:
    """A record batch, sliced, and its rows as Python values."""
    anything = draw(st.booleans())
    content = st.none() | (st.binary(max_size=200) if anything else texts(100))
    row = st.fixed_dictionaries(
        {
            "topic": st.sampled_from(sorted(TOPICS)),
            "partition": st.none() | st.just(0),
            "key": content,
            "value": content,
            "timestamp": st.none() | st.integers(0, 2**42),
            "headers": st.none() | st.lists(st.tuples(st.text(max_size=10), content), max_size=3),
        }
    )
    rows = draw(st.lists(row, min_size=1, max_size=40))
    kinds = st.sampled_from(BINARIES if anything else STRINGS + BINARIES)
    unit = draw(st.sampled_from(UNITS))
    if unit == "s":
        for each in rows:
            each["timestamp"] = None if each["timestamp"] is None else each["timestamp"] // 1000 * 1000
    pair = pa.struct([(draw(st.sampled_from(("key", "Key"))), draw(st.sampled_from(STRINGS))), ("value", draw(kinds))])
    list_of = draw(st.sampled_from((pa.list_, pa.large_list)))
    types = {
        "topic": draw(st.sampled_from(STRINGS)),
        "partition": pa.int32(),
        "key": draw(kinds),
        "value": draw(kinds),
        "timestamp": draw(
            st.sampled_from((pa.timestamp(unit, draw(st.sampled_from((None, "Asia/Tokyo")))), pa.int64()))
        ),
        "headers": list_of(pair),
    }

    def arrow(name: str, value: Any) -> Any:
        kind = types[name]
        if value is not None and name == "timestamp" and kind != pa.int64():
            return value * 1000 ** UNITS.index(unit) // 1000
        if value is not None and kind in STRINGS and isinstance(value, bytes):
            return value.decode()
        if name == "headers" and value is not None:
            decoded = pair.field(1).type in STRINGS
            return [(key, each.decode() if decoded and each is not None else each) for key, each in value]
        return value

    # Rows before and after the slice must not be read.
    before, after = draw(st.integers(0, 3)), draw(st.integers(0, 2))
    padded = [*rows[:1] * before, *rows, *rows[:1] * after]
    columns = [pa.array([arrow(name, each[name]) for each in padded], kind) for name, kind in types.items()]
    batch = pa.RecordBatch.from_arrays(columns, names=list(types))
    dropped = [name for name in types if name not in ("topic", "value") and draw(st.booleans()) and draw(st.booleans())]
    for each in rows:
        each.update(dict.fromkeys(dropped))
    return batch.slice(before, len(rows)).drop_columns(dropped), rows


def unpacked(batch: bytes) -> bytes:
    """The same batch without compression: kafka-python's own codecs are packages we do not depend on."""
    (attributes,) = struct.unpack_from(">h", batch, 21)
    payload = batch[61:]
    match attributes & 7:
        case 1:
            payload = pa.CompressedInputStream(pa.BufferReader(payload), "gzip").read()
        case 2:
            payload = without_xerial(payload)
        case 3:
            payload = pa.CompressedInputStream(pa.BufferReader(payload), "lz4").read()
        case 4:
            payload = pa.CompressedInputStream(pa.BufferReader(payload), "zstd").read()
    covered = struct.pack(">h", attributes & ~7) + batch[23:61] + payload
    head = batch[:8] + struct.pack(">i", len(covered) + 9) + batch[12:17]
    return head + struct.pack(">I", calc_crc32c(covered)) + covered


def without_xerial(payload: bytes) -> bytes:
    assert payload[:16] == b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    at, blocks = 16, []
    while at < len(payload):
        (size,) = struct.unpack_from(">i", payload, at)
        block = payload[at + 4 : at + 4 + size]
        length = shift = used = 0
        while True:
            length |= (block[used] & 0x7F) << shift
            if block[used] < 0x80:
                break
            used, shift = used + 1, shift + 7
        blocks.append(pa.decompress(block, decompressed_size=length, codec="snappy", asbytes=True))
        at += 4 + size
    return b"".join(blocks)


def by_kafka_python(batch: EncodedBatch) -> list[Row]:
    data = unpacked(batch.data)
    records = MemoryRecords(data).next_batch()
    assert records.validate_crc()
    return [(r.key, r.value, [tuple(h) for h in r.headers], r.timestamp) for r in records]


def by_kernel(batch: EncodedBatch) -> list[Row]:
    return [
        (row["key"], row["value"], [(h["key"], h["value"]) for h in row["headers"] or []], row["timestamp"] // 1000)
        for row in read(batch.data).rows
    ]


def partition_of(row: dict[str, Any]) -> int | None:
    """None if any partition will do."""
    if row["partition"] is not None:
        return int(row["partition"])
    return None if row["key"] is None else int((murmur2(row["key"]) & 0x7FFFFFFF) % TOPICS[row["topic"]])


def content_of(row: dict[str, Any]) -> str:
    timestamp = NOW if row["timestamp"] is None else row["timestamp"]
    return repr((row["key"], row["value"], row["headers"] or [], timestamp))


@given(
    st.lists(tables(), min_size=1, max_size=3),
    st.sampled_from(("none", "gzip", "snappy", "lz4", "zstd")),
    st.integers(0, 2000),
    st.integers(0, 5000),
    st.booleans(),
)
def test_W3_kernel_and_kafka_python_read_the_rows_that_were_written(
    given_tables: list[tuple[pa.RecordBatch, list[dict[str, Any]]]],
    compression: str,
    batch_size: int,
    buffer_size: int,
    flushed: bool,
) -> None:
    encoder = Encoder(
        compression=compression, batch_size=batch_size, max_record_size=1 << 20, buffer_size=buffer_size, hashed=True
    )
    for topic, partitions in TOPICS.items():
        encoder.add_topic(topic, partitions)
    encoder.set_producer(5, 6, True)
    batches: list[EncodedBatch] = []
    for table, _ in given_tables:
        batches += encoder.append(table, topic=None, timestamp=NOW)
        assert encoder.open_bytes <= max(buffer_size, 2000)
        if flushed:
            batches += encoder.flush()
    batches += encoder.flush()
    wanted = [row for _, rows in given_tables for row in rows]
    assert encoder.rows == len(wanted) == sum(batch.count for batch in batches)

    found: Counter[tuple[str, int, str]] = Counter()
    sequences: dict[tuple[str, int], int] = {}
    for batch in batches:
        records = by_kernel(batch)
        assert records == by_kafka_python(batch)
        place = batch.topic, batch.partition
        assert batch.base_sequence == sequences.get(place, 0)
        sequences[place] = batch.base_sequence + batch.count
        assert batch.count == 1 or batch.payload_bytes + 61 <= batch_size
        found.update((*place, repr(record)) for record in records)
    chosen = Counter(
        (row["topic"], partition, content_of(row)) for row in wanted if (partition := partition_of(row)) is not None
    )
    assert chosen <= found
    rotated = Counter((topic, record) for topic, _, record in (found - chosen).elements())
    assert rotated == Counter((row["topic"], content_of(row)) for row in wanted if partition_of(row) is None)
