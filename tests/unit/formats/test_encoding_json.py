"""Columns into JSON: read back by the kernel and by Python, and byte for byte what Spark's `to_json` writes."""

from __future__ import annotations

import base64
import datetime
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock._kernel import Format, FormatEncoder
from support.examples import examples
from support.typed_columns import columns

UTC = "UTC"


def encode(array: pa.Array, **options: Any) -> list[str | None]:
    encoded = FormatEncoder.json(pa.field("", array.type), **options).encode(array)
    assert encoded.faults == []
    return [None if each is None else each.decode() for each in pa.array(encoded).to_pylist()]


def one(type_: pa.DataType, value: Any, **options: Any) -> str:
    """The text of one value."""
    [text] = encode(pa.array([{"v": value}], pa.struct([("v", type_)])), **options)
    assert text is not None
    return text.removeprefix('{"v":').removesuffix("}")


@given(columns(millis=True))
@settings(max_examples=examples(300))
def test_W2_the_kernel_reads_back_what_it_wrote(column: pa.StructArray) -> None:
    for ignore in (True, False):
        encoded = FormatEncoder.json(pa.field("", column.type), ignore_null_fields=ignore).encode(column)
        decoded = Format.json(pa.field("", column.type)).decode(pa.array(encoded))
        assert decoded.faults == encoded.faults == []
        assert pa.array(decoded).equals(column)


@given(columns())
def test_W2_every_document_is_json_and_a_null_is_no_document(column: pa.StructArray) -> None:
    for text, row in zip(encode(column), column.to_pylist(), strict=True):
        if row is None:
            assert text is None
        else:
            assert json.loads(text).keys() == {name for name, value in row.items() if value is not None}


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (pa.float64(), 1.0, "1.0"),
        (pa.float64(), 1e7, "1.0E7"),
        (pa.float64(), 0.0001, "1.0E-4"),
        (pa.float64(), 5e-324, "4.9E-324"),
        (pa.float64(), math.nan, '"NaN"'),
        (pa.float64(), -math.inf, '"-Infinity"'),
        (pa.float32(), math.inf, '"Infinity"'),
        (pa.float32(), 0.1, "0.1"),
        (pa.decimal128(10, 2), Decimal("-1.50"), "-1.50"),
        (pa.decimal128(38, 18), Decimal(0), "0E-18"),
        (pa.binary(), b"\x00\xff", f'"{base64.b64encode(bytes([0, 255])).decode()}"'),
        (pa.date32(), datetime.date(2024, 2, 29), '"2024-02-29"'),
        (pa.date32(), 2932897, '"+10000-01-01"'),
        (pa.timestamp("us", UTC), 1_720_000_000_123_456, '"2024-07-03T09:46:40.123Z"'),
        (pa.timestamp("us", "Europe/Berlin"), 1_720_000_000_123_456, '"2024-07-03T11:46:40.123+02:00"'),
        (pa.timestamp("us"), -1, '"1969-12-31T23:59:59.999"'),
        (pa.string(), 'ü"\\/\n\x01\x7f', '"ü\\"\\\\/\\n\\u0001\x7f"'),
        (pa.list_(pa.int8()), [1, None, -128], "[1,null,-128]"),
        (pa.list_(pa.list_(pa.int8())), [[], [1]], "[[],[1]]"),
        (pa.map_(pa.string(), pa.int32()), [("a", 1), ("b", None)], '{"a":1,"b":null}'),
        (pa.map_(pa.int64(), pa.string()), [(-5, "x")], '{"-5":"x"}'),
        (pa.map_(pa.bool_(), pa.string()), [(True, "x")], '{"true":"x"}'),
        (pa.struct([("x", pa.int64()), ("y", pa.int64())]), {"x": None, "y": 2}, '{"y":2}'),
        (pa.struct([("x", pa.int64())]), {"x": None}, "{}"),
    ],
    ids=str,
)
def test_W2_values_are_written_as_to_json_writes_them(type_: pa.DataType, value: Any, expected: str) -> None:
    assert one(type_, value) == expected


def test_W2_a_zone_that_is_given_wins_over_the_columns() -> None:
    berlin = pa.timestamp("us", "Europe/Berlin")
    assert one(berlin, 0, time_zone="+05:30") == '"1970-01-01T05:30:00.000+05:30"'
    assert one(pa.timestamp("us"), 0, time_zone="+05:30") == '"1970-01-01T00:00:00.000"'


def test_W2_null_fields_are_left_out_unless_asked_for() -> None:
    column = pa.array(
        [{"a": None, "b": {"c": None}}], pa.struct([("a", pa.int8()), ("b", pa.struct([("c", pa.int8())]))])
    )
    assert encode(column) == ['{"b":{}}']
    assert encode(column, ignore_null_fields=False) == ['{"a":null,"b":{"c":null}}']


def test_W2_the_id_of_a_schema_comes_before_a_document_and_not_before_a_null() -> None:
    column = pa.array([{"a": 1}, None], pa.struct([("a", pa.int8())]))
    encoded = FormatEncoder.json(pa.field("", column.type), schema_id=258).encode(column)
    assert pa.array(encoded).to_pylist() == [b'\x00\x00\x00\x01\x02{"a":1}', None]


def test_W2_slices_are_encoded_alone() -> None:
    rows = [{"a": str(number), "b": list(range(number))} for number in range(6)]
    column = pa.array(rows, pa.struct([("a", pa.string()), ("b", pa.list_(pa.int8()))]))
    assert encode(column.slice(2, 3)) == encode(column)[2:5]


@pytest.mark.parametrize(
    ("type_", "reason"),
    [
        (pa.int8(), "must be a struct, an array or a map"),
        (pa.struct([("a", pa.struct([("b", pa.duration("us"))]))]), "field a.b: JSON cannot hold"),
        (pa.struct([("a", pa.map_(pa.date32(), pa.int8()))]), "field a: .*strings, numbers or booleans"),
        (pa.struct([("a", pa.list_(pa.timestamp("us", "Nowhere/Land")))]), "field a.element: Nowhere/Land"),
    ],
)
def test_W2_types_that_json_does_not_have_are_refused_with_their_path(type_: pa.DataType, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        FormatEncoder.json(pa.field("", type_))


def test_a_column_of_another_type_is_refused() -> None:
    encoder = FormatEncoder.json(pa.field("", pa.struct([("a", pa.int8())])))
    with pytest.raises(ValueError, match="the column is"):
        encoder.encode(pa.array([{"a": 1}], pa.struct([("a", pa.int16())])))
