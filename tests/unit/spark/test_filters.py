"""Which filters narrow a read, and which do not."""

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from penstock.model.narrowing import EVERYTHING, Narrowing
from penstock.spark.filters import narrowing_of

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
MOMENT_MS = 1_767_323_045_678


@pytest.mark.parametrize(
    ("filters", "narrowing"),
    [
        ([], EVERYTHING),
        ([EqualTo(("topic",), "a")], Narrowing(topics=frozenset({"a"}))),
        ([In(("topic",), ("a", "b")), EqualTo(("topic",), "b")], Narrowing(topics=frozenset({"b"}))),
        ([EqualTo(("topic",), "a"), EqualTo(("topic",), "b")], Narrowing(topics=frozenset())),
        ([In(("partition",), (1, 2))], Narrowing(partitions=frozenset({1, 2}))),
        ([EqualTo(("offset",), 7)], Narrowing(min_offset=7, max_offset=7)),
        ([GreaterThan(("offset",), 7), LessThan(("offset",), 9)], Narrowing(min_offset=8, max_offset=8)),
        ([GreaterThanOrEqual(("offset",), 7), LessThanOrEqual(("offset",), 9)], Narrowing(min_offset=7, max_offset=9)),
        ([GreaterThan(("offset",), 7), GreaterThan(("offset",), 3)], Narrowing(min_offset=8)),
        ([LessThan(("offset",), 7), LessThan(("offset",), 9)], Narrowing(max_offset=6)),
    ],
)
def test_what_narrows(filters, narrowing):
    assert narrowing_of(filters) == narrowing


@pytest.mark.parametrize("condition", [EqualTo, GreaterThan, GreaterThanOrEqual])
def test_a_time_narrows_to_the_millisecond_before_it_at_most(condition):
    narrowing = narrowing_of([condition(("timestamp",), MOMENT)])
    assert narrowing.min_timestamp in (MOMENT_MS - 1, MOMENT_MS)


@pytest.mark.parametrize(
    "condition",
    [
        LessThan(("timestamp",), MOMENT),
        GreaterThan(("timestamp",), MOMENT.replace(tzinfo=None)),
        GreaterThan(("timestamp",), datetime(1960, 1, 1, tzinfo=UTC)),
        Not(EqualTo(("topic",), "a")),
        IsNotNull(("offset",)),
        StringStartsWith(("topic",), "a"),
        EqualTo(("value",), b"a"),
        EqualTo(("headers", "key"), "a"),
    ],
)
def test_what_is_left_to_spark(condition):
    assert narrowing_of([condition]) == EVERYTHING
