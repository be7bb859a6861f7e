"""Avro into columns: equal to what Apache's library and fastavro decode, over random schemas, types as Spark's."""

from __future__ import annotations

import datetime
import io
import json
import uuid
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._kernel import Format, avro_type
from support import avro_cases as cases
from support.examples import examples


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    """A record out of (name, type) or whole fields."""
    whole = [field if isinstance(field, dict) else {"name": field[0], "type": field[1]} for field in fields]
    return {"type": "record", "name": name, "fields": whole, **more}


def framed(schema_id: int, schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()


def evolved(writer: Any, reader: Any, *values: Any) -> list[Any]:
    """Values written with one schema and read with another; faults fail."""
    avro_values = Format.avro(json.dumps(reader), pa.field("", cases.type_of(reader)), framed=True)
    avro_values.add_schema(7, json.dumps(writer).encode())
    decoded = avro_values.decode(pa.array([framed(7, writer, value) for value in values], pa.binary()))
    assert decoded.faults == []
    return pa.array(decoded).to_pylist()


# Types


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("null", pa.null()),
        ("boolean", pa.bool_()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("bytes", pa.binary()),
        ("string", pa.string()),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({"type": "fixed", "name": "F", "size": 3}, pa.binary()),
        ({"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}, pa.binary()),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.string()),
        ({"type": "int", "logicalType": "date"}, pa.date32()),
        ({"type": "int", "logicalType": "time-millis"}, pa.int32()),
        ({"type": "long", "logicalType": "time-micros"}, pa.int64()),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("us", tz="UTC")),
        ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us", tz="UTC")),
        ({"type": "long", "logicalType": "timestamp-nanos"}, pa.timestamp("us", tz="UTC")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("us")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, pa.decimal128(9, 2)),
        # A logical type that is not valid is none, says Avro's specification.
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 9}, pa.binary()),
        ({"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 9}, pa.binary()),
        ({"type": "string", "logicalType": "date"}, pa.string()),
        ({"type": "array", "items": "int"}, pa.list_(pa.field("element", pa.int32()))),
        ({"type": "map", "values": "int"}, pa.map_(pa.string(), pa.int32())),
        (["null", "int"], pa.int32()),
        (["int"], pa.int32()),
        (["int", "null", "long"], pa.int64()),
        (["double", "float"], pa.float64()),
        (["null", "int", "string"], pa.struct([("member0", pa.int32()), ("member1", pa.string())])),
        (record(("a", "int"), ("b", ["null", "string"])), pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ],
    ids=str,
)
def test_types_are_those_of_from_avro(schema: Any, expected: pa.DataType) -> None:
    assert cases.type_of(schema).equals(expected, check_metadata=True)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "is not JSON"),
        ('{"type": "record", "name": "R"}', "without fields"),
        ('{"type": "array"}', "without items"),
        ('"Unknown"', "Unknown"),
        ('["int", "int"]', "two branches of type int"),
        ('["int", ["null", "long"]]', "union right inside a union"),
        (json.dumps(record(("next", ["null", "R"]))), "field next: record R contains itself"),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 39}', "38 digits"),
        ('{"type": "array", "items": ' * 5000 + '"int"' + "}" * 5000, "deep"),
        ("[" * 100_000, "the Avro schema"),
    ],
    ids=lambda text: text[:30],
)
def test_a_schema_that_makes_no_column_is_refused_with_the_reason(schema: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        avro_type(schema)


def test_references_that_multiply_are_refused() -> None:
    inner: Any = record(("a", "int"), name="R0")
    for level in range(1, 40):
        inner = record(("a", inner), ("b", f"R{level - 1}"), name=f"R{level}")
    with pytest.raises(ValueError, match="more than 20000 types"):
        cases.type_of(inner)


def test_names_are_found_in_their_namespace() -> None:
    inner = {"type": "fixed", "name": "F", "size": 1}
    schema = record(("a", inner), ("b", "x.y.F"), ("c", "F"), name="R", namespace="x.y")
    assert cases.type_of(schema).field("c").type == pa.binary()


# Values


@settings(max_examples=examples(250))
@given(st.data())
def test_a_column_is_what_apaches_library_decodes(data: st.DataObject) -> None:
    schema, values = data.draw(cases.cases())
    written = [cases.written(schema, value) for value in data.draw(st.lists(values, min_size=1, max_size=4))]
    column, faults = cases.column_of(schema, [*written, None])
    assert faults == {}
    *rows, last = map(cases.plain, column.to_pylist())
    for row, data_ in zip(rows, written, strict=True):
        expected = cases.spark(schema, cases.read(schema, data_))
        assert cases.alike(row, expected), (row, expected)
    assert last is None


def test_logical_types_are_what_fastavro_decodes() -> None:
    moment = datetime.datetime(2024, 2, 28, 23, 59, 59, 123000)
    values = {
        "local-timestamp-millis": moment,
        "local-timestamp-micros": moment.replace(microsecond=123456),
        "timestamp-millis": moment.replace(year=1906, tzinfo=datetime.UTC),
        "timestamp-micros": moment.replace(year=9999, microsecond=999999, tzinfo=datetime.UTC),
    }
    schema = record(*[(name.replace("-", "_"), {"type": "long", "logicalType": name}) for name in values])
    fields = {name.replace("-", "_"): value for name, value in values.items()}
    assert evolved(schema, schema, fields) == [fields]


def test_a_uuid_is_its_text() -> None:
    schema = {"type": "string", "logicalType": "uuid"}
    value = uuid.UUID("12345678-1234-5678-1234-567812345678")
    assert evolved(schema, schema, value) == [str(value)]


def test_nanoseconds_are_cut_towards_the_past() -> None:
    schema = {"type": "long", "logicalType": "timestamp-nanos"}
    column, _ = cases.column_of(schema, [cases.written("long", value) for value in (1999, 0, -1)])
    assert column.cast(pa.int64()).to_pylist() == [1, 0, -1]


def test_a_decimal_may_have_more_bytes_than_digits() -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 1}
    wide = [value.to_bytes(40, "big", signed=True) for value in (10**38 - 1, 1 - 10**38, -1)]
    column, faults = cases.column_of(schema, [cases.written("bytes", value) for value in wide])
    assert faults == {}
    assert [str(value) for value in column.to_pylist()] == [f"{'9' * 37}.9", f"-{'9' * 37}.9", "-0.1"]


