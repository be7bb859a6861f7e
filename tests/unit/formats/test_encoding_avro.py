"""Columns into Avro: read back by the kernel, by Apache's library and by fastavro; schemas as Spark derives them."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._kernel import Format, FormatEncoder
from penstock.formats.derived_schema import avro_schema
from support import avro_cases as cases
from support.examples import examples
from support.typed_columns import columns


def record(*fields: Any, name: str = "R") -> str:
    """A record out of (name, type) or whole fields."""
    whole = [field if isinstance(field, dict) else {"name": field[0], "type": field[1]} for field in fields]
    return json.dumps({"type": "record", "name": name, "fields": whole})


def encode(schema: str, column: pa.Array) -> tuple[list[bytes | None], dict[int, str]]:
    encoded = FormatEncoder.avro(schema, pa.field("", column.type)).encode(column)
    return pa.array(encoded).to_pylist(), dict(encoded.faults)


def refuse(schema: str, type_: pa.DataType) -> str:
    with pytest.raises(ValueError, match="the Avro schema: ") as caught:
        FormatEncoder.avro(schema, pa.field("", type_))
    return str(caught.value)


def struct(**fields: pa.DataType) -> pa.StructType:
    return pa.struct(list(fields.items()))


@st.composite
def written_values(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    schema, values = draw(cases.cases())
    return schema, draw(st.lists(values, min_size=1, max_size=4))


@given(written_values())
@settings(max_examples=examples(300))
def test_W2_any_schema_that_is_read_is_written(case: tuple[Any, list[Any]]) -> None:
    schema, values = case
    column, faults = cases.column_of(schema, [cases.written(schema, value) for value in values])
    assert not faults
    data, faults = encode(json.dumps(schema), column)
    assert not faults
    again, faults = cases.column_of(schema, data)
    assert not faults
    assert again.equals(column)
    for value, row, bytes_ in zip(values, column.to_pylist(), data, strict=True):
        if row is None:
            assert bytes_ is None, "a null has no bytes"
        else:
            assert cases.read(schema, bytes_) == cases.read(schema, cases.written(schema, value))


@given(columns())
@settings(max_examples=examples(200))
def test_W2_a_derived_schema_holds_every_column(column: pa.StructArray) -> None:
    schema = avro_schema(column.type)
    data, faults = encode(schema, column)
    assert not faults
    decoded = Format.avro(schema, pa.field("", cases.type_of(json.loads(schema)))).decode(pa.array(data, pa.binary()))
    assert not decoded.faults
    # Avro has neither bytes nor shorts: both are ints.
    assert pa.array(decoded).to_pylist() == column.to_pylist()
    for bytes_ in data:
        if bytes_ is not None:
            source = io.BytesIO(bytes_)
            fastavro.schemaless_reader(source, fastavro.parse_schema(json.loads(schema)), None)
            assert not source.read()


def test_W2_a_derived_schema_is_that_of_to_avro() -> None:
    type_ = pa.struct(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("price", pa.decimal128(9, 2)),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("tags", pa.list_(pa.field("element", pa.string(), nullable=False))),
            pa.field("to", pa.struct([pa.field("zip", pa.int16())])),
        ]
    )
    assert json.loads(avro_schema(type_)) == {
        "type": "record",
        "name": "topLevelRecord",
        "fields": [
            {"name": "id", "type": "long"},
            {
                "name": "price",
                "type": [
                    {
                        "type": "fixed",
                        "name": "fixed",
                        "namespace": "topLevelRecord.price",
                        "size": 4,
                        "logicalType": "decimal",
                        "precision": 9,
                        "scale": 2,
                    },
                    "null",
                ],
            },
            {"name": "at", "type": [{"type": "long", "logicalType": "timestamp-micros"}, "null"]},
            {"name": "tags", "type": [{"type": "array", "items": "string"}, "null"]},
            {
                "name": "to",
                "type": [
                    {
                        "type": "record",
                        "name": "to",
                        "namespace": "topLevelRecord",
                        "fields": [{"name": "zip", "type": ["int", "null"]}],
                    },
                    "null",
                ],
            },
        ],
    }


def test_W2_fields_are_found_by_name_in_the_order_of_the_schema() -> None:
    schema = record(("a", "int"), ("B", "string"), ("b", "long"))
    column = pa.array(
        [{"b": 1, "A": 2, "B": "x"}], pa.struct([("b", pa.int64()), ("A", pa.int32()), ("B", pa.string())])
    )
    assert encode(schema, column) == ([b"\x04\x02x\x02"], {})
    assert "two columns have this name" in refuse(record(("ab", "int")), struct(aB=pa.int32(), Ab=pa.int32()))


def test_W2_a_field_without_a_column_is_null_or_its_default() -> None:
    schema = record(
        ("a", "int"),
        ("n", ["null", "string"]),
        ("m", ["string", "null"]),
        {"name": "d", "type": {"type": "array", "items": "int"}, "default": [1, 2]},
    )
    column = pa.array([{"a": 1}], struct(a=pa.int32()))
    assert encode(schema, column) == ([b"\x02\x00\x02\x04\x02\x04\x00"], {})
    inner = {"type": "record", "name": "S", "fields": [{"name": "x", "type": "int"}]}
    reason = refuse(record(("a", "int"), ("s", inner)), struct(a=pa.int32(), s=struct()))
    assert "field s.x: the Avro schema requires a int" in reason


@pytest.mark.parametrize(
    ("schema", "type_", "reason"),
    [
        ("int", pa.int64(), "field a: a column of type Int64 cannot be written as int: cast it"),
        ("float", pa.float64(), "cannot be written as float"),
        ("string", pa.int32(), "field a: a column of type Int32 cannot be written as string"),
        ("long", pa.timestamp("us", "UTC"), "add a logical type"),
        ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us"), "local-timestamp"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, pa.decimal128(10, 2), "digits"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, pa.decimal128(9, 3), "scale"),
        ({"type": "array", "items": "int"}, pa.list_(pa.string()), "field a.element"),
        ({"type": "map", "values": "int"}, pa.map_(pa.int32(), pa.int32()), "keys of an Avro map are strings"),
        (["null", "int", "string"], pa.binary(), "none of the branches"),
    ],
)
def test_W2_types_that_do_not_fit_are_refused_with_their_path(schema: Any, type_: pa.DataType, reason: str) -> None:
    assert reason in refuse(record(("a", schema)), struct(a=type_))


def test_W2_a_column_that_the_schema_does_not_have_is_refused() -> None:
    assert "field b: is a column that the Avro schema does not have" in refuse(
        record(("a", "int")), struct(a=pa.int32(), b=pa.int32())
    )


@pytest.mark.parametrize(
    ("schema", "type_", "good", "bad", "reason"),
    [
        ("int", pa.int32(), 1, None, "field a: is null"),
        ({"type": "enum", "name": "E", "symbols": ["X"]}, pa.string(), "X", "Y", '"Y" is not a symbol'),
        ({"type": "fixed", "name": "F", "size": 2}, pa.binary(), b"ab", b"abc", "has 3 bytes, not 2"),
        ({"type": "array", "items": "int"}, pa.list_(pa.int32()), [1], [1, None], "field a.element: is null"),
        (
            {"type": "long", "logicalType": "timestamp-nanos"},
            pa.timestamp("us", "UTC"),
            0,
            2**62,
            "too far from 1970",
        ),
        (
            ["int", "string"],
            struct(member0=pa.int32(), member1=pa.string()),
            {"member0": 1},
            {"member0": 1, "member1": "x"},
            "exactly one member",
        ),
    ],
)
def test_W2_a_value_that_does_not_fit_is_a_fault_of_its_row(
    schema: Any, type_: pa.DataType, good: Any, bad: Any, reason: str
) -> None:
    column = pa.array([{"a": good}, {"a": bad}, {"a": good}], struct(a=type_))
    data, faults = encode(record(("a", schema)), column)
    assert list(faults) == [1]
    assert reason in faults[1]
    assert data[1] is None
    assert data[0] == data[2] is not None


def test_W2_one_type_of_a_union_takes_its_branch() -> None:
    schema = record(("a", ["null", "int", "string"]))
    assert encode(schema, pa.array([{"a": "x"}, {"a": None}], struct(a=pa.string()))) == ([b"\x04\x02x", b"\x00"], {})


@pytest.mark.parametrize("unscaled", [0, 1, -1, 127, 128, -128, -129, 10**37, -(10**38) + 1, 255, -256])
@pytest.mark.parametrize("size", [None, 16, 20])
def test_W2_decimals_are_twos_complement(unscaled: int, size: int | None) -> None:
    kind: dict[str, Any] = {"type": "bytes"} if size is None else {"type": "fixed", "name": "D", "size": size}
    schema = kind | {"logicalType": "decimal", "precision": 38, "scale": 0}
    [data], faults = encode(json.dumps(schema), pa.array([Decimal(unscaled)], pa.decimal128(38, 0)))
    assert not faults
    assert data is not None
    assert fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(schema), None) == unscaled
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    expected = unscaled.to_bytes(size or length, signed=True)
    assert data == (expected if size else bytes([2 * length]) + expected), "as Java's BigInteger.toByteArray"


def test_W2_primitive_keys_are_written_too() -> None:
    assert encode('"string"', pa.array(["ab", None])) == ([b"\x04ab", None], {})
    framed = FormatEncoder.avro('"long"', pa.field("", pa.int64()), schema_id=1).encode(pa.array([-1]))
    assert pa.array(framed).to_pylist() == [b"\x00\x00\x00\x00\x01\x01"]
