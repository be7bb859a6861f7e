"""JSON into typed columns: any value of any schema comes back as it went in, however it was written."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._kernel import Format

Draw = Callable[[st.SearchStrategy[Any]], Any]

INTEGERS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
SCALARS = [
    *INTEGERS,
    pa.bool_(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us", tz="UTC"),
    pa.timestamp("us"),
    pa.decimal128(10, 2),
    pa.decimal128(38, 18),
    pa.decimal128(5, 0),
]
# Arrow hands names over as C strings, which end at a zero.
LETTERS = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
NAMES = st.sampled_from(["a", "b", "id", "größe", 'quo"te', "back\\slash", ""]) | st.text(LETTERS, max_size=30)


def structs(children: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.lists(st.tuples(NAMES, children), min_size=1, max_size=5, unique_by=lambda field: field[0])
    return fields.map(lambda fields: pa.struct([pa.field(name, kind) for name, kind in fields]))


def nested(children: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    lists = children.map(lambda kind: pa.list_(pa.field("element", kind)))
    maps = children.map(lambda kind: pa.map_(pa.string(), kind))
    return st.one_of(structs(children), lists, maps)


TYPES = structs(st.recursive(st.sampled_from(SCALARS), nested, max_leaves=6))


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """What `to_pylist` makes of a column of this type."""
    if pa.types.is_struct(kind):
        fields = {kind.field(at).name: st.none() | values(kind.field(at).type) for at in range(kind.num_fields)}
        return st.fixed_dictionaries(fields)
    if pa.types.is_list(kind):
        return st.lists(st.none() | values(kind.value_type), max_size=4)
    if pa.types.is_map(kind):
        return st.lists(st.tuples(st.text(max_size=5), st.none() | values(kind.item_type)), max_size=4)
    if pa.types.is_decimal(kind):
        largest = 10**kind.precision - 1
        return st.integers(-largest, largest).map(lambda digits: Decimal(f"{digits}e-{kind.scale}"))
    if kind in INTEGERS:
        bits = INTEGERS[kind]
        return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    zone = UTC if pa.types.is_timestamp(kind) and kind.tz else None
    return {
        pa.bool_(): st.booleans(),
        pa.float32(): st.floats(width=32, allow_nan=False),
        pa.float64(): st.floats(allow_nan=False),
        pa.string(): st.text(),
        pa.binary(): st.binary(),
        pa.date32(): st.dates(),
        pa.timestamp("us", tz="UTC"): st.datetimes().map(lambda moment: moment.replace(tzinfo=zone)),
        pa.timestamp("us"): st.datetimes(),
    }[kind]


def written(value: Any, kind: pa.DataType, draw: Draw) -> str:  # noqa: C901 - one branch for each type of Spark
    """`value` in one of the ways that JSON has."""
    blank = draw(st.sampled_from(["", "", "", " ", "\n\t  "]))
    if value is None:
        return "null"
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in draw(st.permutations(range(kind.num_fields)))]
        parts = []
        for field in fields:
            if value[field.name] is not None or draw(st.booleans()):
                parts.append((field.name, written(value[field.name], field.type, draw)))
        known = {field.name for field in fields}
        if (unknown := draw(NAMES)) not in known and draw(st.booleans()):
            skipped = draw(
                st.sampled_from(['{"a":[1,"]}",{}]}', "[[],[[]]]", '"\\"\\u00e9"', "-1.5e-7", "null", "true"])
            )
            parts.insert(draw(st.integers(0, len(parts))), (unknown, skipped))
        inner = f",{blank}".join(f"{text(name, draw)}{blank}:{blank}{part}" for name, part in parts)
        return f"{{{blank}{inner}{blank}}}"
    if pa.types.is_map(kind):
        inner = f"{blank},".join(
            f"{text(key, draw)}:{blank}{written(item, kind.item_type, draw)}" for key, item in value
        )
        return f"{{{inner}{blank}}}"
    if pa.types.is_list(kind):
        inner = f"{blank},".join(written(element, kind.value_type, draw) for element in value)
        return f"[{blank}{inner}{blank}]"
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(str(value).replace("inf", "Infinity"))
    if isinstance(value, Decimal):
        return f"{value:f}" if draw(st.booleans()) else text(str(value), draw)
    if isinstance(value, bytes):
        return text(base64.b64encode(value).decode(), draw)
    if isinstance(value, datetime):
        return text(value.isoformat(sep=draw(st.sampled_from(" T"))), draw)
    if isinstance(value, date):
        return text(value.isoformat(), draw)
    if isinstance(value, str):
        return text(value, draw)
    return repr(value)


def text(value: str, draw: Draw) -> str:
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


def decoded(kind: pa.DataType, documents: list[bytes | None]) -> tuple[list[Any], list[tuple[int, str]]]:
    result = Format.json(pa.field("", kind)).decode(pa.array(documents, pa.binary()))
    column = pa.array(result)
    column.validate(full=True)
    assert column.type.equals(kind)
    return column.to_pylist(), result.faults


@given(st.data())
def test_what_was_written_is_read(data: st.DataObject) -> None:
    kind = data.draw(TYPES)
    rows = data.draw(st.lists(st.none() | values(kind), max_size=5))
    documents = [None if row is None else written(row, kind, data.draw).encode() for row in rows]
    for document in filter(None, documents):
        json.loads(document)  # the test's own writing is JSON
    found, faults = decoded(kind, documents)
    assert faults == []
    assert found == rows
    assert repr(found) == repr(pa.array(rows, kind).to_pylist())  # the sign of a zero


@given(st.data())
def test_what_is_not_wanted_is_not_built(data: st.DataObject) -> None:
    kind = data.draw(TYPES)
    row = data.draw(values(kind))
    document = written(row, kind, data.draw).encode()
    wanted = data.draw(st.lists(st.sampled_from([kind.field(at) for at in range(kind.num_fields)]), unique=True))
    found, faults = decoded(pa.struct(wanted), [document])
    assert faults == []
    expected = [{field.name: row[field.name] for field in wanted}]
    assert repr(found) == repr(pa.array(expected, pa.struct(wanted)).to_pylist())


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_is_the_double_that_python_reads(number: float) -> None:
    written = json.dumps(number)
    kind = pa.struct([pa.field("double", pa.float64()), pa.field("float", pa.float32())])
    found, faults = decoded(kind, [f'{{"double":{written},"float":{written}}}'.encode()])
    assert faults == []
    try:
        double = float(written)
        single = struct.unpack("f", struct.pack("f", double))[0]
    except OverflowError:  # beyond the largest float
        single = math.copysign(math.inf, double)
    # Through a double, Python may round twice; the kernel does not.
    assert repr(found[0]["double"]) == repr(double)
    assert found[0]["float"] == single or math.isclose(found[0]["float"], single, rel_tol=2**-23, abs_tol=2**-149)


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_half_a_surrogate_pair_is_a_question_mark_as_in_java(value: str) -> None:
    document = f'{{"skipped":{json.dumps(value)},"text":{json.dumps(value)}}}'.encode()
    found, faults = decoded(pa.struct([pa.field("text", pa.string())]), [document])
    assert faults == []
    joined = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert found[0]["text"].replace("?", "\ufffd") == joined.replace("?", "\ufffd")


def test_surrogates_are_escaped_in_a_text_that_is_the_json_of_a_value_as_in_java() -> None:
    document = r'{"v":{"😀":"\ud83d\ude00é\/","\uDE00":["\ud83dx","\u0022\u000a\u001f"]}}'.encode()
    decoded = Format.json(pa.field("", pa.struct([("v", pa.string())]))).decode(pa.array([document]))
    written = r'{"\uD83D\uDE00":"\uD83D\uDE00é/","\uDE00":["\uD83Dx","\"\n\u001F"]}'
    assert pa.array(decoded).to_pylist() == [{"v": written}]


@pytest.mark.parametrize(
    ("zone", "text", "micros"),
    [
        ("UTC", "2024-07-01T12:00:00", 1_719_835_200_000_000),
        ("Europe/Berlin", "2024-07-01T12:00:00", 1_719_828_000_000_000),
        ("+05:30", "2024-07-01T12:00:00", 1_719_815_400_000_000),
        ("Europe/Berlin", "2024-07-01T12:00:00Z", 1_719_835_200_000_000),
        # A clock put forward leaves an hour out, one put back shows it twice.
        ("Europe/Berlin", "2024-03-31T02:30:00", 1_711_848_600_000_000),
        ("Europe/Berlin", "2024-10-27T02:30:00", 1_729_989_000_000_000),
        # Far beyond the tables of transitions.
        ("Europe/Berlin", "2424-07-01T12:00:00", 1_719_828_000_000_000 + 146_097 * 86_400_000_000),
        ("Europe/Berlin", "12424-07-01T12:00:00", 1_719_828_000_000_000 + 26 * 146_097 * 86_400_000_000),
    ],
)
def test_a_timestamp_without_zone_is_of_the_given_one(zone: str, text: str, micros: int) -> None:
    wanted = pa.field("", pa.struct([pa.field("at", pa.timestamp("us", tz="UTC"))]))
    result = Format.json(wanted, time_zone=zone).decode(pa.array([f'{{"at":"{text}"}}'.encode()], pa.binary()))
    assert result.faults == []
    assert pa.array(result).field("at").view(pa.int64()).to_pylist() == [micros]


@pytest.mark.parametrize(
    ("kind", "zone", "reason"),
    [
        (pa.int64(), "UTC", "must be a struct, an array or a map"),
        (pa.struct([pa.field("a", pa.duration("us"))]), "UTC", "value.a: JSON cannot carry"),
        (pa.struct([pa.field("a", pa.map_(pa.int32(), pa.string()))]), "UTC", "keys of a map must be strings"),
        (pa.struct([pa.field("a", pa.int32())]), "Europe/Nowhere", "Europe/Nowhere is not a time zone"),
    ],
)
def test_what_json_cannot_carry_is_refused_with_a_reason(kind: pa.DataType, zone: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Format.json(pa.field("", kind), time_zone=zone)


def test_a_variant_is_refused_with_a_way_out() -> None:
    metadata = pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"})
    variant = pa.struct([pa.field("value", pa.binary(), nullable=False), metadata])
    with pytest.raises(ValueError, match=r"value\.v: a variant cannot be read from JSON; take a string"):
        Format.json(pa.field("", pa.struct([pa.field("v", variant)])))