def test_a_map_keeps_keys_and_nulls() -> None:
    schema = {"type": "map", "values": ["null", "int"]}
    value = {"a": 1, "": None, "ü": -1}
    column, _ = cases.column_of(schema, [cases.written(schema, value), cases.written(schema, {})])
    assert [dict(row) for row in column.to_pylist()] == [value, {}]


def test_a_wide_fixed_that_is_null_takes_no_room() -> None:
    schema = record(("a", ["null", {"type": "fixed", "name": "F", "size": 100_000}]), ("b", "int"))
    rows = [{"a": None, "b": at} for at in range(1000)]
    rows[500]["a"] = b"x" * 100_000
    column, _ = cases.column_of(schema, [cases.written(schema, row) for row in rows])
    assert column.to_pylist() == rows
    assert column.nbytes < 200_000


# Only what is wanted


NESTED = record(
    ("id", "long"),
    ("skipped", {"type": "array", "items": {"type": "map", "values": "string"}}),
    ("list", {"type": "array", "items": record(("a", "int"), ("b", "string"), ("c", "double"), name="Item")}),
    ("either", ["null", "string", record(("x", "int"), ("y", "int"), name="Point")]),
    ("last", "boolean"),
)
ROWS = [
    {
        "id": at,
        "skipped": [{"key": "value"}] * at,
        "list": [{"a": item, "b": "b" * item, "c": 0.5} for item in range(at)],
        "either": [None, "text", {"x": at, "y": -at}][at % 3],
        "last": bool(at % 2),
    }
    for at in range(7)
]


