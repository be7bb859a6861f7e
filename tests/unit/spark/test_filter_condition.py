"""Which filters of a query become a condition that tasks apply, and what they mean."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from penstock.config.formats import default_formats
from penstock.formats.plan import TypedSource
from penstock.formats.spec import Json, RawBytes
from penstock.model.types import TIMESTAMP, struct_type
from penstock.predicate.evaluate import evaluate
from penstock.spark.filter_condition import with_filters

VALUE = struct_type(
    {
        "n": pa.int32(),
        "d": pa.float64(),
        "s": pa.string(),
        "b": pa.bool_(),
        "at": TIMESTAMP,
        "day": pa.date32(),
        "price": pa.decimal128(8, 2),
        "in": struct_type({"s": pa.string()}),
    }
)
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
FIELDS = [
    {"n": 1, "d": 0.5, "s": "abc", "b": True, "at": NOON, "day": date(2026, 1, 2), "in": {"s": "x"}},
    {"n": 2, "d": float("nan"), "s": "a%c", "b": False, "at": NOON.replace(hour=13), "day": None, "in": None},
    {"n": None, "d": None, "s": None, "b": None, "at": None, "day": None, "in": {"s": None}},
    None,
]
COLUMN = pa.array(FIELDS, VALUE)


def plan_of(where=None):
    source = TypedSource(RawBytes(), Json(VALUE), default_formats())
    return source.plan(where=source.parse_where(where))


def met(*filters, where=None):
    plan = with_filters(plan_of(where), filters)
    return (
        None if plan.where is None else evaluate(plan.where.condition, len(COLUMN), {"value": COLUMN}.get).to_pylist()
    )


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (EqualTo(("value", "n"), 1), [True, False, None, None]),
        (EqualNullSafe(("value", "n"), 1), [True, False, False, False]),
        (Not(EqualTo(("value", "n"), 1)), [False, True, None, None]),
        (GreaterThan(("value", "n"), 1), [False, True, None, None]),
        (GreaterThanOrEqual(("value", "n"), 1), [True, True, None, None]),
        (LessThan(("value", "d"), 1.0), [True, False, None, None]),
        (GreaterThan(("value", "d"), 1.0), [False, True, None, None]),
        (LessThanOrEqual(("value", "s"), "a%c"), [False, True, None, None]),
        (In(("value", "s"), ("abc", "x")), [True, False, None, None]),
        (IsNull(("value", "in", "s")), [False, True, True, True]),
        (IsNotNull(("value",)), [True, True, True, False]),
        (StringStartsWith(("value", "s"), "a%"), [False, True, None, None]),
        (StringEndsWith(("value", "s"), "bc"), [True, False, None, None]),
        (StringContains(("value", "s"), "%"), [False, True, None, None]),
        (EqualTo(("value", "b"), True), [True, False, None, None]),
        (GreaterThan(("value", "at"), NOON), [False, True, None, None]),
        (EqualTo(("value", "day"), date(2026, 1, 2)), [True, None, None, None]),
    ],
    ids=str,
)
def test_a_filter_means_what_it_means_in_spark(condition, expected):
    assert met(condition) == expected


@pytest.mark.parametrize(
    "condition",
    [
        EqualTo(("offset",), 3),
        EqualTo(("key",), b"k"),
        EqualTo(("value", "none"), 3),
        EqualTo(("value", "price"), Decimal("1.50")),
        EqualTo(("value", "n"), "1"),
        EqualTo(("value", "n"), True),
        GreaterThan(("value", "at"), NOON.replace(tzinfo=None)),
        In(("value", "d"), (1.0,)),
        In(("value", "n"), (1, None)),
        Not(EqualTo(("value", "price"), Decimal("1.50"))),
        StringContains(("value", "n"), "1"),
    ],
    ids=str,
)
def test_what_is_not_translated_stays_with_spark(condition):
    assert with_filters(plan_of(), [condition]) == plan_of()


def test_filters_and_the_option_where_must_all_be_met():
    assert met(EqualTo(("value", "b"), True), EqualTo(("value", "n"), 1)) == [True, False, None, None]
    assert met(EqualTo(("value", "b"), True), where="value.n = 2") == [False, False, None, None]
    plan = with_filters(plan_of("value.n = 2"), [IsNotNull(("value", "s"))])
    assert plan.where.text == "value.n = 2, and the filters of the query"
