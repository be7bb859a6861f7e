"""Spark's implicit casts in ANSI mode: the type as which two values are compared or computed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.model.expression import Cast, Constant, Expression, JsonText
from penstock.model.types import type_name
from penstock.predicate.literals import MOST_DIGITS, time_constant

types = pa.types

_PRECEDENCE = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()]

_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
"""Digits of the decimal that holds every integer of a type."""


def is_number(kind: pa.DataType) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type to which Spark casts both sides of a comparison; None if it has none, or this module does not know it.

    Strings beside times are left out: only constants can be read without the time zone of the session.
    """
    if left == right:
        return left
    if types.is_null(left) or types.is_null(right):
        return right if types.is_null(left) else left
    if types.is_string(left) or types.is_string(right):
        return _beside_string(right if types.is_string(left) else left)
    if not (is_number(left) and is_number(right)):
        return None
    if types.is_decimal(left) or types.is_decimal(right):
        return _with_decimal(left, right)
    wider = max(left, right, key=_PRECEDENCE.index)
    return pa.float64() if types.is_floating(wider) else wider  # never FLOAT: an INT does not fit


def _beside_string(other: pa.DataType) -> pa.DataType | None:
    if types.is_integer(other):
        return pa.int64()
    if is_number(other):
        return pa.float64()
    return other if types.is_boolean(other) or types.is_binary(other) else None


def _with_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if types.is_floating(left) or types.is_floating(right):
        return pa.float64()
    (left_digits, left_scale), (right_digits, right_scale) = _decimal_of(left), _decimal_of(right)
    scale = max(left_scale, right_scale)
    digits = max(left_digits - left_scale, right_digits - right_scale) + scale
    return pa.decimal128(digits, scale) if digits <= MOST_DIGITS else None


def _decimal_of(kind: pa.DataType) -> tuple[int, int]:
    return (kind.precision, kind.scale) if types.is_decimal(kind) else (_DIGITS[kind], 0)


def cast_to(kind: pa.DataType, of: Expression) -> Expression:
    """An expression as another type: an implicit cast. A constant is cast here. Raises ValueError.

    What a path finds in JSON may have another type in each record. One that cannot be cast is null, not an error.
    """
    if of.type == kind:
        return of
    if isinstance(of, Constant):
        return Constant(_constant(of, kind), kind)
    return Cast(of, kind, tries=isinstance(of, JsonText), text=f"the implicit cast to {type_name(kind)}")


def _constant(of: Constant, kind: pa.DataType) -> Any:
    value = of.value
    if value is None:
        return None
    if types.is_string(of.type):
        return _of_string(value, kind)
    if types.is_floating(kind):
        return float(value)
    if types.is_decimal(kind):
        return Decimal(value)
    return value  # an integer as a wider one


def _of_string(text: str, kind: pa.DataType) -> Any:
    if types.is_binary(kind):
        return text.encode()
    if types.is_timestamp(kind) or types.is_date(kind):
        return time_constant(text, kind).value
    from penstock.predicate.casts import from_text

    value = from_text(text, kind)
    if value is None:
        raise ValueError(f"{text!r} cannot be cast to {type_name(kind)}")
    return value