def test_only_what_is_wanted_is_built_in_the_order_it_is_wanted() -> None:
    wanted = pa.struct(
        [
            ("last", pa.bool_()),
            ("either", pa.struct([("member1", pa.struct([("y", pa.int32())]))])),
            ("list", pa.list_(pa.field("element", pa.struct([("c", pa.float64()), ("a", pa.int32())])))),
        ]
    )
    column, faults = cases.column_of(NESTED, [cases.written(NESTED, row) for row in ROWS], wanted)
    assert faults == {}
    assert column.type.equals(wanted)
    members = [None, {"member1": None}, {"member1": {"y": None}}]
    for row, got in zip(ROWS, column.to_pylist(), strict=True):
        either: Any = members[row["id"] % 3]
        if row["id"] % 3 == 2:
            either = {"member1": {"y": -row["id"]}}
        items = [{"c": item["c"], "a": item["a"]} for item in row["list"]]
        assert got == {"last": row["last"], "either": either, "list": items}


@settings(max_examples=examples(60))
@given(st.data())
def test_a_part_is_the_same_part_of_the_whole(data: st.DataObject) -> None:
    schema, values = data.draw(cases.cases(kind="record"))
    written = [cases.written(schema, value) for value in data.draw(st.lists(values, min_size=1, max_size=3))]
    whole, _ = cases.column_of(schema, written)
    names = data.draw(st.permutations([field.name for field in whole.type]))
    names = names[: data.draw(st.integers(0, len(names)))]
    part, faults = cases.column_of(schema, written, pa.struct([whole.type.field(name) for name in names]))
    assert faults == {}
    assert part.to_pylist() == [{name: row[name] for name in names} for row in whole.to_pylist()]


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (pa.struct([("id", pa.int32())]), "field id: is of type Int64, not Int32"),
        (pa.struct([("nothing", pa.int32())]), "field nothing: is not in the reader's schema"),
        (
            pa.struct([("list", pa.list_(pa.field("element", pa.struct([("b", pa.binary())]))))]),
            "field list.element.b: is of type Utf8, not Binary",
        ),
        (pa.int64(), "not Int64"),
    ],
    ids=["leaf", "name", "nested", "whole"],
)
def test_what_the_schema_does_not_have_cannot_be_wanted(wanted: pa.DataType, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Format.avro(json.dumps(NESTED), pa.field("", wanted))


# Another schema than the reader's


@pytest.mark.parametrize(
    ("writer", "reader", "value"),
    [
        ("int", "long", -(2**31)),
        ("int", "float", 16777217),
        ("int", "double", 2**31 - 1),
        ("long", "float", 2**62 + 1),
        ("long", "double", 2**62 + 1),
        ("float", "double", 0.10000000149011612),
        ("string", "bytes", "größe"),
        ("bytes", "string", "größe".encode()),
        ("int", ["null", "int"], 1),
        ("int", ["string", "long"], 1),
        ("int", ["long", "null", "int"], 1),
        (["null", "int"], "int", 1),
        (["null", "int"], ["long", "null"], None),
        (["int", "string"], ["string", "null", "long"], 1),
        (["int", "string", "null"], ["string", "null", "boolean"], "x"),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "double"}, [1, 2]),
        ({"type": "map", "values": ["int", "null"]}, {"type": "map", "values": ["null", "long"]}, {"a": 1, "b": None}),
    ],
    ids=str,
)
def test_promotions_are_those_of_fastavro(writer: Any, reader: Any, value: Any) -> None:
    (row,) = evolved(writer, reader, value)
    out = io.BytesIO(framed(7, writer, value)[5:])
    expected = fastavro.schemaless_reader(out, writer, reader)
    branches = [branch for branch in reader if branch != "null"] if isinstance(reader, list) else [reader]
    if len(branches) == 2 and set(branches) != {"int", "long"}:
        python = {str: "string", int: "long", bool: "boolean"}[type(expected)]
        assert row == {f"member{at}": expected if branch == python else None for at, branch in enumerate(branches)}
    elif reader == "float":
        assert row == pa.scalar(expected, pa.float32()).as_py()
    else:
        assert cases.plain([row]) == [expected]


