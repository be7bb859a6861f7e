"""Malformed Avro: each bad record becomes one bad row, never more, with a reason that names the place."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostile.record_batches import varint
from penstock._kernel import Format
from support import avro_cases as cases
from support.examples import examples

Schema = Any


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def text(value: bytes) -> bytes:
    return varint(len(value)) + value


EMPTY = {"type": "record", "name": "Empty", "fields": []}
NULLS = {"type": "array", "items": "null"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}

BAD: dict[str, tuple[Schema, bytes, str]] = {
    "nothing": ("int", b"", "ends inside a number"),
    "cut-number": ("long", b"\x80\x80", "ends inside a number"),
    "long-number": ("long", b"\xff" * 9 + b"\x02", "longer than 64 bits"),
    "endless-number": ("long", b"\x80" * 30, "longer than 64 bits"),
    "int-of-64-bits": ("int", varint(2**31), "2147483648 does not fit an int"),
    "cut-double": ("double", b"\0" * 7, "ends inside a value"),
    "trailing": ("int", b"\x02\x02", "1 bytes are left after the record"),
    "boolean-2": ("boolean", b"\x02", "a boolean is 0 or 1, not 2"),
    "text-beyond": (record(a="string"), varint(9) + b"x", "field a: says it has 9 bytes, and 1 are left"),
    "text-huge": ("string", varint(2**62) + b"x", "says it has 4611686018427387904 bytes, and 1 are left"),
    "text-negative": ("bytes", varint(-1), "says it has -1 bytes"),
    "text-most-negative": ("bytes", varint(-(2**63)), "says it has -9223372036854775808 bytes"),
    "no-utf-8": (record(a="string"), text(b"ok\xff"), "field a: is not UTF-8 from byte 2 on"),
    "surrogate": ("string", text(b"\xed\xa0\x80"), "is not UTF-8"),
    "key-no-utf-8": ({"type": "map", "values": "int"}, b"\x02" + text(b"\xff") + b"\2\0", "a key is not UTF-8"),
    "branch-beyond": (record(a=["null", "int"]), b"\x04\x02", "field a: branch 2 of a union with 2"),
    "branch-negative": (["null", "int"], b"\x01", "branch -1 of a union with 2"),
    "branch-huge": (["null", "int", "string"], varint(2**63 - 1), "branch 9223372036854775807"),
    "symbol-beyond": ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "symbol 1 of an enum with 1"),
    "symbol-negative": ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x01", "symbol -1 of an enum with 1"),
    "array-huge": ({"type": "array", "items": "int"}, varint(2**40) + b"\x02", "says it has 1099511627776 items"),
    "array-no-end": ({"type": "array", "items": "int"}, b"\x02\x02", "ends inside a number"),
    "array-item": ({"type": "array", "items": "boolean"}, b"\x04\x00\x07\x00", r"field \[1\]: a boolean is"),
    "array-negative-size": ({"type": "array", "items": "int"}, b"\x01\x01\x02\x00", "block of -1 bytes"),
    "array-size-beyond": ({"type": "array", "items": "int"}, b"\x01" + varint(99) + b"\x02\x00", "block of 99 bytes"),
    "array-most-negative": (
        {"type": "array", "items": "int"},
        varint(-(2**63)) + b"\0\0",
        "says it has 9223372036854775807",
    ),
    "map-huge": ({"type": "map", "values": "null"}, varint(2**40) + b"\x02", "says it has 1099511627776 items"),
    "nulls-huge": (NULLS, varint(2**40) + b"\0", "1099511627776 items without a byte, more than 1024"),
    "nulls-in-blocks": (NULLS, varint(1000) * 2 + b"\0", "items without a byte, more than 1024"),
    "nulls-most-negative": (NULLS, varint(-(2**63)) + b"\0\0", "items without a byte"),
    "empty-records-huge": ({"type": "array", "items": EMPTY}, varint(2**40) + b"\0", "items without a byte"),
    "decimal-of-5-digits": (DECIMAL, text((10000).to_bytes(2, "big")), "more than 4 digits"),
    "decimal-of-40-bytes": (DECIMAL, text(b"\x01" + b"\0" * 39), "more than 4 digits"),
    "decimal-without-bytes": (DECIMAL, text(b""), "without a digit"),
    "timestamp-too-late": (MILLIS, varint(2**62), "beyond what a timestamp can hold"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_record_affects_only_its_own_row(name: str) -> None:
    schema, bad, _ = BAD[name]
    outer = {"type": "record", "name": "Outer", "fields": [{"name": "value", "type": schema}]}
    good = good_value(schema)
    column, faults = cases.column_of(outer, [good, bad, good, None, bad, good])
    assert faults.keys() == {1, 4}
    first, *others = column.to_pylist()
    nothing = {"value": None}
    assert others == [nothing, first, None, nothing, first]


@pytest.mark.parametrize("name", BAD)
def test_the_reason_names_what_is_wrong(name: str) -> None:
    schema, bad, reason = BAD[name]
    _, faults = cases.column_of(schema, [bad])
    assert list(faults) == [0]
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(faults[0])


def good_value(schema: Schema) -> bytes:
    kind = schema["type"] if isinstance(schema, dict) else "union" if isinstance(schema, list) else schema
    if kind == "record":
        return b"".join(good_value(field["type"]) for field in schema["fields"])
    if schema == DECIMAL:
        return b"\x02\x07"
    return {"double": b"\0" * 8, "boolean": b"\1", "string": b"\x02y", "bytes": b"\x02y", "int": b"\x08"}.get(
        kind, b"\0"
    )


def test_a_skipped_recursive_value_does_not_exhaust_the_stack() -> None:
    node = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    writer = record(skipped=node, kept="int")
    reader = record(kept="int")
    avro_values = Format.avro(json.dumps(reader), pa.field("", cases.type_of(reader)), framed=True)
    avro_values.add_schema(1, json.dumps(writer).encode())
    values = [b"\0\0\0\0\1" + b"\x02" * depth + b"\0\x0e" for depth in (0, 100, 1_000_000)]
    decoded = avro_values.decode(pa.array(values, pa.binary()))
    assert pa.array(decoded).to_pylist() == [{"kept": 7}, {"kept": 7}, {"kept": None}]
    assert [row for row, _ in decoded.faults] == [2]
    assert "records deep" in decoded.faults[0][1]


def test_a_skipped_array_is_limited_like_any_other() -> None:
    writer, reader = record(skipped=NULLS, kept="int"), record(kept="int")
    avro_values = Format.avro(json.dumps(reader), pa.field("", cases.type_of(reader)), framed=True)
    avro_values.add_schema(1, json.dumps(writer).encode())
    # The second value is in a block with a size, which is skipped whatever it holds.
    blocks = [varint(2**40) + b"\0", varint(-(2**40)) + b"\0\0"]
    decoded = avro_values.decode(pa.array([b"\0\0\0\0\1" + block + b"\x0e" for block in blocks], pa.binary()))
    assert pa.array(decoded).to_pylist() == [{"kept": None}, {"kept": 7}]


def test_claimed_sizes_take_no_memory() -> None:
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    schema = record(a={"type": "array", "items": "long"}, b="string", c={"type": "map", "values": "bytes"})
    claims = [varint(size) + b"\x02\0" for size in (2**20, 2**31, 2**40, 2**62)]
    column, faults = cases.column_of(schema, claims * 250)
    assert len(faults) == 1000
    assert column.nbytes < 100_000
    assert pool.bytes_allocated() - before < 2**24


@settings(max_examples=examples(400))
@given(st.data())
def test_damage_stays_in_its_row(data: st.DataObject) -> None:
    """Penstock accepts a damaged record only if Apache's library does, and both read the same."""
    schema, values = data.draw(cases.cases(logical=False))
    good = cases.written(schema, data.draw(values))
    damaged = data.draw(damage(good))
    column, faults = cases.column_of(schema, [good, damaged, good])
    assert faults.keys() <= {1}
    assert cases.alike(cases.plain(column[0].as_py()), cases.plain(column[2].as_py()))
    assert cases.alike(cases.plain(column[0].as_py()), cases.spark(schema, cases.read(schema, good)))
    row = cases.plain(column[1].as_py())
    if faults:
        assert len(faults[1]) < 300
        assert row is None or (set(row.values()) <= {None} and pa.types.is_struct(column.type))
    else:
        expected = cases.spark(schema, cases.read(schema, damaged))
        assert cases.alike(row, expected) or has_nan(expected), (row, expected)


