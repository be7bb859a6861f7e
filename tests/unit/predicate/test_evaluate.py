"""Conditions on whole batches. `tests/spark/test_where.py` compares them with Spark; here is what Spark has no equal
for, and what a reader should see at a glance."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.model.columns import TYPES
from penstock.predicate.evaluate import RowError, evaluate, header_values
from support.predicates import ERRORS, SHORT_CIRCUITS, parsed, results, table

HEADERS = [[("a", b"1"), ("b", b"2"), ("a", b"3")], None, [], [("b", None)], [("a", None)], [("a", b"4")]]


def test_a_header_is_the_last_one_of_its_name():
    column = pa.array(HEADERS, TYPES["headers"])
    assert header_values(column, "a").to_pylist() == [b"3", None, None, None, None, b"4"]
    assert header_values(column.slice(3), "a").to_pylist() == [None, None, b"4"]
    assert header_values(column, "none").to_pylist() == [None] * 6
    assert header_values(column.slice(0, 0), "a").to_pylist() == []


def test_logic_has_three_values():
    rows = pa.table({"b": [True, False, None], "i": pa.array([1, 2, None], pa.int32())})
    assert results(parsed("b AND i = 1"), rows) == [True, False, None]
    assert results(parsed("b OR i = 1"), rows) == [True, False, None]
    assert results(parsed("NOT b"), rows) == [False, True, None]
    assert results(parsed("i IN (1, NULL)"), rows) == [True, None, None]
    assert results(parsed("i NOT IN (1, NULL)"), rows) == [False, None, None]
    assert results(parsed("i <=> NULL"), rows) == [False, False, True]
    assert results(parsed("true"), rows) == [True, True, True]
    assert results(parsed("NULL"), rows) == [None, None, None]


def test_slices_of_lists_and_maps_keep_their_rows():
    maps = pa.array([[("k", 1)], [], None, [("k", 4)]], pa.map_(pa.string(), pa.int32()))
    data = pa.table({"nums": [[1], [2, 3], None, []], "m": maps})
    assert results(parsed("get(nums, 1) = 3"), data.slice(1)) == [True, None, None]
    assert results(parsed("m['k'] = 4"), data.slice(1)) == [None, None, True]


@pytest.mark.parametrize("text", ERRORS)
def test_a_row_without_a_value_is_an_error(text):
    with pytest.raises(RowError):
        results(parsed(text), table())


def test_an_error_names_the_part_the_value_and_the_row():
    rows = pa.table({"num": ["1", "x", "y"]})
    with pytest.raises(RowError) as caught:
        results(parsed("cast(num AS INT) = 1"), rows)
    assert (str(caught.value), caught.value.row) == ("CAST(num AS INT): 'x' cannot be cast from STRING to INT", 1)
    assert caught.value.hint == "try_cast gives null instead"


@pytest.mark.parametrize("text", SHORT_CIRCUITS)
def test_what_is_not_evaluated_is_not_an_error(text):
    results(parsed(text), table())


@pytest.mark.parametrize("text", [*ERRORS, *SHORT_CIRCUITS])
def test_no_row_is_no_error(text):
    empty = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in table().schema], schema=table().schema)
    assert evaluate(parsed(text).condition, 0, empty.column).to_pylist() == []
