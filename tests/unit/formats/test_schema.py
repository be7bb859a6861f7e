"""Schemas as texts. What Spark itself makes of them is held against this in tests/spark/test_schema_texts.py."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.schema import ddl_of, parse_schema
from penstock.model.types import list_type, map_type, spark_type, struct_type

NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
LEAVES = st.sampled_from(
    [
        *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()),
        *(pa.binary(), pa.date32(), pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.decimal128(10, 2)),
    ]
)


def structs(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.dictionaries(NAMES, inner, min_size=1, max_size=4).map(struct_type)


TYPES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(list_type), st.tuples(LEAVES, inner).map(lambda kv: map_type(*kv)), structs(inner)
    ),
    max_leaves=8,
)
STRUCTS = structs(TYPES)


def spark_json(type_: pa.DataType) -> object:
    """What StructType.json() says of a type."""
    if pa.types.is_struct(type_):
        fields = [{"name": f.name, "type": spark_json(f.type), "nullable": True, "metadata": {}} for f in type_]
        return {"type": "struct", "fields": fields}
    if pa.types.is_map(type_):
        key, value = spark_json(type_.key_type), spark_json(type_.item_type)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if pa.types.is_list(type_):
        return {"type": "array", "elementType": spark_json(type_.value_type), "containsNull": True}
    name = ddl_of(type_).lower().replace(" ", "")
    return {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}.get(name, name)


@given(STRUCTS)
def test_what_is_written_as_ddl_is_read_back(type_):
    assert parse_schema(ddl_of(type_)).equals(type_)


@given(STRUCTS)
def test_spark_json_says_the_same_as_ddl(type_):
    assert parse_schema(json.dumps(spark_json(type_))).equals(type_)


@given(STRUCTS)
def test_a_type_of_spark_is_its_own(type_):
    assert spark_type(type_).equals(type_)


@given(st.text(st.sampled_from("abi nt,<>():`'struc-\n.{}\"0"), max_size=30))
def test_any_other_text_is_a_value_error(text):
    try:
        parsed = parse_schema(text)
    except ValueError:
        return
    assert parsed.num_fields


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("a TinyInt", pa.int8()),
        ("a byte", pa.int8()),
        ("a SHORT", pa.int16()),
        ("a integer", pa.int32()),
        ("a LONG", pa.int64()),
        ("a real", pa.float32()),
        ("a decimal", pa.decimal128(10, 0)),
        ("a dec(5)", pa.decimal128(5, 0)),
        ("a NUMERIC( 38 , 38 )", pa.decimal128(38, 38)),
        ("a char(3)", pa.string()),
        ("a VARCHAR(3)", pa.string()),
        ("a string collate utf8_binary", pa.string()),
        ("a timestamp", pa.timestamp("us", tz="UTC")),
        ("a timestamp_ltz", pa.timestamp("us", tz="UTC")),
        ("a timestamp(6) with local time zone", pa.timestamp("us", tz="UTC")),
        ("a timestamp_ntz", pa.timestamp("us")),
        ("a timestamp without time zone", pa.timestamp("us")),
        ("a map<string,array<int>>", pa.map_(pa.string(), pa.list_(pa.field("element", pa.int32())))),
        ("a struct<b:int,c int not null comment 'x'>", pa.struct([("b", pa.int32()), ("c", pa.int32())])),
    ],
    ids=lambda value: str(value).replace(" ", "_"),
)
def test_spark_names_of_types(text, type_):
    assert parse_schema(text).equals(pa.struct([("a", type_)]))


@pytest.mark.parametrize(
    "text",
    [
        "a INT, b STRING",
        "a: int, b: string",
        "struct<a:int,b:string>",
        "STRUCT < a INT , b : STRING >",
        "a INT NOT NULL COMMENT 'it''s' 'more', b STRING COMMENT \"x, y\"",
        "a INT, -- one\n /* and\n two */ `b` STRING",
    ],
)
def test_ways_to_write_the_same(text):
    assert parse_schema(text).equals(pa.struct([("a", pa.int32()), ("b", pa.string())]))


def test_keywords_are_good_names_and_backquotes_hold_any():
    parsed = parse_schema("struct INT, map INT, timestamp INT, not INT, comment INT, größe INT, `a.b ``c``` INT")
    assert [field.name for field in parsed] == ["struct", "map", "timestamp", "not", "comment", "größe", "a.b `c`"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty: expected columns"),
        ("  \n", "empty: expected columns"),
        ("int", "column 1 of the schema: expected columns"),
        ("array<int>", "column 1 of the schema: expected columns"),
        ("a strng", r"column 3 of the schema: expected a type, found 'strng'. Did you mean STRING\?"),
        ("a int64", r"Did you mean BIGINT\?"),
        ("a", "expected columns"),
        ("a int b int", "column 7 of the schema: expected a comma or the end, found 'b'"),
        ("a int,", "column 7 of the schema: expected the name of a column, found the end"),
        ("a int,\nb map<int>", "line 2, column 10 of the schema: expected a comma and the type of the values"),
        ("a array", "expected its element types, as in ARRAY<INT>, found the end"),
        ("a array<int", "expected > at the end of ARRAY"),
        ("a struct<>", "a struct has at least one field"),
        ("a int, a string", "column 8 of the schema: column a occurs twice"),
        ("a-b int", "`backquotes`"),
        ("a decimal(39)", "a number from 1 to 38, found '39'"),
        ("a decimal(4,5)", "a number from 0 to 4, found '5'"),
        ("a char", r"its length, as in CHAR\(20\), or STRING instead"),
        ("a timestamp(9)", "microseconds"),
        ("a string collate unicode", "collations are not supported"),
        ("a int not", "expected NOT NULL"),
        ("a int comment x", "expected a comment in quotes"),
        ("a interval day", "type INTERVAL is not supported by any format"),
        (
            "a variant",
            "column 3 of the schema: type VARIANT is not supported by any format. Read STRING, and use parse_json",
        ),
        ("a void", "has no values. Drop the column"),
        ("a time(6)", "Read INT, BIGINT or STRING"),
        ("a geometry(4326)", "Read BINARY"),
        ("schemas/order.avsc", "This looks like a file name: give the content of the file"),
        ("s3://bucket/schema", "This looks like a file name"),
        ('syntax = "proto3"; message A {}', "This is a .proto file"),
        ('{"type": "record", "name": "A", "fields": []}', "This is an Avro schema: set the format to avro"),
        ('{"$schema": "x", "type": "object"}', "This is a JSON Schema"),
        ('["null", "int"]', r"as StructType.json\(\) writes it"),
        ('{"type": "struct"', "begins like JSON, but is not valid JSON"),
        ('{"type": "struct", "fields": []}', "at least one field"),
        ('{"type": "struct", "fields": [{"name": "a"}]}', "field number 0 needs"),
        ('{"type": "struct", "fields": [{"name": "a", "type": 3}]}', "field a of the schema: expected a type"),
        (
            '{"type": "struct", "fields": [{"name": "a", "type": {"type": "array", "elementType": "void"}}]}',
            "field a.element of the schema: .*has no values",
        ),
        (
            '{"type": "struct", "fields": [{"name": "a", "type": {"type": "udt", "class": "x"}}]}',
            "field a of the schema has a user-defined type",
        ),
        (
            '{"type": "struct", "fields": [{"name": "a", "type": "long"}, {"name": "a", "type": "long"}]}',
            "field a occurs twice",
        ),
    ],
    ids=lambda value: str(value)[:30].replace(" ", "_"),
)
def test_errors_say_where_and_what_was_expected(text, said):
    with pytest.raises(ValueError, match=said):
        parse_schema(text)


def test_a_hint_comes_only_where_the_text_does_not_parse():
    assert parse_schema("message STRING, syntax INT").num_fields == 2


@pytest.mark.parametrize(
    ("given_", "made"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary(16), pa.binary()),
        (pa.timestamp("ns", tz="Europe/Vienna"), pa.timestamp("us", tz="UTC")),
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.float16(), pa.float32()),
        (pa.date64(), pa.date32()),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.decimal256(38, 3), pa.decimal128(38, 3)),
        (pa.list_(pa.int8(), 3), pa.list_(pa.field("element", pa.int8()))),
        (pa.large_list(pa.field("item", pa.int8(), nullable=False)), pa.list_(pa.field("element", pa.int8()))),
        (pa.struct([pa.field("a", pa.uint8(), nullable=False)]), pa.struct([("a", pa.int16())])),
    ],
    ids=str,
)
def test_other_types_of_arrow_have_one_in_spark(given_, made):
    assert spark_type(given_).equals(made)


@pytest.mark.parametrize(
    ("type_", "said"),
    [
        (pa.struct([("a", pa.list_(pa.time64("us")))]), "field a.element has Arrow type time64"),
        (pa.struct([("a", pa.decimal256(50, 3))]), "field a has Arrow type decimal256"),
        (pa.struct([("a", pa.null())]), "field a has Arrow type null"),
        (pa.struct([("a", pa.int8()), ("a", pa.int8())]), "two fields with the same name"),
        (pa.struct([("a", pa.struct([]))]), "field a is a struct without fields"),
    ],
    ids=str,
)
def test_a_type_that_no_column_can_have_is_named_with_its_field(type_, said):
    with pytest.raises(ValueError, match=said):
        spark_type(type_)


def test_a_type_spark_does_not_have_is_still_shown():
    assert ddl_of(pa.struct([("a", pa.time64("us"))])) == "a time64[us]"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a " + "ARRAY<" * 61 + "INT" + ">" * 61, "more than 60 levels deep"),
        ("a " + "MAP<STRING, " * 31 + "INT" + ">" * 31, "more than 60 levels deep"),
        ("a " + "ARRAY<" * 100_000 + "INT" + ">" * 100_000, "nested too deeply"),
        (json.dumps({"type": "struct", "fields": []}).replace("[]", "[" * 100_000), "nested too deeply|is none"),
        (", ".join(f"f{at} INT" for at in range(20_001)), "more than 20000 fields"),
        ("a STRUCT<" + ", ".join(f"f{at} INT" for at in range(20_000)) + ">", "more than 20000 fields"),
        ("a ! " + "/*" * 500_000, "column 3"),
        ("a " + "x" * 1_000_000, "expected a type"),
        ("a DECIMAL(" + "9" * 10_000 + ")", "expected a number|digits"),
    ],
    ids=["arrays", "maps", "very-deep", "json", "fields", "inner-fields", "comments", "word", "number"],
)
def test_a_schema_that_is_too_much_is_refused_before_it_takes_long(text, said):
    with pytest.raises(ValueError, match=said):
        parse_schema(text)


def test_what_a_column_may_have_at_most_is_read():
    assert parse_schema("a " + "ARRAY<" * 59 + "INT" + ">" * 59).num_fields == 1
    assert parse_schema(", ".join(f"f{at} INT" for at in range(20_000))).num_fields == 20_000
