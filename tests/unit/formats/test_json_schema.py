"""JSON Schemas into types of columns."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.inference import infer_json
from penstock.formats.json_schema import json_schema_type
from penstock.formats.schema import ddl_of, parse_schema


def ddl(schema: Any, **references: Any) -> str:
    return ddl_of(json_schema_type(json.dumps(schema), [(name, json.dumps(each)) for name, each in references.items()]))


def of(schema: Any, **more: Any) -> str:
    """The type of one field that a schema describes."""
    return ddl({"type": "object", "properties": {"f": schema}} | more).removeprefix("f ")


@pytest.mark.parametrize(
    ("schema", "made"),
    [
        ({"type": "string"}, "STRING"),
        ({"type": "string", "format": "date-time"}, "TIMESTAMP"),
        ({"type": "string", "format": "date"}, "DATE"),
        ({"type": "string", "format": "uuid"}, "STRING"),
        ({"type": "string", "connect.type": "bytes"}, "BINARY"),
        ({"type": "string", "contentEncoding": "base64"}, "BINARY"),
        ({"type": "integer"}, "BIGINT"),
        ({"type": "integer", "connect.type": "int8"}, "TINYINT"),
        ({"type": "integer", "connect.type": "int16"}, "SMALLINT"),
        ({"type": "integer", "connect.type": "int32"}, "INT"),
        ({"type": "integer", "connect.type": "int64"}, "BIGINT"),
        ({"type": "number"}, "DOUBLE"),
        ({"type": "number", "connect.type": "float32"}, "FLOAT"),
        ({"type": "number", "connect.type": "bytes", "connect.parameters": {"scale": "2"}}, "DECIMAL(38, 2)"),
        (
            {
                "type": "number",
                "connect.type": "bytes",
                "connect.parameters": {"scale": "2", "connect.decimal.precision": "9"},
            },
            "DECIMAL(9, 2)",
        ),
        ({"type": "number", "connect.type": "bytes"}, "DOUBLE"),
        ({"type": "boolean"}, "BOOLEAN"),
        ({"type": "null"}, "STRING"),
        ({"type": ["null", "integer"]}, "BIGINT"),
        ({"type": ["integer", "number", "null"]}, "DOUBLE"),
        ({"type": ["string", "integer"]}, "STRING"),
        ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, "BIGINT"),
        ({"anyOf": [{"type": "string", "format": "date"}, {"const": None}]}, "DATE"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "DOUBLE"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "STRING"),
        ({"type": "integer", "oneOf": [{"minimum": 3}, {"maximum": 1}]}, "BIGINT"),
        ({"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]}, "STRUCT<a: STRING>"),
        (
            {"oneOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "boolean"}}}]},
            "STRUCT<a: BIGINT, b: BOOLEAN>",
        ),
        (
            {
                "properties": {"kind": {"type": "string"}},
                "oneOf": [
                    {"properties": {"a": {"type": "integer"}}},
                    {"properties": {"a": {"type": "string"}}},
                ],
            },
            "STRUCT<kind: STRING, a: STRING>",
        ),
        ({"oneOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "array"}]}, "ARRAY<STRING>"),
        ({"type": "array", "items": {"type": "integer"}}, "ARRAY<BIGINT>"),
        ({"items": {"type": "integer"}}, "ARRAY<BIGINT>"),
        ({"type": "array"}, "ARRAY<STRING>"),
        ({"type": "array", "items": True}, "ARRAY<STRING>"),
        ({"type": "array", "items": [{"type": "integer"}, {"type": "number"}]}, "ARRAY<DOUBLE>"),
        ({"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "boolean"}}, "ARRAY<STRING>"),
        ({"type": "object"}, "STRING"),
        ({"type": "object", "additionalProperties": True}, "STRING"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "MAP<STRING, BIGINT>"),
        ({"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False}, "MAP<STRING, BIGINT>"),
        ({"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}}, "STRUCT<a: BIGINT>"),
        (
            {"properties": {"z": {"connect.index": 1}, "y": {"connect.index": 0}, "x": {}}},
            "STRUCT<y: STRING, z: STRING, x: STRING>",
        ),
        ({"enum": ["a", "b", None]}, "STRING"),
        ({"enum": [1, 2]}, "BIGINT"),
        ({"enum": [1, 2.5]}, "DOUBLE"),
        ({"enum": [True, 1]}, "STRING"),
        ({"const": 1}, "BIGINT"),
        ({"const": {"a": 1}}, "STRING"),
        ({"type": "integer", "enum": [1, 2]}, "BIGINT"),
        ({"allOf": [{"type": "string"}, {"format": "date"}]}, "DATE"),
        (
            {
                "allOf": [
                    {"properties": {"a": {"type": "string"}}},
                    {"properties": {"a": {"format": "date"}, "b": {}}},
                ],
                "properties": {"c": {"type": "boolean"}},
            },
            "STRUCT<c: BOOLEAN, a: DATE, b: STRING>",
        ),
        (True, "STRING"),
        (False, "STRING"),
        ({}, "STRING"),
        ({"type": "any"}, "STRING"),
        ({"not": {"type": "string"}}, "STRING"),
    ],
    ids=lambda value: json.dumps(value)[:50] if not isinstance(value, str) else None,
)
def test_what_a_schema_makes(schema, made):
    assert of(schema) == made


ADDRESS = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.mark.parametrize(
    ("reference", "more"),
    [
        ("#/definitions/address", {"definitions": {"address": ADDRESS}}),
        ("#/$defs/address", {"$defs": {"address": ADDRESS}}),
        ("#/$defs/a~1d~0d%20r", {"$defs": {"a/d~d r": ADDRESS}}),
        ("#/$defs/list/0", {"$defs": {"list": [ADDRESS]}}),
        ("#where", {"$defs": {"address": ADDRESS | {"$anchor": "where"}}}),
        ("#where", {"definitions": {"address": ADDRESS | {"$id": "#where"}}}),
        ("#/$defs/address", {"$id": "http://example.org/a.json", "$defs": {"address": ADDRESS}}),
        ("address.json", {"$id": "http://example.org/a.json", "$defs": {"x": ADDRESS | {"$id": "address.json"}}}),
        ("http://example.org/b", {"$defs": {"x": ADDRESS | {"$id": "http://example.org/b"}}}),
        ("#/$defs/again", {"$defs": {"again": {"$ref": "#/$defs/address"}, "address": ADDRESS}}),
        ("#/$defs/both", {"$defs": {"both": {"allOf": [{"$ref": "#/$defs/a"}] * 2}, "a": ADDRESS}}),
    ],
    ids=range(11),
)
def test_references_inside_of_a_schema(reference, more):
    assert of({"$ref": reference}, **more) == "STRUCT<city: STRING>"
    assert of({"oneOf": [{"type": "null"}, {"$ref": reference}]}, **more) == "STRUCT<city: STRING>"


def test_one_definition_may_be_used_often():
    schema = {"$ref": "#/$defs/a"}
    made = ddl({"properties": {"x": schema, "y": {"items": schema}}, "$defs": {"a": ADDRESS}})
    assert made == "x STRUCT<city: STRING>, y ARRAY<STRUCT<city: STRING>>"


@pytest.mark.parametrize(
    ("reference", "name", "schema"),
    [
        ("address.json", "address.json", ADDRESS),
        ("http://example.org/address.json", "http://example.org/address.json", ADDRESS),
        ("http://example.org/address.json", "address.json", ADDRESS),
        ("other", "address.json", ADDRESS | {"$id": "other"}),
        ("a.json#/definitions/x", "a.json", {"definitions": {"x": ADDRESS}}),
        ("a.json#/definitions/x", "a.json", {"definitions": {"x": {"$ref": "#/definitions/y"}, "y": ADDRESS}}),
    ],
    ids=range(6),
)
def test_references_to_other_schemas(reference, name, schema):
    main = {"properties": {"f": {"$ref": reference}}}
    made = json_schema_type(json.dumps(main), [(name, json.dumps(schema))])
    assert ddl_of(made) == "f STRUCT<city: STRING>"


def test_references_of_references():
    main = json.dumps({"$ref": "b.json"})
    others = [
        ("b.json", json.dumps({"type": "object", "properties": {"a": {"$ref": "a.json"}}})),
        (
            "a.json",
            json.dumps(
                {
                    "type": "object",
                    "properties": {"b": {"$ref": "#/definitions/n"}},
                    "definitions": {"n": {"type": "integer"}},
                }
            ),
        ),
    ]
    assert ddl_of(json_schema_type(main, others)) == "a STRUCT<b: BIGINT>"


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"properties": {"a": {"$ref": "#"}}}, "recursive: field a contains # again"),
        (
            {
                "$ref": "#/$defs/node",
                "$defs": {"node": {"properties": {"next": {"items": {"$ref": "#/$defs/node"}}}}},
            },
            "recursive: field next.element contains #/.defs/node again",
        ),
        (
            {
                "properties": {"a": {"$ref": "#/$defs/x"}},
                "$defs": {"x": {"properties": {"b": {"$ref": "#/$defs/y"}}}, "y": {"anyOf": [{"$ref": "#/$defs/x"}]}},
            },
            "recursive: field a.b contains #/.defs/x again",
        ),
        ({"properties": {"a": {"additionalProperties": {"$ref": "#"}}}}, "recursive: field a.value"),
        ({"properties": {"a": {"$ref": "b.json"}}}, "refers to b.json at field a, but has no references"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "refers to #/.defs/b at field a, which does not exist"),
        ({"type": "string"}, "describes no single type, but must describe an object with properties"),
        ({"type": "integer"}, "describes BIGINT instead"),
        ({"type": "object"}, "describes no single type"),
        ({"type": "array", "items": {"type": "integer"}}, "describes ARRAY<BIGINT> instead"),
        ({"additionalProperties": {"type": "integer"}}, "describes MAP<STRING, BIGINT> instead"),
        (True, "describes no single type"),
        ([], "must be a JSON object, but is a list"),
        ({"type": "record", "name": "A", "fields": []}, "is an Avro schema"),
    ],
    ids=range(14),
)
def test_what_makes_no_columns_is_said(schema, said):
    with pytest.raises(ValueError, match=said):
        json_schema_type(json.dumps(schema))


def test_what_is_no_json_is_said():
    with pytest.raises(ValueError, match="the JSON Schema is not JSON"):
        json_schema_type("{")
    with pytest.raises(ValueError, match="the referenced schema a is not JSON"):
        json_schema_type("{}", [("a", "")])


@pytest.mark.parametrize("depth", [400, 100_000])
def test_what_is_nested_too_deeply_is_said(depth):
    schema = '{"type":"object","properties":{"a":' + '{"items":' * depth + "{}" + "}" * depth + "}}"
    with pytest.raises(ValueError, match="too deeply"):
        json_schema_type(schema)


def test_a_missing_reference_says_which_there_are():
    with pytest.raises(ValueError, match="has only the references a, b"):
        json_schema_type('{"$ref": "c"}', [("a", "{}"), ("b", "{}")])


# --- what holds for all schemas ---------------------------------------------------------------------------------------

LEAVES = st.sampled_from([{"type": name} for name in ("string", "integer", "number", "boolean")])
NAMES = st.sampled_from(["a", "b", "c"])
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda item: {"type": "array", "items": item}),
        st.dictionaries(NAMES, inner, min_size=1, max_size=3).map(lambda each: {"type": "object", "properties": each}),
        inner.map(lambda item: {"type": "object", "additionalProperties": item}),
    ),
    max_leaves=6,
)
OBJECTS = st.dictionaries(NAMES, SCHEMAS, min_size=1, max_size=3).map(
    lambda each: {"type": "object", "properties": each}
)


@given(OBJECTS)
def test_null_as_an_alternative_changes_nothing(schema):
    def nullable(each: Any) -> Any:
        if not isinstance(each, dict):
            return each
        inner = {name: nullable(value) for name, value in each.items()}
        if isinstance(each.get("type"), str):
            return {"oneOf": [{"type": "null"}, inner | {"type": [each["type"], "null"]}]}
        return inner

    assert ddl(nullable(schema)) == ddl(schema)


@given(OBJECTS)
def test_references_and_allof_change_nothing(schema):
    definitions: dict[str, Any] = {}

    def referring(each: Any) -> Any:
        if not isinstance(each, dict):
            return each
        inner = {name: referring(value) for name, value in each.items()}
        if "type" not in each:
            return inner
        name = f"d{len(definitions)}"
        definitions[name] = inner
        return {"allOf": [{"$ref": f"#/$defs/{name}"}, {"title": "x"}]}

    assert ddl(referring(schema) | {"$defs": definitions}) == ddl(schema)


def example(schema: Any) -> Any:
    """A document that a schema describes, with every field. Numbers are not whole, and texts are not empty."""
    match schema:
        case {"properties": properties}:
            return {name: example(each) for name, each in properties.items()}
        case {"additionalProperties": each}:
            return {"key": example(each)}
        case {"items": each}:
            return [example(each)]
    return {"string": "x", "integer": 1, "number": 1.5, "boolean": True}[schema["type"]]


def without_maps(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    each = {name: without_maps(value) for name, value in schema.items()}
    return (
        each | {"additionalProperties": None, "properties": {"key": each["additionalProperties"]}}
        if each.get("additionalProperties")
        else each
    )


@given(OBJECTS)
def test_a_schema_makes_what_is_inferred_from_its_documents(schema):
    schema = without_maps(schema)
    inferred = infer_json([json.dumps(example(schema)).encode()])
    assert sorted_fields(json_schema_type(json.dumps(schema))).equals(inferred)


def sorted_fields(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([(f.name, sorted_fields(f.type)) for f in sorted(type_, key=lambda f: f.name)])
    if pa.types.is_list(type_):
        return pa.list_(pa.field("element", sorted_fields(type_.value_type)))
    return type_


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["object", "array", "#", "#/a", "a", "string"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "allOf", "oneOf", "$ref", "enum", "a", "additionalProperties", "$id"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["type", "properties", "allOf", "anyOf", "$ref", "$id", "a"]), JUNK, max_size=4))
def test_nonsense_is_a_value_error_or_a_type(schema):
    try:
        made = json_schema_type(json.dumps(schema))
    except ValueError:
        return
    assert parse_schema(ddl_of(made)).equals(made)


# Small schemas that describe far too much. Each was minutes of work, or all memory.


def chain(part, levels=40):
    """Definitions of which each refers to the next."""
    definitions = {f"d{at}": part({"$ref": f"#/$defs/d{at + 1}"}) for at in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": definitions | {f"d{levels}": {"type": "string"}}}


BOMBS = {
    "fields": chain(lambda ref: {"properties": {"a": ref, "b": ref}}),
    "alternatives": {"properties": {"a": chain(lambda ref: {"oneOf": [ref, {"title": "b", **ref}]})}}
    | {"$defs": chain(lambda ref: {"oneOf": [ref, {"title": "b", **ref}]})["$defs"]},
    "items": chain(lambda ref: {"properties": {"a": {"prefixItems": [ref, ref]}}}, 25),
    "keywords": {
        "properties": {f"f{at}": {"$ref": "#/$defs/x"} for at in range(2_000)},
        "$defs": {"x": {f"k{at}": 1 for at in range(20_000)}},
    },
    "enums": {
        "properties": {f"f{at}": {"$ref": "#/$defs/x"} for at in range(2_000)},
        "$defs": {"x": {"enum": list(range(20_000))}},
    },
    "addresses": {
        "$id": "http://" + "x" * 100_000,
        "properties": {f"f{at}": {"$id": f"i{at}", "type": "string"} for at in range(5_000)},
    },
    "names": {"properties": {"n" * 10_000: {"properties": {f"f{at}": {"type": "string"} for at in range(5_000)}}}},
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_schema_that_describes_far_too_much_is_refused(bomb):
    with pytest.raises(ValueError, match=r"takes too long to read|more than 20000 fields|nested too deeply"):
        json_schema_type(json.dumps(BOMBS[bomb]))


def test_anchors_are_looked_for_once():
    schema = {
        "properties": {f"f{at}": {"$ref": f"#a{at}"} for at in range(5_000)},
        "$defs": {f"d{at}": {"$anchor": f"a{at}", "type": "integer"} for at in range(5_000)},
    }
    assert json_schema_type(json.dumps(schema)).num_fields == 5_000


def test_a_chain_of_references_is_followed():
    definitions = {f"d{at}": {"$ref": f"#/$defs/d{at + 1}"} for at in range(200)} | {"d200": {"type": "integer"}}
    assert of({"$ref": "#/$defs/d0"}, **{"$defs": definitions}) == "BIGINT"


@pytest.mark.parametrize("levels", [58, 61])
def test_levels_have_a_limit(levels):
    schema = '{"properties":{"a":' * levels + '{"type":"string"}' + "}}" * levels
    if levels < 60:
        assert ddl_of(json_schema_type(schema)).count("STRUCT") == levels - 1
    else:
        with pytest.raises(ValueError, match="too deeply"):
            json_schema_type(schema)
