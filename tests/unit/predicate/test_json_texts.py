"""Paths into JSON that has no schema."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import OptionError
from penstock.model.expression import ScopeColumn
from penstock.predicate.json_texts import in_one_pass, json_texts
from penstock.predicate.parse import parse_where
from support.predicates import results

TEXTS = [
    b'{"user": {"id": 5, "name": "Ann"}, "items": [{"n": 1}, {"n": "x"}]}',
    b"not JSON",
    None,
    b'{"user": {"id": "seven"}, "items": []}',
    b'{"user": 3, "items": {"n": 1}}',
    b'{"user": null}',
    b"[1, 2]",
    b'{"User": {"id": 5}}',
    b'{"user": {"id": 5.7, "name": "A\xc3\xa4"}}',
    b"\xff\xfe",
]
VALUES = pa.array(TEXTS, pa.binary())


def one(values, steps):
    return json_texts(values, [tuple(steps)])[tuple(steps)]


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        (("user", "id"), ["5", None, None, "seven", None, None, None, None, "5.7", None]),
        (("user", "name"), ["Ann", None, None, None, None, None, None, None, "Aä", None]),
        (("items", 1, "n"), ["x", None, None, None, None, None, None, None, None, None]),
        (("items", 0, "n"), ["1", None, None, None, None, None, None, None, None, None]),
        ((1,), [None, None, None, None, None, None, "2", None, None, None]),
        (("none",), [None] * 10),
    ],
    ids=str,
)
def test_a_path_finds_a_text_or_nothing(steps, found):
    assert one(VALUES, steps).to_pylist() == found


def test_objects_and_arrays_are_their_text():
    values = pa.array([b'{"a": {"b": [1, 2.50]}}', b'{"a": [{}, null]}'])
    assert [json.loads(text) for text in one(values, ("a",)).to_pylist()] == [{"b": [1, 2.5]}, [{}, None]]


def test_slices_strings_and_no_rows():
    assert one(VALUES.slice(3), ("user", "id")).to_pylist() == ["seven", None, None, None, None, "5.7", None]
    strings = pa.array(['{"a": 1}', None, "x"])
    assert one(strings, ("a",)).to_pylist() == ["1", None, None]
    assert one(VALUES.slice(0, 0), ("a", 0)).type == pa.string()


VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
STEP = st.sampled_from("abc") | st.integers(0, 2)


@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), VALUE, max_size=3), max_size=8),
    st.lists(STEP, min_size=1, max_size=4),
)
def test_what_a_path_finds_is_what_python_finds(records, rest):
    steps = ["a", *rest]
    found = one(pa.array([json.dumps(each).encode() for each in records], pa.binary()), steps).to_pylist()
    assert len(found) == len(records)
    for record, text in zip(records, found, strict=True):
        expected = at_path(record, steps)
        if expected is None or isinstance(expected, str):
            assert text == expected
        else:
            assert json.loads(text) == expected


def at_path(value, steps):
    for step in steps:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        else:
            value = value[step] if isinstance(value, list) and step < len(value) else None
    return value


ROWS = pa.table({"raw": VALUES})
TYPES = {"raw": pa.binary(), "num": pa.int64(), "st": pa.struct([("a", pa.int32())])}


def parsed(text):
    return parse_where(text, {name: ScopeColumn(name, (), type_) for name, type_ in TYPES.items()})


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("raw:user.id = 5", [0]),
        ("raw:user.id > 4", [0, 8]),
        ("raw:user.id IN (4, 5)", [0]),
        ("raw:user.id BETWEEN 5.5 AND 6", [8]),
        ("raw:user.id IS NOT NULL", [0, 3, 8]),
        ("raw:user IS NOT NULL AND raw:user.id IS NULL", [4]),
        ("raw:user = '3'", [4]),
        ("raw:items[1].n = 'x'", [0]),
        ("raw:`user`.name LIKE 'A%'", [0, 8]),
        ("lower(raw:user['name']) = 'ann'", [0]),
        ("raw:user:id = 5", [0]),
        ("try_cast(raw:user.id AS INT) = 5", [0]),
        ("raw:User.id = 5", [7]),
    ],
)
def test_a_predicate_with_paths(text, rows):
    met = results(parsed(text), ROWS)
    assert [row for row, passed in enumerate(met) if passed] == rows


def test_large_integers_are_compared_exactly():
    rows = pa.table({"raw": [b'{"id": 9007199254740993}', b'{"id": 9007199254740992}']})
    assert results(parsed("raw:id = 9007199254740993"), rows) == [True, False]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "st:a = 'x'",
            "character 1: st is STRUCT<a: INT>, and a path after : reads a text of JSON. Write . instead of :",
        ),
        ("num:a = 'x'", "character 1: num is BIGINT, and a path after : reads a text of JSON"),
        ("raw:items[-1] = 1", "a path has names of fields, and indices from 0"),
        ("raw:a + 1 = 2", "raw:a is STRING: + needs numbers"),
        (f"raw:{'.'.join('a' * 40)} = 1", "a path of 40 steps is not supported: 32 are"),
    ],
)
def test_what_is_not_a_path_is_named(text, reason):
    with pytest.raises(OptionError) as caught:
        parsed(text)
    assert reason in str(caught.value)


NAMES = st.sampled_from(["a", "b", "A"])
PATHS = st.lists(NAMES | st.integers(0, 1), min_size=1, max_size=3).map(tuple)
LEAVES = st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=2)
DOCUMENTS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)


@given(st.lists(PATHS, min_size=1, max_size=4), st.lists(st.tuples(DOCUMENTS, st.integers(0, 3)), max_size=6))
def test_paths_that_are_read_at_once_find_what_each_finds_alone(paths, documents):
    # Some documents lack their end.
    texts = [(text := json.dumps(document))[: len(text) - cut] for document, cut in documents]
    values = pa.array(texts, pa.string())
    together = json_texts(values, paths)
    assert together.keys() == set(paths)
    for steps in paths:
        assert together[steps].to_pylist() == one(values, steps).to_pylist()


def test_fields_are_read_at_once():
    assert in_one_pass([("a",), ("b", "c"), ("b", "d"), ("a",)]) == [[("a",), ("b", "c"), ("b", "d")]]
    assert in_one_pass([("a",), ("a", "b"), ("c", 0), ("c", 1)]) == [[("a", "b")], [("a",)], [("c", 0)], [("c", 1)]]
