"""Random columns of the types that Spark has: for round trips through the encoders."""

from __future__ import annotations

import datetime
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from penstock.model.types import list_type, map_type, struct_type

UTC = datetime.UTC
NAMES = st.sampled_from(["a", "b", "c", "d", "e", "some_name", "Id"])

INTEGERS = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INSTANTS = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))
"""Naive. Python has no others."""

LEAVES = (
    *INTEGERS,
    pa.bool_(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.timestamp("us"),
    pa.decimal128(9, 2),
    pa.decimal128(38, 18),
)


def leaf_values(type_: pa.DataType, *, millis: bool = False) -> st.SearchStrategy[Any]:
    """`millis`: timestamps without microseconds."""
    if type_ in INTEGERS:
        return st.integers(-(2 ** INTEGERS[type_]), 2 ** INTEGERS[type_] - 1)
    if pa.types.is_floating(type_):
        return st.floats(width=32 if type_ == pa.float32() else 64, allow_nan=False)
    if pa.types.is_decimal(type_):
        unscaled = st.integers(-(10**type_.precision) + 1, 10**type_.precision - 1)
        return unscaled.map(lambda value: Decimal(value).scaleb(-type_.scale, context=_WIDE))
    if pa.types.is_timestamp(type_):
        made = INSTANTS.map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)) if millis else INSTANTS
        return made.map(lambda at: at.replace(tzinfo=UTC)) if type_.tz else made
    plain = {
        pa.bool_(): st.booleans(),
        pa.string(): TEXTS,
        pa.binary(): st.binary(max_size=20),
        pa.date32(): st.dates(),
    }
    return plain[type_]


_WIDE = Context(prec=60)


def types(leaves: tuple[pa.DataType, ...] = LEAVES, *, levels: int = 3) -> st.SearchStrategy[pa.StructType]:
    """Structs with nested types."""
    inner = st.recursive(
        st.sampled_from(leaves),
        lambda below: st.one_of(
            below.map(list_type),
            below.map(lambda value: map_type(pa.string(), value)),
            st.dictionaries(NAMES, below, min_size=1, max_size=3).map(struct_type),
        ),
        max_leaves=levels,
    )
    return st.dictionaries(NAMES, inner, min_size=1, max_size=5).map(struct_type)


def values(
    type_: pa.DataType, *, null_elements: bool = True, null_fields: bool = True, millis: bool = False
) -> st.SearchStrategy[Any]:
    """Values of a type as pyarrow takes them, none of them null itself."""

    def inner(type_: pa.DataType, nulls: bool) -> st.SearchStrategy[Any]:
        made = values(type_, null_elements=null_elements, null_fields=null_fields, millis=millis)
        return st.none() | made if nulls else made

    if pa.types.is_struct(type_):
        return st.fixed_dictionaries({field.name: inner(field.type, null_fields) for field in type_})
    if pa.types.is_list(type_):
        return st.lists(inner(type_.value_type, null_elements), max_size=3)
    if pa.types.is_map(type_):
        pairs = st.dictionaries(TEXTS, inner(type_.item_type, null_elements), max_size=3)
        return pairs.map(lambda pairs: list(pairs.items()))
    return leaf_values(type_, millis=millis)


@st.composite
def columns(draw: Any, leaves: tuple[pa.DataType, ...] = LEAVES, **options: bool) -> pa.StructArray:
    """A struct column, some rows of it null."""
    type_ = draw(types(leaves))
    rows = draw(st.lists(st.none() | values(type_, **options), max_size=5))
    return pa.array(rows, type_)
