"""The schema that JSON documents have in common. Spark's own answer: tests/spark/test_schema_texts.py."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.inference import infer_json
from penstock.formats.schema import ddl_of

LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.integers(-(10**45), 10**45)
)
NAMES = st.sampled_from(["a", "b", "B", "é", "\uffee", "😀", ""])
DOCUMENTS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=10
)
OBJECTS = st.dictionaries(NAMES, DOCUMENTS, max_size=4)


def inferred(*documents: str) -> str:
    return ddl_of(infer_json([document.encode() for document in documents]))


@pytest.mark.parametrize(
    ("documents", "ddl"),
    [
        (['{"b": 1, "a": true}'], "a BOOLEAN, b BIGINT"),
        (['{"a": 1.5}', '{"a": 1}'], "a DOUBLE"),
        (['{"a": 1}', '{"a": 1e3}'], "a DOUBLE"),
        (['{"a": NaN}'], "a DOUBLE"),
        (['{"a": 9223372036854775807}', '{"a": -9223372036854775808}'], "a BIGINT"),
        (['{"a": 9223372036854775808}'], "a DECIMAL(19, 0)"),
        (['{"a": -9223372036854775809}', '{"a": 1}'], "a DECIMAL(20, 0)"),
        (['{"a": 123456789012345678901234}', '{"a": 1}'], "a DECIMAL(24, 0)"),
        (['{"a": 9223372036854775808}', '{"a": 1.5}'], "a DOUBLE"),
        (['{"a": ' + "9" * 38 + "}"], "a DECIMAL(38, 0)"),
        (['{"a": ' + "9" * 39 + "}"], "a DOUBLE"),
        (['{"a": "2024-01-01"}'], "a STRING"),
        (['{"a": null}', '{"a": ""}'], "a STRING"),
        (['{"a": ""}', '{"a": 1}', '{"a": null}'], "a BIGINT"),
        (['{"a": "x"}', '{"a": 1}'], "a STRING"),
        (['{"a": true}', '{"a": 1}'], "a STRING"),
        (['{"a": {"x": 1}}', '{"a": 1}'], "a STRING"),
        (['{"a": {"x": 1}}', '{"a": [1]}'], "a STRING"),
        (['{"a": []}'], "a ARRAY<STRING>"),
        (['{"a": []}', '{"a": [1, 2.5]}'], "a ARRAY<DOUBLE>"),
        (['{"a": [1, "x"]}'], "a ARRAY<STRING>"),
        (['{"a": [{"x": 1}, {"y": true}]}'], "a ARRAY<STRUCT<x: BIGINT, y: BOOLEAN>>"),
        (['{"a": {"x": 1}}', '{"a": {"y": [[]]}}'], "a STRUCT<x: BIGINT, y: ARRAY<ARRAY<STRING>>>"),
        (['{"a": {}, "b": [{}], "c": {"d": {}}, "e": 1}'], "e BIGINT"),
        (['{"a": {}}', '{"a": {"x": 1}}'], "a STRUCT<x: BIGINT>"),
        (['{"a": 1, "a": "x"}'], "a STRING"),
        (['{"": 1, "a": 2}'], "a BIGINT"),
        (['{"a": 1, "A": 2}'], "A BIGINT, a BIGINT"),
        (['{"\uffee": 1, "😀": 1}'], "`😀` BIGINT, `\uffee` BIGINT"),
    ],
    ids=lambda value: "".join(value)[:40] if isinstance(value, list) else None,
)
def test_spark_rules(documents, ddl):
    assert inferred(*documents) == ddl


@pytest.mark.parametrize(
    "bad",
    [
        *(b"", b"{", b"nonsense", b"[1]", b'[{"b": 1}]', b'"text"', b"1", b"null", b"\x00\x00\x00\x00\x01{}"),
        *(b"\xff\xfe", b'{"\xff": 1}', b'{"\\ud800": 1}', b"[" * 100_000, b'{"b": ' + b"9" * 5000 + b"}"),
        *(b"{'b': 1}", b"\xef\xbb\xbf{}", b'{"b": 1,}'),
    ],
    ids=lambda bad: ascii(bad[:20]),
)
def test_bad_documents_are_skipped(bad):
    assert ddl_of(infer_json([bad, None, b'{"a": 1}', bad])) == "a BIGINT"


def test_what_follows_the_first_document_is_not_looked_at():
    assert inferred(' \n{"a": 1} {"b": 2}', '{"c": 3} rubbish') == "a BIGINT, c BIGINT"


def test_no_object_at_all_is_an_error_that_counts():
    with pytest.raises(ValueError, match="none of 3 records is a JSON object: 1 are null, 2 something else"):
        infer_json([b"[1]", None, b"x"])
    with pytest.raises(ValueError, match="none of 0 records"):
        infer_json([])


def test_objects_without_fields_are_an_error():
    with pytest.raises(ValueError, match="have no fields"):
        infer_json([b"{}", b'{"a": {}}'])


def written(documents):
    return [json.dumps(document).encode() for document in documents]


@given(st.lists(OBJECTS, min_size=1, max_size=6), st.randoms())
def test_neither_order_nor_number_of_documents_matters(documents, chance: random.Random):
    shuffled = [*documents, *documents]
    chance.shuffle(shuffled)
    first, second = (infer_json([b'{"z": 1}', *written(each)]) for each in (documents, shuffled))
    assert first.equals(second)


@given(OBJECTS)
def test_names_are_sorted_as_java_sorts_them(document):
    names = [field.name for field in infer_json([b'{"z": 1}', *written([document])])]
    assert names == sorted(names, key=lambda name: name.encode("utf-16-be"))


def test_objects_that_all_have_other_fields_are_merged_at_once():
    """One after the other, that took a minute for a record of 400 kB."""
    text = json.dumps({"a": [{f"f{at}": at} for at in range(15_000)]})
    found = infer_json([text.encode()])
    assert found.field("a").type.value_type.num_fields == 15_000
    with pytest.raises(ValueError, match="more than 20000 fields"):
        infer_json([json.dumps({f"f{at}-{half}": 1 for at in range(11_000)}).encode() for half in (1, 2)])


def test_a_document_that_nests_too_deep_for_a_column_is_skipped():
    deep = b'{"a":' + b"[" * 70 + b"]" * 70 + b"}"
    assert infer_json([deep, b'{"b": 1}']).names == ["b"]