@st.composite
def damage(draw: st.DrawFn, data: bytes) -> bytes:
    kind = draw(st.sampled_from(["cut", "flip", "insert", "remove", "any"]))
    at = draw(st.integers(0, max(len(data) - 1, 0)))
    some = draw(st.binary(min_size=1, max_size=10) | st.integers(-(2**63), 2**63 - 1).map(varint))
    match kind:
        case "cut":
            return data[:at]
        case "flip":
            return data[:at] + some[:1] + data[at + 1 :]
        case "insert":
            return data[:at] + some + data[at:]
        case "remove":
            return data[:at] + data[at + 1 :]
    return draw(st.binary(max_size=40))


def has_nan(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(has_nan, value.values()))
    if isinstance(value, list):
        return any(map(has_nan, value))
    return isinstance(value, float) and value != value


def test_one_bad_record_among_many_of_several_writers() -> None:
    schema = record(a="string", b=["null", "long"])
    avro_values = Format.avro(json.dumps(schema), pa.field("", cases.type_of(schema)), framed=True)
    for schema_id in (1, 2):
        avro_values.add_schema(schema_id, json.dumps(schema).encode())
    values = [
        b"\0" + (1 + at % 2).to_bytes(4, "big") + text(b"t%d" % at) + (b"\x02" + varint(at) if at % 3 else b"\0")
        for at in range(1000)
    ]
    values[123] = values[123][:-1]
    values[124] = b"\1" + values[124][1:]
    decoded = avro_values.decode(pa.array(values, pa.binary()))
    assert [row for row, _ in decoded.faults] == [123, 124]
    expected = [{"a": f"t{at}", "b": at if at % 3 else None} for at in range(1000)]
    expected[123] = expected[124] = {"a": None, "b": None}
    assert pa.array(decoded).to_pylist() == expected
    # And the next column starts empty.
    assert pa.array(avro_values.decode(pa.array(values[:3], pa.binary()))).to_pylist() == expected[:3]


def test_a_nested_error_has_its_path() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "string"}]}
    schema = record(a={"type": "map", "values": {"type": "array", "items": inner}})
    data = b"\x02" + text(b"key") + b"\x04" + text(b"ok") + text(b"\xff") + b"\0\0"
    _, faults = cases.column_of(schema, [data])
    assert faults == {0: "field a.key.[1].x: is not UTF-8 from byte 0 on"}