def test_fields_are_added_removed_renamed_and_in_another_order() -> None:
    writer = record(("gone", {"type": "array", "items": "string"}), ("a", "int"), ("old", "string"), ("b", "double"))
    reader = record(
        ("b", "double"),
        {"name": "new", "type": "string", "aliases": ["older", "old"]},
        {"name": "list", "type": {"type": "array", "items": "int"}, "default": [1, 2]},
        {"name": "map", "type": {"type": "map", "values": "long"}, "default": {"k": 5}},
        {"name": "both", "type": ["null", "string"], "default": None},
        {"name": "text", "type": ["string", "null"], "default": "none"},
        {"name": "bytes", "type": "bytes", "default": "\u00ff\u0000"},
        {
            "name": "point",
            "type": record(("x", "int"), {"name": "y", "type": "float", "default": 1.5}, name="P"),
            "default": {"x": 3},
        },
        {"name": "day", "type": {"type": "int", "logicalType": "date"}, "default": 1},
        {"name": "color", "type": {"type": "enum", "name": "C", "symbols": ["RED", "BLUE"]}, "default": "BLUE"},
        {
            "name": "money",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            "default": "\u0001\u0000",
        },
        ("a", "long"),
    )
    rows = evolved(writer, reader, *[{"gone": ["x"] * at, "a": at, "old": f"t{at}", "b": 0.5} for at in range(3)])
    for at, row in enumerate(rows):
        assert list(row) == [field["name"] for field in reader["fields"]]
        assert row == {
            "b": 0.5,
            "new": f"t{at}",
            "list": [1, 2],
            "map": [("k", 5)],
            "both": None,
            "text": "none",
            "bytes": b"\xff\0",
            "point": {"x": 3, "y": 1.5},
            "day": datetime.date(1970, 1, 2),
            "color": "BLUE",
            "money": Decimal("2.56"),
            "a": at,
        }


def test_a_symbol_that_the_reader_does_not_know_is_its_default_or_a_fault() -> None:
    writer = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
    reader = {"type": "enum", "name": "E", "symbols": ["C", "A"]}
    assert evolved(writer, {**reader, "default": "C"}, "A", "B", "C") == ["A", "C", "C"]
    avro_values = Format.avro(json.dumps(reader), pa.field("", pa.string()), framed=True)
    avro_values.add_schema(1, json.dumps(writer).encode())
    decoded = avro_values.decode(pa.array([framed(1, writer, symbol) for symbol in "ABC"], pa.binary()))
    assert pa.array(decoded).to_pylist() == ["A", None, "C"]
    assert decoded.faults == [(1, 'is the symbol "B", which the reader\'s enum does not have')]


