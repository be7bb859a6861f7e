"""Translates a query's filters on typed columns into a condition that tasks apply, with the engine of `where`.

Spark applies every filter again. So a filter that is not translated costs time, but never a wrong row. A translated one
must never drop a row that Spark would keep.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
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

from penstock.formats.layout import Layout
from penstock.formats.plan import TypedPlan
from penstock.model import expression as ex
from penstock.predicate.java_regex import like

types = pa.types

COMPARISONS: dict[type[Filter], ex.Comparison] = {
    EqualTo: "=",
    EqualNullSafe: "<=>",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}

TEXT = "the filters of the query"


def with_filters(plan: TypedPlan, filters: Iterable[Filter]) -> TypedPlan:
    """The plan whose tasks drop rows that do not meet the filters, as far as these are on typed columns and can be
    translated."""
    conditions = [made for each in filters if (made := _condition(each, plan.layout)) is not None]
    if not any(_is_decoded(condition, plan) for condition in conditions):
        return plan  # filters on Kafka's own columns alone narrow offsets, and need no plan in two steps
    if plan.where is not None:
        conditions.insert(0, plan.where.condition)
    text = TEXT if plan.where is None else f"{plan.where.text}, and {TEXT}"
    return replace(plan, where=ex.Where(text, reduce(ex.And, conditions)))


def _is_decoded(condition: ex.Expression, plan: TypedPlan) -> bool:
    return any(isinstance(part, ex.Field) and part.source in plan.specs for part in ex.walk(condition))


def _condition(of: Filter, layout: Layout) -> ex.Expression | None:
    """The exact meaning of a filter; None if it is not known here."""
    match of:
        case Not(child):
            inner = _condition(child, layout)
            return None if inner is None else ex.Not(inner)
        case IsNull(attribute):
            field = _field(attribute, layout)
            return None if field is None else ex.IsNull(field)
        case IsNotNull(attribute):
            field = _field(attribute, layout)
            return None if field is None else ex.Not(ex.IsNull(field))
        case In(attribute, values):
            field = _field(attribute, layout)
            if field is None or types.is_floating(field.type) or not all(_fits(each, field.type) for each in values):
                return None
            return ex.OneOf(field, tuple(map(_plain, values)), or_null=False)
        case StringStartsWith(attribute, text):
            return _matches(attribute, f"{_quoted(text)}%", layout)
        case StringEndsWith(attribute, text):
            return _matches(attribute, f"%{_quoted(text)}", layout)
        case StringContains(attribute, text):
            return _matches(attribute, f"%{_quoted(text)}%", layout)
    if (operator := COMPARISONS.get(type(of))) is None:
        return None
    field = _field(of.attribute, layout)  # type: ignore[attr-defined]
    value = of.value  # type: ignore[attr-defined]
    if field is None or not _fits(value, field.type):
        return None
    return ex.Compare(operator, field, ex.Constant(_plain(value), field.type))


def _matches(attribute: tuple[str, ...], pattern: str, layout: Layout) -> ex.Expression | None:
    field = _field(attribute, layout)
    if field is None or not types.is_string(field.type):
        return None
    try:
        return ex.Matches(field, *like(pattern))
    except ValueError:  # too large for RE2
        return None


def _quoted(text: str) -> str:
    """A text in a pattern of LIKE."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _field(attribute: tuple[str, ...], layout: Layout) -> ex.Field | None:
    """The column or field of a name; None if it is none that can be compared, as a column of errors."""
    for column in layout.columns:
        if column.name != attribute[0] or column.source not in ("key", "value"):
            continue
        kind, path = column.type, () if column.field is None else (column.field,)
        for name in attribute[1:]:
            at = kind.get_field_index(name) if types.is_struct(kind) else -1
            if at < 0:
                return None
            kind, path = kind.field(at).type, (*path, name)
        return ex.Field(column.source, path, kind)
    return None


def _fits(value: Any, kind: pa.DataType) -> bool:
    """Whether a value that Spark passes has the type of a column, so that both are compared as they are."""
    match value:
        case bool():
            return bool(types.is_boolean(kind))
        case int():
            return bool(types.is_integer(kind))
        case float():
            return bool(types.is_floating(kind))
        case str():
            return bool(types.is_string(kind))
        case bytes() | bytearray():
            return bool(types.is_binary(kind))
        case Decimal():
            return False  # its scale may be another one
        case datetime():
            return bool(types.is_timestamp(kind)) and (value.tzinfo is None) == (kind.tz is None)
        case date():
            return bool(types.is_date(kind))
    return False


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value
