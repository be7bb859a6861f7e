"""Predicates: what they mean, and errors that name the part and its position."""

from __future__ import annotations

import pickle
import sys

import pyarrow as pa
import pytest

from penstock.errors import OptionError
from penstock.model.columns import TYPES as KAFKA
from penstock.model.expression import ScopeColumn
from penstock.predicate.parse import parse_where
from support.predicates import SCOPE, parsed, results, table


def refused(text: str, scope=SCOPE) -> str:
    with pytest.raises(OptionError) as caught:
        parse_where(text, scope)
    assert caught.value.name == "where"
    return str(caught.value).removeprefix(f"option where = {text!r}: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("i = 1; l = 2", "must be one predicate, without a semicolon"),
        ("i", "character 1: i is INT, not a condition. Compare it with something"),
        ("b AND ii = 1", "character 7: column ii does not exist. Did you mean i?"),
        ("st.inner.txt = 'a'", "character 10: field txt does not exist. Did you mean Text?"),
        ("raw.x = 1", "character 5: x is not a field: what stands before it is BINARY, not a STRUCT. Set its format"),
        ("b AND concat(s, 'x') = 'ax'", "character 7: CONCAT(s, 'x') is not supported. Filter by it in the query."),
        ("b AND hash(s) = 1", "character 7: HASH(s) is not supported"),
        ("CASE WHEN b THEN true END", "CASE WHEN b THEN TRUE END is not supported"),
        ("i IN (SELECT 1)", "character 1: i IN (SELECT 1) is not supported"),
        ("i = 1 AS x", "is not supported"),
        ("s ILIKE 'a'", "character 1: s ILIKE 'a' is not supported"),
        ("s LIKE ANY ('a', 'b')", "is not supported"),
        ("element_at(m, 'k') = 1", "is not supported"),
        ("ts > current_timestamp()", "is not supported"),
        ("i & 1 = 1", "character 1: i & 1 is not supported"),
        ("s || 'x' = 'ax'", "character 1: s || 'x' is not supported"),
        ("'it''s' = s", "a doubled quote within a string is not supported. Write \\' instead"),
        ("i =", "is not a predicate"),
        ("(i = 1", "is not a predicate"),
        ("i = 1)", "is not a predicate"),
        ("i + 1.5 > 2", "character 1: + of INT and DECIMAL(2, 1) is not supported. Cast one side to DOUBLE"),
        ("s + 1 > 2", "character 1: s is STRING: + needs numbers"),
        ("d % 2 = 0", "character 1: % of DOUBLE is not supported: it needs integers"),
        ("b = 1", "character 1: comparing BOOLEAN and INT is not supported"),
        ("arr = arr", "comparing ARRAY<STRUCT<n: INT, Text: STRING>> and"),
        ("ts = day", "comparing TIMESTAMP and DATE is not supported"),
        ("i = 123456789012345678901", "INT is compared with a number that BIGINT does not have"),
        ("ts > '2025-01-31T12:00:00'", "'2025-01-31T12:00:00' names no time zone. Append Z for UTC"),
        ("ts > TIMESTAMP '2025-01-31'", "'2025-01-31' is not a timestamp. Write it as 2025-01-31T12:00:00Z"),
        ("day > '31.1.2025'", "'31.1.2025' is not a date. Write it as 2025-01-31"),
        ("i = 'abc'", "'abc' cannot be cast to BIGINT"),
        ("cast(d AS STRING) = '1'", "character 6: a cast from DOUBLE to STRING is not supported"),
        ("cast(s AS DECIMAL(3, 1)) = 1", "a cast to DECIMAL(3, 1) is not supported"),
        ("cast(s AS TIMESTAMP) = ts", "a cast from STRING to TIMESTAMP is not supported"),
        ("s LIKE s", "character 8: a pattern must be a string in quotes"),
        ("s LIKE 'a\\\\'", "the escape character stands at the end"),
        ("s LIKE 'a!b' ESCAPE '!'", "the escape character stands before 'b'"),
        ("s LIKE 'a' ESCAPE 'ab'", "an escape must be one character in quotes"),
        ("i LIKE '1%'", "character 1: i is INT, not a STRING. Cast it"),
        (
            "s RLIKE '(?=a)'",
            "the regular expression '(?=a)', character 3: of the groups that begin with (? only (?:...) is supported",
        ),
        ("s RLIKE '\\\\bx'", "\\b is not supported"),
        ("m[s] = 1", "an index or key must be a constant"),
        ("m[1] = 1", "the keys of this map are STRING, not INT"),
        ("nums[-1] = 1", "the index -1 is negative"),
        ("nums['a'] = 1", "ARRAY<BIGINT> has no element 'a'"),
        ("1.5F = f", "a FLOAT literal is not supported. Write a DOUBLE: 1.5D"),
        ("(" * 300 + "b" + ")" * 300, "is nested too deeply"),
        ("b AND\n  ii = 1", "line 2, character 3: column ii does not exist"),
        ("i = ${x}", "is not supported"),
        ("i = :x", "is not supported"),
        ("DROP TABLE x", "is not supported"),
    ],
)
def test_what_is_outside_of_the_subset_is_an_error_with_its_place(text, said):
    assert said in refused(text)