@pytest.mark.parametrize(
    ("writer", "reader", "reason"),
    [
        (record(("a", "string")), record(("a", "int")), "field a: was written as string, which cannot be read as int"),
        (record(("a", "int")), record(("b", "int")), "field b: is not in the writer's schema, and has no default"),
        (record(("a", "long")), record(("a", "int")), "field a: was written as long"),
        (
            record(("a", {"type": "array", "items": record(("x", "string"), name="I")})),
            record(("a", {"type": "array", "items": record(("x", "boolean"), name="I")})),
            "field a.element.x: was written as string",
        ),
        (
            record(("a", {"type": "fixed", "name": "F", "size": 4})),
            record(("a", {"type": "fixed", "name": "F", "size": 5})),
            "field a: was written as fixed F of 4 bytes",
        ),
        (record(("a", ["null", "string"])), record(("a", ["null", "int"])), "field a: was written as string"),
        (
            record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})),
            record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3})),
            r"field a: was written as decimal\(9,2\), which cannot be read as decimal\(9,3\)",
        ),
        (
            record(("a", {"type": "int", "logicalType": "date"})),
            record(("a", {"type": "int", "logicalType": "time-millis"})),
            "field a: was written as int .date.",
        ),
        (
            record(("a", "int")),
            record({"name": "b", "type": "int", "default": "x"}),
            "field b: its default .x. is not of type int",
        ),
        ({"type": "array", "items": "int"}, record(("a", "int")), "was written as array"),
        ("nonsense", "int", "nonsense"),
    ],
    ids=lambda value: None if isinstance(value, dict) else value[:24],
)
def test_a_writers_schema_that_does_not_fit_is_refused_when_it_is_added(writer: Any, reader: Any, reason: str) -> None:
    avro_values = Format.avro(json.dumps(reader), pa.field("", cases.type_of(reader)), framed=True)
    with pytest.raises(ValueError, match=reason):
        avro_values.add_schema(1, json.dumps(writer).encode())
    assert avro_values.decode(pa.array([b"\0\0\0\0\1"], pa.binary())).unknown_schemas == [1]


def test_timestamps_of_another_unit_stay_the_same_moment() -> None:
    def kind(unit: str) -> dict[str, str]:
        return {"type": "long", "logicalType": f"timestamp-{unit}"}

    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 678000, tzinfo=datetime.UTC)
    assert evolved(kind("millis"), kind("micros"), moment) == [moment]
    assert evolved(kind("micros"), kind("millis"), moment) == [moment]


def test_a_recursive_field_of_the_writer_is_skipped_if_the_reader_has_it_not() -> None:
    tree = record(("value", "int"), ("children", {"type": "array", "items": "Tree"}), name="Tree")
    writer = record(("before", "string"), ("tree", tree), ("after", "string"))
    reader = record(("after", "string"), ("before", "string"))
    leaf = {"value": 1, "children": []}
    value = {"before": "b", "tree": {"value": 2, "children": [leaf, {"value": 3, "children": [leaf]}]}, "after": "a"}
    assert evolved(writer, reader, value) == [{"after": "a", "before": "b"}]


def test_rows_of_several_writers_stay_in_order() -> None:
    writers = {
        1: record(("a", "int")),
        2: record(("b", "string"), ("a", "long")),
        3: record(("a", ["null", "int"]), ("c", {"type": "array", "items": "int"})),
    }
    reader = record(("a", ["null", "long"]), {"name": "b", "type": "string", "default": "?"})
    avro_values = Format.avro(json.dumps(reader), pa.field("", cases.type_of(reader)), framed=True)
    order = [1, 1, 2, 3, 0, 1, 3, 9, 2, 2, 1, 0]
    values: list[bytes | None] = []
    expected: list[Any] = []
    for at, writer in enumerate(order):
        if writer in (0, 9):
            values.append(None if writer == 0 else b"\0\0\0\0\x09")
            expected.append(None if writer == 0 else {"a": None, "b": None})
            continue
        values.append(framed(writer, writers[writer], {"a": at, "b": f"b{at}", "c": [at] * at}))
        expected.append({"a": at, "b": f"b{at}" if writer == 2 else "?"})
    column = pa.array(values, pa.binary())
    assert avro_values.decode(column).unknown_schemas == [1, 2, 3, 9]
    for schema_id, schema in writers.items():
        avro_values.add_schema(schema_id, json.dumps(schema).encode())
    assert avro_values.decode(column).unknown_schemas == [9]
    avro_values.refuse_schema(9, "no such schema")
    decoded = avro_values.decode(column)
    assert pa.array(decoded).to_pylist() == expected
    assert decoded.faults == [(7, "no such schema")]


# Random schemas, evolved at random


