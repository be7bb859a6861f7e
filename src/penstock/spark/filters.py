"""Translates a query's filters into the offsets, partitions and times to read.

Spark applies every filter again. So a filter that is not pushed down costs time, but never a wrong row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from penstock.model.narrowing import EVERYTHING, Narrowing


def narrowing_of(filters: Iterable[Filter], prefix: str = "") -> Narrowing:
    """The part of a read that all filters leave. `prefix`: of the names of Kafka's columns."""
    narrowing = EVERYTHING
    for each in filters:
        plain = _without_prefix(each, prefix)
        if plain is not None:
            narrowing = _narrow_by(narrowing, plain)
    return narrowing


def _without_prefix(condition: Filter, prefix: str) -> Filter | None:
    """The condition with the column's name in Kafka; None if it is not on a column of Kafka."""
    if not prefix:
        return condition
    attribute: tuple[str, ...] = getattr(condition, "attribute", ())
    if len(attribute) != 1 or not attribute[0].startswith(prefix):
        return None
    values = {each.name: getattr(condition, each.name) for each in fields(condition)}
    return type(condition)(**values | {"attribute": (attribute[0].removeprefix(prefix),)})


def _narrow_by(narrowing: Narrowing, condition: Filter) -> Narrowing:
    match condition:
        case EqualTo(("topic",), str() as topic):
            return replace(narrowing, topics=_both(narrowing.topics, {topic}))
        case In(("topic",), topics):
            return replace(narrowing, topics=_both(narrowing.topics, topics))
        case EqualTo(("partition",), int() as partition):
            return replace(narrowing, partitions=_both(narrowing.partitions, {partition}))
        case In(("partition",), partitions):
            return replace(narrowing, partitions=_both(narrowing.partitions, partitions))
        case EqualTo(("offset",), int() as offset):
            return _at_most(_at_least(narrowing, offset), offset)
        case GreaterThan(("offset",), int() as offset):
            return _at_least(narrowing, offset + 1)
        case GreaterThanOrEqual(("offset",), int() as offset):
            return _at_least(narrowing, offset)
        case LessThan(("offset",), int() as offset):
            return _at_most(narrowing, offset - 1)
        case LessThanOrEqual(("offset",), int() as offset):
            return _at_most(narrowing, offset)
        case (
            EqualTo(("timestamp",), datetime() as moment)
            | GreaterThan(("timestamp",), datetime() as moment)
            | GreaterThanOrEqual(("timestamp",), datetime() as moment)
        ):
            return _not_before(narrowing, moment)
        case _:
            return narrowing


def _both(known: frozenset[Any] | None, wanted: Iterable[Any]) -> frozenset[Any]:
    return frozenset(wanted) if known is None else known & frozenset(wanted)


def _at_least(narrowing: Narrowing, offset: int) -> Narrowing:
    return replace(narrowing, min_offset=max(narrowing.min_offset, offset))


def _at_most(narrowing: Narrowing, offset: int) -> Narrowing:
    known = narrowing.max_offset
    return replace(narrowing, max_offset=offset if known is None else min(known, offset))


def _not_before(narrowing: Narrowing, moment: datetime) -> Narrowing:
    if moment.tzinfo is None:
        return narrowing  # ambiguous without a time zone
    milliseconds = int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000) - 1
    if milliseconds < 0:
        return narrowing  # to Kafka, negative times have special meanings
    known = narrowing.min_timestamp
    return replace(narrowing, min_timestamp=milliseconds if known is None else max(known, milliseconds))
