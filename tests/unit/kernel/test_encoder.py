"""The encoder of the kernel: partitions, batches, sequences, refused rows."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from kafka.record.util import calc_crc32c

from hostile.record_batches import read
from penstock._kernel import EncodedBatch, Encoder
from penstock.errors import UnwritableRecord

NOW = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def encoder(*topics: tuple[str, int], batch_size: int = 1 << 20, **more: Any) -> Encoder:
    settings: dict[str, Any] = {"max_record_size": 1 << 20, "buffer_size": 1 << 25, **more}
    made = Encoder(batch_size=batch_size, **settings)
    for topic, partitions in topics or [("t", 4)]:
        made.add_topic(topic, partitions)
    return made


def rows(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(columns)


def encode(made: Encoder, batch: pa.RecordBatch, topic: str | None = "t") -> list[EncodedBatch]:
    return made.append(batch, topic=topic, timestamp=NOW) + made.flush()


def places(batches: list[EncodedBatch]) -> list[tuple[str, int, list[bytes | None]]]:
    return [(b.topic, b.partition, [row["value"] for row in read(b.data).rows]) for b in batches]


def values(count: int, length: int = 1) -> list[bytes]:
    return [str(at).zfill(length).encode() for at in range(count)]


def test_bytes_of_a_batch_are_those_of_the_protocol() -> None:
    made = encoder()
    made.set_producer(0x0102030405060708, 0x090A, True)
    batch = rows(
        key=pa.array([b"k", None], pa.binary()),
        value=pa.array([None, b"vv"], pa.binary()),
        partition=pa.array([2, 2], pa.int32()),
        timestamp=pa.array([5, 4], pa.int64()),
        headers=pa.array([[("h", None)], None], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    )
    (found,) = encode(made, batch)
    records = b"\x14\x00\x00\x00\x02k\x01\x02\x02h\x01" + b"\x10\x00\x01\x02\x01\x04vv\x00"
    wanted = struct.pack(">hiqqqhii", 0x10, 1, 5, 5, 0x0102030405060708, 0x090A, 0, 2) + records
    assert found.data[21:] == wanted
    assert found.data[:17] == struct.pack(">qiib", 0, len(wanted) + 9, -1, 2)
    assert found.data[17:21] == struct.pack(">I", calc_crc32c(wanted))
    assert (found.topic, found.partition, found.count, found.base_sequence) == ("t", 2, 2, 0)
    assert (found.first_row, found.last_row, found.payload_bytes) == (0, 1, len(records))
    assert found.first_key() == b"k"


@pytest.mark.parametrize(
    ("key", "murmur2"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_W3_a_key_goes_where_java_puts_it(key: bytes, murmur2: int) -> None:
    for partitions in (1, 4, 1000):
        (found,) = encode(encoder(("t", partitions)), rows(key=[key], value=[b"v"]))
        assert found.partition == (murmur2 & 0x7FFFFFFF) % partitions


def test_W3_a_partition_wins_over_the_key() -> None:
    batch = rows(key=[b"k"] * 3, value=values(3), partition=pa.array([3, 0, 3], pa.int32()))
    assert places(encode(encoder(), batch)) == [("t", 0, [b"1"]), ("t", 3, [b"0", b"2"])]


def test_W3_rows_without_a_key_fill_one_batch_after_the_other() -> None:
    made = encoder(("t", 3), batch_size=61 + 4 * 10, seed=1)
    found = places(made.append(rows(value=values(10, 2)), topic="t", timestamp=NOW))
    assert [(partition, len(content)) for _, partition, content in found] == [(1, 4), (2, 4)]
    assert places(made.flush()) == [("t", 0, [b"08", b"09"])]
    assert [batch.partition for _ in range(4) for batch in encode(made, rows(value=[b"x"]))] == [1, 2, 0, 1]


def test_W3_rows_without_a_key_avoid_partitions_without_a_leader() -> None:
    made = encoder(("t", 4), batch_size=0)
    made.add_topic("t", 4, [1, 3])
    assert {batch.partition for batch in encode(made, rows(value=values(9)))} == {1, 3}
    with pytest.raises(ValueError, match="partition 4"):
        made.add_topic("t", 4, [4])


def test_W9_rows_of_a_partition_keep_their_order() -> None:
    made = encoder(("t", 3), batch_size=200)
    keys = [str(at % 7).encode() for at in range(500)]
    found: dict[int, list[Any]] = {}
    for _, partition, content in places(encode(made, rows(key=keys, value=values(500)))):
        found.setdefault(partition, []).extend(content)
    assert all(list(map(int, content)) == sorted(map(int, content)) for content in found.values())
    assert sum(map(len, found.values())) == 500


def test_a_batch_is_cut_before_the_record_that_would_exceed_its_size() -> None:
    made = encoder(("t", 1), batch_size=1000)
    found = encode(made, rows(value=[bytes(200), bytes(721), bytes(1), bytes(2000), bytes(1)]))
    assert [batch.count for batch in found] == [2, 1, 1, 1]
    assert len(found[0].data) == 1000
    assert [(batch.first_row, batch.last_row) for batch in found] == [(0, 1), (2, 2), (3, 3), (4, 4)]


def test_open_batches_stay_below_the_buffer_size() -> None:
    made = encoder(("t", 50), batch_size=1 << 20, buffer_size=20_000)
    count = 0
    for at in range(200):
        batch = rows(key=[str(at).encode()], value=[bytes(500)])
        count += sum(batch.count for batch in made.append(batch, topic="t", timestamp=NOW))
        assert made.open_bytes <= 20_000
    assert count + sum(batch.count for batch in made.flush()) == made.rows == 200
    assert made.open_bytes == 0


def test_sequences_continue_over_batches_and_restart_with_a_producer() -> None:
    made = encoder(("t", 1), ("u", 1), batch_size=120)
    assert encode(made, rows(value=[b"v"]))[0].base_sequence == -1
    made.set_producer(7, 0, False)
    found = encode(made, rows(value=values(20, 10), topic=["t", "u"] * 10), topic=None)
    for topic in "tu":
        sequence = 0
        for batch in found:
            if batch.topic == topic:
                assert batch.base_sequence == sequence == struct.unpack_from(">i", batch.data, 53)[0]
                sequence += batch.count
        assert sequence == 10
    made.append(rows(value=[b"v"]), topic="t", timestamp=NOW)
    with pytest.raises(ValueError, match="batches are open"):
        made.set_producer(7, 1, False)
    assert made.flush()[0].base_sequence == 10
    made.set_producer(7, 1, True)
    (batch,) = encode(made, rows(value=[b"v"]))
    assert (batch.base_sequence, struct.unpack_from(">hqqi", batch.data, 21)[0]) == (0, 0x10)


def test_a_topic_may_get_more_partitions() -> None:
    made = encoder(("t", 1))
    made.set_producer(1, 0, False)
    assert [batch.partition for batch in encode(made, rows(key=values(50), value=values(50)))] == [0]
    made.add_topic("t", 3)
    found = encode(made, rows(key=values(50), value=values(50)))
    assert [(batch.partition, batch.base_sequence) for batch in found] == [(0, 50), (1, 0), (2, 0)]


HEADERS = pa.list_(pa.struct([("Key", pa.string()), ("VALUE", pa.large_string())]))


@pytest.mark.parametrize(
    ("columns", "place", "words"),
    [
        ({"topic": pa.array([None], pa.string())}, (None, None), "topic is null"),
        ({"topic": ["other"]}, ("other", None), "topic does not exist"),
        ({"topic": ["t"], "partition": pa.array([4], pa.int32())}, ("t", 4), "the topic has 4"),
        ({"topic": ["t"], "partition": pa.array([-1], pa.int32())}, ("t", -1), "the topic has 4"),
        ({"topic": ["t"], "key": [b"abc"], "value": [bytes(1 << 20)]}, ("t", 3), "max.request.size allows 1048576"),
        ({"topic": ["t"], "timestamp": pa.array([-1], pa.timestamp("ns"))}, ("t", None), "before 1970"),
        ({"topic": ["t"], "timestamp": pa.array([2**60], pa.timestamp("s"))}, ("t", None), "before 1970, or later"),
        ({"topic": ["t"], "headers": pa.array([[(None, "v")]], HEADERS)}, ("t", None), "header has no name"),
        ({"topic": ["t"], "headers": pa.array([[None]], HEADERS)}, ("t", None), "header has no name"),
    ],
)
def test_W8_a_row_that_cannot_be_written_is_named(columns: Any, place: Any, words: str) -> None:
    made = encoder()
    made.append(rows(value=values(5)), topic="t", timestamp=NOW)
    with pytest.raises(UnwritableRecord, match=words) as caught:
        made.append(rows(**{"value": [b"v"], **columns}), topic=None, timestamp=NOW)
    error = caught.value
    assert (error.topic, error.partition, error.row) == (*place, 5)
    assert error.key == columns.get("key", [None])[0]
    assert error.hint
    assert error.hint in str(error)


def test_the_largest_record_is_the_one_that_fills_max_record_size() -> None:
    made = encoder(max_record_size=1000)
    (batch,) = encode(made, rows(value=[bytes(930)]))
    assert len(batch.data) == 1000
    with pytest.raises(UnwritableRecord, match="takes 1001 bytes"):
        encode(made, rows(value=[bytes(931)]))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"key": [b"k"]}, "column value is missing"),
        ({"value": [1]}, "column value is of type Int64"),
        ({"value": ["v"], "key": [1.0]}, "column key is of type"),
        ({"value": ["v"], "topic": [b"t"]}, "column topic is of type Binary, and must be string"),
        ({"value": ["v"], "topic": ["t"], "partition": [1]}, "column partition is of type Int64, and must be int32"),
        ({"value": ["v"], "topic": ["t"], "timestamp": ["now"]}, "column timestamp is of type"),
        ({"value": ["v"], "topic": ["t"], "headers": [["h"]]}, "column headers is of type"),
        ({"value": ["v"], "topic": ["t"], "headers": [[{"key": "h"}]]}, "column headers is of type"),
        ({"value": ["v"]}, "column topic is missing"),
    ],
)
def test_W1_missing_columns_and_wrong_types_are_named(columns: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        encoder().append(rows(**columns), topic=None, timestamp=NOW)


def test_W1_other_columns_are_ignored_and_so_is_the_topic_column_if_a_topic_is_given() -> None:
    batch = rows(value=[b"v"], other=[1.5], topic=["nowhere"])
    assert places(encode(encoder(), batch)) == [("t", 0, [b"v"])]
    with pytest.raises(ValueError, match="was not added"):
        encoder().append(batch, topic="x", timestamp=NOW)
    with pytest.raises(ValueError, match="record batch is needed"):
        encoder().append(pa.array([1]), topic="t", timestamp=NOW)
    twice = pa.RecordBatch.from_arrays([pa.array([b"v"])] * 2, names=["value", "value"])
    with pytest.raises(ValueError, match="value is there twice"):
        encoder().append(twice, topic="t", timestamp=NOW)


def hostile(name: str, kind: Any, offsets: list[int], data: bytes | pa.Array = b"abcdef") -> pa.RecordBatch:
    """A batch whose column has these offsets. pyarrow checks them when it creates the batch, so they change later."""
    memory, length = bytearray(4 * len(offsets)), len(offsets) - 1
    buffers = [None, pa.py_buffer(memory)]
    if isinstance(data, bytes):
        column = pa.Array.from_buffers(kind, length, [*buffers, pa.py_buffer(data)])
    else:
        column = pa.Array.from_buffers(kind, length, buffers, children=[data])
    batch = rows(**{"value": values(length), name: column})
    struct.pack_into(f"={len(offsets)}i", memory, 0, *offsets)
    return batch


# The last offset of bytes is not in the list: Arrow's C interface does not tell how long a buffer is, only the last
# offset does.
@pytest.mark.parametrize("offsets", [[-5, 2], [4, 2, 5], [0, 100, 5], [0, -1, 5]])
@pytest.mark.parametrize(("column", "kind"), [("value", pa.binary()), ("key", pa.string())])
def test_offsets_of_a_hostile_column_are_refused(column: str, kind: Any, offsets: list[int]) -> None:
    with pytest.raises(ValueError, match=r"(?i)offset"):
        encode(encoder(), hostile(column, kind, offsets))


@pytest.mark.parametrize("offsets", [[-5, 2], [4, 2, 5], [0, 100], [0, -1], [0, 2**31 - 1]])
def test_offsets_of_hostile_headers_are_refused(offsets: list[int]) -> None:
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    batch = hostile("headers", pa.list_(pair), offsets, pa.array([("h", b"v")] * 6, pair))
    with pytest.raises(ValueError, match=r"(?i)offset"):
        encode(encoder(), batch)


def test_names_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(ValueError, match=r"(?i)utf-?8"):
        encode(encoder(), hostile("topic", pa.string(), [0, 2], b"\xff\xfe"), topic=None)
    headers = pa.array(
        [[{"key": b"\xff", "value": None}]], pa.list_(pa.struct({"key": pa.binary(), "value": pa.null()}))
    )
    with pytest.raises(UnwritableRecord, match="not UTF-8"):
        encode(encoder(), rows(value=[b"v"], headers=headers))


@pytest.mark.parametrize("list_of", [pa.list_, pa.large_list])
def test_headers_of_a_slice_are_those_of_its_rows(list_of: Any) -> None:
    kind = list_of(pa.struct({"KEY": pa.string(), "value": pa.string_view()}))
    headers = pa.array([None if at % 5 == 0 else [(f"h{at}", "x")] * (at % 3) for at in range(50)], kind)
    whole = rows(value=values(50), headers=headers)
    (at_once,) = encode(encoder(("t", 1)), whole)
    made = encoder(("t", 1))
    for at in range(0, 50, 7):
        assert made.append(whole.slice(at, 7), topic="t", timestamp=NOW) == []
    assert made.append(whole.slice(50), topic="t", timestamp=NOW) == []
    assert made.flush()[0].data == at_once.data


@pytest.mark.parametrize(
    ("compression", "level"), [("gzip", 0), ("gzip", 10), ("lz4", 0), ("lz4", 18), ("zstd", 23), ("snappy", 1)]
)
def test_levels_outside_of_kafkas_are_refused(compression: str, level: int) -> None:
    with pytest.raises(ValueError, match="level"):
        encoder(compression=compression, level=level)


def test_unknown_compression_is_refused() -> None:
    with pytest.raises(ValueError, match="none, gzip, snappy, lz4 or zstd"):
        encoder(compression="brotli")


@pytest.mark.parametrize("compression", CODECS)
def test_W8_a_batch_is_split_down_to_single_records(compression: str) -> None:
    made = encoder(("t", 1), compression=compression)
    made.set_producer(9, 3, True)
    batch = rows(
        key=[None if at == 3 else str(at).encode() for at in range(11)],
        value=values(11),
        timestamp=pa.array([NOW + at * at - 7 * at for at in range(11)], pa.timestamp("ms")),
        headers=pa.array([[("h", str(at))] * (at % 3) for at in range(11)], HEADERS),
    )
    (whole,) = encode(made, batch)
    queue, done = [whole], []
    while queue:
        each = queue.pop()
        if each.count == 1:
            done.append(each)
        else:
            first, last = each.split()
            assert first.count == each.count // 2
            assert (first.base_sequence, last.base_sequence) == (each.base_sequence, each.base_sequence + first.count)
            assert [*read(first.data).rows, *read(last.data).rows] != []
            queue += [last, first]
    assert [each.base_sequence for each in done] == [each.first_row for each in done] == list(range(11))
    assert all(each.data[43:53] == whole.data[43:53] and each.data[21:23] == whole.data[21:23] for each in done)
    kept = ("key", "value", "timestamp", "headers")
    wanted = [{name: row[name] for name in kept} for row in read(whole.data).rows]
    assert [{name: row[name] for name in kept} for each in done for row in read(each.data).rows] == wanted
    assert [each.first_key() for each in done] == [row["key"] for row in wanted]
    with pytest.raises(ValueError, match="one record"):
        done[0].split()


def test_W8_single_records_of_a_split_batch_know_their_rows() -> None:
    made = encoder(("t", 3))
    made.append(rows(value=values(1000)), topic="t", timestamp=NOW)
    made.flush()
    queue = encode(made, rows(key=values(300), value=values(300)))
    while queue:
        batch = queue.pop()
        if batch.count > 1:
            queue += batch.split()
        else:
            assert batch.first_row == batch.last_row == 1000 + int(batch.first_key() or b"")


def test_W6_the_content_hash_is_the_same_in_any_order_and_never_changes() -> None:
    columns = {
        "topic": ["t", "t", "u"],
        "key": [b"k", None, b""],
        "value": [None, b"", b"v"],
        "partition": pa.array([None, 0, 1], pa.int32()),
        "timestamp": pa.array([None, 0, 5], pa.timestamp("ms")),
        "headers": pa.array([None, [("h", None)], [("", "x")]], HEADERS),
    }
    batch = rows(**columns)
    hashes = []
    for order in ([0, 1, 2], [2, 0, 1]):
        made = encoder(("t", 2), ("u", 2), hashed=True, seed=order[0], compression=CODECS[order[0]])
        encode(made, batch.take(pa.array(order)), topic=None)
        hashes.append(made.content_hash)
    assert hashes == [12663245664470056832] * 2


def test_W6_the_content_hash_tells_rows_apart() -> None:
    base: dict[str, Any] = {"topic": ["t"], "key": [b"ab"], "value": [b"c"]}
    changes: list[dict[str, Any]] = [
        {},
        {"topic": ["u"]},
        {"key": [b"a"], "value": [b"bc"]},
        {"key": [None]},
        {"key": [b""]},
        {"value": [None]},
        {"value": [b""]},
        {"partition": pa.array([0], pa.int32())},
        {"timestamp": pa.array([0], pa.int64())},
        {"headers": pa.array([[("h", None)]], HEADERS)},
        {"headers": pa.array([[("h", "")]], HEADERS)},
    ]
    found = set()
    for change in changes:
        made = encoder(("t", 1), ("u", 1), hashed=True)
        made.append(rows(**{**base, **change}), topic=None, timestamp=NOW)
        found.add(made.content_hash)
    assert len(found) == len(changes)
    assert 0 not in found


def test_without_a_hash_none_is_kept() -> None:
    made = encoder()
    encode(made, rows(value=[b"v"]))
    assert made.content_hash == 0