@pytest.mark.parametrize(
    "text",
    [
        *("i = i < 1", "i = s LIKE 'a'", "i < i IN (1)", "b = i BETWEEN 1 AND 2", "i <=> i < 1", "s LIKE 'a' = b"),
        *("b <=> (i < 1)", "i IS DISTINCT FROM l = 1", "b = NOT b"),
    ],
)
def test_operators_that_the_parser_binds_otherwise_than_spark_need_parentheses(text):
    assert "parentheses" in (error := refused(text)) or "to the right of <=>" in error or "not a predicate" in error


def test_the_left_of_two_comparisons_comes_first_as_in_spark():
    assert results(parsed("i = 1 IS NULL"), table()) == results(parsed("(i = 1) IS NULL"), table())
    assert results(parsed("!b = true"), table()) == results(parsed("NOT (b = true)"), table())


def test_names_ignore_case_and_an_ambiguous_one_is_refused():
    assert parsed("ST.Inner.TEXT = 'a'").condition == parsed("st.inner.text = 'a'").condition
    both = {"a": ScopeColumn("a", (), pa.int32()), "A": ScopeColumn("A", (), pa.int32())}
    assert "column a is ambiguous: there are a and A" in refused("a = 1", both)
    quoted = {"a.b": ScopeColumn("value", ("a.b",), pa.int32())}
    assert parse_where("`a.b` = 1", quoted).fields[0].path == ("a.b",)


def test_strings_are_unescaped_as_spark_does():
    texts = {r"'a\'b'": "a'b", r"'\d\n'": "d\n", r"r'\d'": r"\d", r"'\%\_'": r"\%\_", r'"a\"b"': 'a"b'}
    texts |= {r"'\u00e9\101\0'": "éA\0", "'\\U0001F600'": "😀"}
    for text, meant in texts.items():
        condition = parsed(f"s = {text}").condition
        assert condition.right.value == meant


def test_kafkas_columns_and_headers_can_be_named():
    scope = {name: ScopeColumn(name, (), kind) for name, kind in KAFKA.items()}
    where = parse_where("key = 'a' AND headers['trace'] LIKE 'x%' AND offset >= 5 AND headers[0].key = 'k'", scope)
    assert {field.source for field in where.fields} == {"key", "headers", "offset"}


def test_a_long_chain_is_a_flat_tree_and_crosses_processes():
    where = parsed(" OR ".join(f"i = {number}" for number in range(2000)))
    assert pickle.loads(pickle.dumps(where)) == where
    assert results(where, table()) == results(parsed("i BETWEEN 0 AND 1999"), table())


def test_only_parts_that_can_be_an_error_make_a_predicate_that_can():
    for text in ("i = 1 AND s LIKE 'a%'", "try_cast(num AS INT) = 1", "get(nums, 7) = 1", "cast(raw AS STRING) = 'a'"):
        assert not parsed(text).may_fail, text
    for text in ("cast(num AS INT) = 1", "nums[7] = 1", "i / 2 = 1", "b OR -i = 1", "num = 1"):
        assert parsed(text).may_fail, text


def test_without_the_parser_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    assert 'needs the package sqlglot. Install it on the driver: pip install "penstock[where]"' in refused("i = 1")
