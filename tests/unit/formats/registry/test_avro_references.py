"""Avro schemas made one: the same bytes, by fastavro, with the types apart and written together."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.registry.avro_references import inline


def record(name: str, *types: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{at}", "type": kind} for at, kind in enumerate(types)],
        **more,
    }


def joined(schema: Any, *references: Any) -> Any:
    return json.loads(inline(json.dumps(schema), [json.dumps(reference) for reference in references]))


def test_a_type_is_written_once_and_named_after_that():
    money = record("Money", "long", namespace="shop")
    assert joined(record("Order", "shop.Money", ["null", "shop.Money"], namespace="sales"), money) == record(
        "Order", money, ["null", "shop.Money"], namespace="sales"
    )


def test_a_name_without_a_dot_belongs_to_the_namespace_around_it():
    near, far = record("Money", "long", namespace="shop"), record("Money", "string", namespace="else")
    assert joined(record("Order", "Money", namespace="shop"), far, near) == record("Order", near, namespace="shop")


def test_a_type_without_a_namespace_gets_none_from_its_new_place():
    found = joined(record("Order", "Money", namespace="shop"), record("Money", "long"))
    assert found["fields"][0]["type"] == record("Money", "long", namespace="")
    # And what stands in it keeps the one that it had.
    inner = record("Inner", "long")
    outer = record("Outer", inner, namespace="far")
    found = joined(record("Order", "far.Outer", "far.Inner", namespace="shop"), outer)
    assert found["fields"][0]["type"] == outer
    assert found["fields"][1]["type"] == "far.Inner"


def test_a_type_inside_of_another_may_be_named_before_it():
    currency = {"type": "enum", "name": "Currency", "symbols": ["EUR"]}
    money = record("Money", currency, namespace="shop")
    found = joined(record("Order", "shop.Currency", "shop.Money"), money)
    assert found["fields"][0]["type"] == currency | {"namespace": "shop"}
    assert found["fields"][1]["type"] == record("Money", "shop.Currency", namespace="shop")


def test_types_that_name_themselves():
    tree = record("Tree", {"type": "array", "items": "Tree"}, namespace="t")
    assert joined(["null", "t.Tree"], tree) == [
        "null",
        record("Tree", {"type": "array", "items": "t.Tree"}, namespace="t"),
    ]


@pytest.mark.parametrize(
    "schema",
    [
        "string",
        {"type": "string"},
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        {"type": "map", "values": ["null", {"type": "fixed", "name": "F", "size": 4}]},
        record("R", "int", aliases=["Old"], doc="shop.Money")
        | {"fields": [{"name": "a", "type": "string", "default": "shop.Money", "aliases": ["shop.Money"]}]},
    ],
    ids=["name", "type", "logical", "map", "texts"],
)
def test_what_names_nothing_stays(schema):
    assert joined(schema, record("Money", "long", namespace="shop")) == schema


@pytest.mark.parametrize(
    ("text", "reference"),
    [("{", '"int"'), ("7", '"int"'), ('"A"', "["), ('{"type": "record"}', '"int"'), ("[" * 5000 + "]" * 5000, '"int"')],
    ids=["broken", "number", "broken-reference", "nameless", "deep"],
)
def test_what_is_no_schema_is_a_value_error(text, reference):
    with pytest.raises(ValueError, match=r"."):
        inline(text, [reference])


@st.composite
def families(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Records, each of which may name those before it, in a few namespaces."""
    made: list[dict[str, Any]] = []
    names: list[str] = []
    for at in range(draw(st.integers(2, 6))):
        space = draw(st.sampled_from(("a", "b.c", "d")))
        known = st.sampled_from([*names, "long", "string"])
        kinds = st.one_of(
            known,
            known.map(lambda kind: {"type": "array", "items": kind}),
            known.map(lambda kind: {"type": "map", "values": kind}),
            known.map(lambda kind: ["null", kind]),
        )
        made.append(record(f"R{at}", *draw(st.lists(kinds, min_size=1, max_size=3)), namespace=space))
        names.append(f"{space}.R{at}")
    return made


def example(kind: Any, types: dict[str, Any]) -> Any:
    """Some value: small, because types nest."""
    match kind:
        case "long":
            return 7
        case "string":
            return "seven"
        case str():
            return example(types[kind], types)
        case ["null", other]:
            return example(other, types)
        case {"items": inner}:
            return [example(inner, types)]
        case {"values": inner}:
            return {"key": example(inner, types)}
        case _:
            return {field["name"]: example(field["type"], types) for field in kind["fields"]}


@given(families())
def test_the_same_bytes_can_be_read(family):
    *references, schema = family
    apart: dict[str, Any] = {}
    for reference in references:
        fastavro.parse_schema(reference, named_schemas=apart)
    writer = fastavro.parse_schema(schema, named_schemas=apart)
    value = example(schema, {f"{each['namespace']}.{each['name']}": each for each in family})
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, writer, value)
    buffer.seek(0)
    alone = fastavro.parse_schema(joined(schema, *references))
    assert fastavro.schemaless_reader(buffer, alone) == value
    assert buffer.read() == b""