@st.composite
def evolutions(draw: st.DrawFn, schema: Any, depth: int = 0) -> Any:
    """A reader's schema that can read what was written with this one, by the rules of Avro."""
    wider = {
        "int": ["int", "long", "float", "double"],
        "long": ["long", "float", "double"],
        "float": ["float", "double"],
    }
    if isinstance(schema, str):
        return draw(st.sampled_from(wider.get(schema, [schema])))
    if isinstance(schema, list):
        # Of unions, only those with null: which of two branches a promoted number belongs to is a library's choice.
        if len(schema) == 2 and "null" in schema:
            inner = [branch if branch == "null" else draw(evolutions(branch, depth + 1)) for branch in schema]
            return inner if draw(st.booleans()) else inner[::-1]
        return schema
    kind = schema["type"]
    if kind == "record":
        fields = []
        for field in schema["fields"]:
            change = draw(st.sampled_from(["keep", "keep", "keep", "drop", "rename"]))
            evolved = {**field, "type": draw(evolutions(field["type"], depth + 1))}
            if change == "rename":
                evolved |= {"name": field["name"] + "_new", "aliases": [field["name"]]}
            if change != "drop":
                fields.append(evolved)
        if draw(st.booleans()):
            kind, default = draw(
                st.sampled_from([("int", 7), (["null", "long"], None), ("string", "d"), ("double", 0.5)])
            )
            fields.append({"name": "added", "type": kind, "default": default})
        return {**schema, "fields": draw(st.permutations(fields))}
    if kind == "array":
        return {**schema, "items": draw(evolutions(schema["items"], depth + 1))}
    if kind == "map":
        return {**schema, "values": draw(evolutions(schema["values"], depth + 1))}
    if kind == "enum":
        symbols = [*schema["symbols"][1:], "OTHER"]
        return {**schema, "symbols": symbols, "default": "OTHER"}
    return schema


@settings(max_examples=examples(200))
@given(st.data())
def test_an_evolved_column_is_what_fastavro_decodes(data: st.DataObject) -> None:
    writer, values = data.draw(cases.cases(kind="record", union_kinds=cases.UNLIKE_KINDS))
    reader = data.draw(evolutions(writer))
    avro_values = Format.avro(json.dumps(reader), pa.field("", cases.type_of(reader)), framed=True)
    avro_values.add_schema(5, json.dumps(writer).encode())
    # Avro's own library writes: fastavro takes the first branch of a union that would do.
    bodies = [cases.written(writer, value) for value in data.draw(st.lists(values, min_size=1, max_size=3))]
    decoded = avro_values.decode(pa.array([b"\0\0\0\0\5" + body for body in bodies], pa.binary()))
    assert decoded.faults == []
    column = pa.array(decoded)
    column.validate(full=True)
    for row, body in zip(column.to_pylist(), bodies, strict=True):
        value = fastavro.schemaless_reader(
            io.BytesIO(body), fastavro.parse_schema(writer), fastavro.parse_schema(reader)
        )
        expected = cases.spark(reader, value)
        assert cases.alike(cases.plain(row), as_floats(reader, expected)), (row, expected)


def as_floats(schema: Any, value: Any) -> Any:
    """fastavro leaves an int that is read as float an int, and a float of 32 bits one of 64."""
    if value is None or isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"] if isinstance(schema, list) else []
        return as_floats(branches[0], value) if len(branches) == 1 and value is not None else value
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "float":
        return (
            pa.scalar(value, pa.float64()).cast(pa.float32()).as_py() if isinstance(value, float) else as_float(value)
        )
    if kind == "double":
        return float(value)
    if kind == "record":
        return {field["name"]: as_floats(field["type"], value[field["name"]]) for field in schema["fields"]}
    if kind == "array":
        return [as_floats(schema["items"], item) for item in value]
    if kind == "map":
        return {key: as_floats(schema["values"], item) for key, item in value.items()}
    return value


def as_float(value: int) -> float:
    return float(pa.array([value], pa.int64()).cast(pa.float32(), safe=False)[0].as_py())
