"""Casts of whole columns, with the results of Spark's in ANSI mode.

A cast returns the values, null where one cannot be cast. The caller decides whether such a value is an error.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

types = pa.types

BLANKS = "".join(map(chr, range(33)))
CONTROLS = BLANKS + "\x7f"
"""What Spark trims before it reads an integer or a boolean: blanks and control characters of ASCII."""

TRUE, FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")

_INTEGER = r"\A[+-]?[0-9]+\z"
_DOUBLE = r"\A[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\z"
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[dDfF]?")
_INFINITY = re.compile(r"([+-]?)inf(?:inity)?")


def can_cast(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast is supported."""
    if source == target or types.is_null(source):
        return True
    if types.is_string(target):
        return bool(types.is_binary(source) or types.is_integer(source) or types.is_boolean(source))
    if types.is_binary(target):
        return bool(types.is_string(source))
    if types.is_integer(target) or types.is_boolean(target):
        whole = types.is_string(source) or types.is_integer(source) or types.is_boolean(source)
        return bool(whole or (types.is_floating(source) and types.is_integer(target)))
    if types.is_floating(target):
        if types.is_string(source):
            return bool(types.is_float64(target))
        return bool(types.is_integer(source) or types.is_floating(source) or types.is_boolean(source)) or (
            types.is_decimal(source) and types.is_float64(target)
        )
    return False


def cast(values: pa.Array, target: pa.DataType) -> pa.Array:
    """The values as another type; null where a value cannot be cast."""
    source = values.type
    if source == target:
        return values
    if types.is_null(source):
        return pa.nulls(len(values), target)
    if types.is_string(source) and not types.is_binary(target):
        return _of_strings(values, target)
    if types.is_string(target) or types.is_binary(target):
        # Spark does not check whether bytes are UTF-8, so this must not either: a view.
        return values.view(target) if types.is_binary(source) or types.is_string(source) else values.cast(target)
    if types.is_integer(target) and not types.is_boolean(source):
        return _narrowed(values, target)
    if types.is_decimal(source) and types.is_floating(target):
        # Arrow's own cast may be off by one bit.
        return pa.array([None if value is None else float(value) for value in values.to_pylist()], target)
    return values.cast(target, safe=False)


def _narrowed(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Numbers as integers: without their fractions; null where they are out of range."""
    bits = target.bit_width - 1
    low, high = -(1 << bits), (1 << bits) - 1
    if types.is_integer(values.type):
        if values.type.bit_width <= target.bit_width:
            return values.cast(target)
        inside = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
        return pc.if_else(inside, values, None).cast(target)
    whole = pc.trunc(values).cast(pa.float64())
    inside = pc.and_(pc.greater_equal(whole, float(low)), pc.less_equal(whole, float(high)))
    most = pc.greater_equal(whole, float(1 << bits))  # 2^63 passes Spark's check, and becomes the largest BIGINT
    kept = pc.if_else(pc.and_(inside, pc.invert(most)), whole, None).cast(target, safe=False)
    return pc.if_else(pc.and_(inside, most), pa.scalar(high, target), kept)


def _of_strings(values: pa.Array, target: pa.DataType) -> pa.Array:
    if types.is_boolean(target):
        trimmed = pc.ascii_lower(pc.utf8_trim(values, characters=CONTROLS))
        yes = pc.is_in(trimmed, value_set=pa.array(TRUE))
        known = pc.or_(yes, pc.is_in(trimmed, value_set=pa.array(FALSE)))
        return pc.if_else(pc.and_(known, pc.is_valid(values)), yes, None)
    if types.is_integer(target):
        trimmed = pc.utf8_trim(values, characters=CONTROLS)
        plain = pc.match_substring_regex(trimmed, pattern=_INTEGER)
        short = pc.less_equal(pc.binary_length(trimmed), 18)  # fits into 64 bits
        simple, kind = pc.and_(plain, short), pa.int64()
        parsed = pc.utf8_ltrim(pc.if_else(simple, trimmed, None), characters="+").cast(kind)
    else:
        try:
            made = values.cast(target)
        except pa.ArrowInvalid:
            pass
        else:
            if pc.all(pc.is_finite(made)).as_py() is not False:  # Arrow knows other words than Java, such as -nan
                return made
        trimmed = pc.utf8_trim(values, characters=BLANKS)
        simple, kind = pc.match_substring_regex(trimmed, pattern=_DOUBLE), target
        parsed = pc.utf8_ltrim(pc.if_else(simple, trimmed, None), characters="+").cast(kind)
    if pc.any(pc.invert(simple)).as_py():
        rare = [
            None if is_simple is not False else from_text(text, kind)
            for is_simple, text in zip(simple.to_pylist(), trimmed.to_pylist(), strict=True)
        ]
        parsed = pc.coalesce(parsed, pa.array(rare, kind))
    return parsed if kind == target else _narrowed(parsed, target)


def from_text(text: str, target: pa.DataType) -> Any:
    """One string as a number or boolean; None if it cannot be cast."""
    if types.is_boolean(target):
        word = text.strip(CONTROLS).lower()
        return True if word in TRUE else False if word in FALSE else None
    if types.is_integer(target):
        trimmed = text.strip(CONTROLS)
        if re.fullmatch(r"[+-]?[0-9]+", trimmed) is None:
            return None
        value, bits = int(trimmed) if len(trimmed) < 4000 else 1 << 64, target.bit_width - 1
        return value if -(1 << bits) <= value < 1 << bits else None
    return _double(text.strip(BLANKS))


def _double(text: str) -> float | None:
    """A number as Java reads it: also with a suffix, in hexadecimal, or as a word."""
    if re.fullmatch(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?", text):
        return float(text.rstrip("dDfF"))
    if _HEXADECIMAL.fullmatch(text):
        try:
            return float.fromhex(text.rstrip("dDfF") if text[-1] in "dDfF" else text)
        except OverflowError:
            return float("-inf" if text.startswith("-") else "inf")
    if found := _INFINITY.fullmatch(text.lower()):
        return float(f"{found[1]}inf")
    return float("nan") if text.lower() == "nan" or text in ("+NaN", "-NaN") else None
