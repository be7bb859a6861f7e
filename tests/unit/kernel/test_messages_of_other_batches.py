"""Batches of other libraries in the kernel: it checks them, and then reads them like its own."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostile.record_batches import PARTITION, TOPIC, chunk, counted
from penstock import _kernel
from penstock._kernel import COLUMNS, Decoder, Messages
from penstock.model.columns import TYPES, arrow_schema

NEEDED = ["key", "value", "offset", "timestamp", "timestampType", "headers"]


def foreign(**changes: Any) -> pa.RecordBatch:
    """A batch of two rows made by pyarrow, with changed columns."""
    columns = {
        "key": pa.array([b"k", None], TYPES["key"]),
        "value": pa.array([None, b"v"], TYPES["value"]),
        "offset": pa.array([5, 9], TYPES["offset"]),
        "timestamp": pa.array([-1000, 1_999], TYPES["timestamp"]),
        "timestampType": pa.array([-1, 1], TYPES["timestampType"]),
        "headers": pa.array([None, [{"key": "h", "value": b"x"}]], TYPES["headers"]),
    } | changes
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def test_a_batch_of_pyarrow_becomes_messages() -> None:
    found = Messages(_kernel.Batch.from_arrow(foreign()), TOPIC, 1, 10)
    assert [(m.key, m.value, m.offset, m.timestamp, m.timestamp_type, m.headers, found.position) for m in found] == [
        (b"k", None, 5, None, -1, [], 9),
        (None, b"v", 9, 1, 1, [("h", b"x")], 10),
    ]


def test_a_batch_of_pyarrow_comes_back_as_it_was() -> None:
    fields = arrow_schema(COLUMNS)
    batch = pa.RecordBatch.from_pylist(
        [{"key": b"k", "topic": "t", "partition": 1, "offset": at, "headers": [{"key": "h"}]} for at in range(5)],
        fields,
    )
    for expected in (batch, batch.slice(1, 3), batch.slice(5), batch.select(["offset"])):
        taken = _kernel.Batch.from_arrow(expected)
        assert (taken.num_rows, pa.record_batch(taken)) == (expected.num_rows, expected)
        assert pa.record_batch(taken).schema == expected.schema


def test_a_batch_of_the_kernel_may_go_round() -> None:
    decoder = Decoder(TOPIC, PARTITION, NEEDED)
    decoder.open(chunk(counted(0, 5)), start=0, stop=5, high_watermark=5, aligned=True, cut=False)
    batch = decoder.next_batch()
    assert batch is not None
    again = _kernel.Batch.from_arrow(batch)
    del batch
    assert [message.value for message in Messages(again, TOPIC, 0, 5)] == [b"offset %d" % at for at in range(5)]


def test_a_slice_of_a_batch_has_messages_of_its_own() -> None:
    (message,) = Messages(_kernel.Batch.from_arrow(foreign().slice(1)), TOPIC, 0, 10)
    assert (message.offset, message.value, message.headers) == (9, b"v", [("h", b"x")])


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("value", pa.array([b"", b""], pa.large_binary())),
        ("value", pa.array(["", ""])),
        ("offset", pa.array([1, 2], pa.int32())),
        ("timestamp", pa.array([1, 2], pa.timestamp("ms", tz="UTC"))),
        ("timestamp", pa.array([1, 2], pa.timestamp("us"))),
        ("headers", pa.array([None, None], pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})))),
        ("key", pa.array([b"", b""]).dictionary_encode()),
        ("nonsense", pa.array([1, 2])),
    ],
)
def test_a_column_that_is_not_the_kernels_is_refused_by_name(name: str, column: pa.Array) -> None:
    with pytest.raises(ValueError, match=name):
        _kernel.Batch.from_arrow(foreign(**{name: column}))


def test_a_column_may_not_be_there_twice() -> None:
    batch = foreign()
    twice = pa.RecordBatch.from_arrays([*batch.columns, batch.column(0)], names=[*batch.schema.names, "key"])
    with pytest.raises(ValueError, match="column key is there twice"):
        _kernel.Batch.from_arrow(twice)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("offset", pa.array([1, None], pa.int64())),
        ("timestampType", pa.array([None, 1], pa.int32())),
        ("headers", pa.array([None, [{"key": None, "value": b""}]], TYPES["headers"])),
        ("headers", pa.array([None, [None]], TYPES["headers"])),
    ],
)
def test_a_null_that_no_message_has_is_refused_by_name(name: str, column: pa.Array) -> None:
    batch = _kernel.Batch.from_arrow(foreign(**{name: column}))
    with pytest.raises(ValueError, match=f"column {name} has a null"):
        Messages(batch, TOPIC, 0, 10)


def test_offsets_that_point_outside_are_refused() -> None:
    ends = struct.pack("<3i", 0, 255, 1)  # the last one fits, so pyarrow does not mind
    lies = pa.BinaryArray.from_buffers(pa.binary(), 2, [None, pa.py_buffer(ends), pa.py_buffer(b"a")])
    with pytest.raises(ValueError, match=r"(?i)offset"):
        _kernel.Batch.from_arrow(foreign(value=lies))


class Capsules:
    def __init__(self, *capsules: object) -> None:
        self.capsules = capsules

    def __arrow_c_array__(self, requested_schema: object | None = None) -> Any:
        return self.capsules


def test_what_is_no_batch_is_refused() -> None:
    schema, array = foreign().__arrow_c_array__()
    with pytest.raises(AttributeError, match="__arrow_c_array__"):
        _kernel.Batch.from_arrow(b"bytes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="incorrect name"):
        _kernel.Batch.from_arrow(Capsules(array, schema))
    with pytest.raises(TypeError):
        _kernel.Batch.from_arrow(Capsules(1, 2))
    with pytest.raises(ValueError, match=r"(?i)struct"):
        _kernel.Batch.from_arrow(pa.array([1]))
    with pytest.raises(ValueError, match="a row is null"):
        _kernel.Batch.from_arrow(pa.array([None], pa.struct({"offset": pa.int64()})))
    assert _kernel.Batch.from_arrow(Capsules(schema, array)).num_rows == 2
    with pytest.raises(ValueError, match="taken over already"):
        _kernel.Batch.from_arrow(Capsules(schema, array))


HEADERS = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=5), "value": st.none() | st.binary(max_size=5)}), max_size=3
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "key": st.none() | st.binary(max_size=80),
                "value": st.none() | st.binary(max_size=80),
                "offset": st.integers(0, 2**62),
                "timestamp": st.none() | st.integers(-(10**15), 10**15),
                "timestampType": st.sampled_from([-1, 0, 1]),
                "headers": HEADERS,
            }
        ),
        max_size=8,
    )
)
def test_messages_are_the_rows_whatever_is_in_them(rows: list[dict[str, Any]]) -> None:
    batch = pa.RecordBatch.from_pylist(rows, arrow_schema(NEEDED))
    found = list(Messages(_kernel.Batch.from_arrow(batch), TOPIC, 0, 2**63 - 1))
    assert len(found) == len(rows)
    for message, row in zip(found, rows, strict=True):
        assert (message.key, message.value, message.offset) == (row["key"], row["value"], row["offset"])
        milliseconds = -1 if row["timestamp"] is None else row["timestamp"] // 1000
        assert message.timestamp == (None if milliseconds == -1 else milliseconds)
        assert message.timestamp_type == row["timestampType"]
        assert message.headers == [(header["key"], header["value"]) for header in row["headers"] or []]
        assert f"offset={row['offset']}, key=" in repr(message)
