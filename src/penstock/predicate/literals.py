"""Literals as Spark reads them: numbers, strings with their escapes, dates and timestamps.

Read from the text of the predicate, not from the parser's tree: what `\\d` or `1.50` means is Spark's rule.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.model.expression import Constant
from penstock.model.types import TIMESTAMP, TIMESTAMP_NTZ

INTEGERS = {"Y": pa.int8(), "S": pa.int16(), "": pa.int32(), "L": pa.int64()}

MOST_DIGITS = 38
"""Of a decimal."""

_NUMBER = re.compile(r"(?P<digits>\d+(?:\.\d*)?|\.\d+)(?P<exponent>[eE][+-]?\d+)?(?P<suffix>[A-Z])?", re.IGNORECASE)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(r"(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)(Z|[+-]\d{2}:\d{2})?")


def number(text: str, *, negative: bool = False) -> Constant:
    """Raises ValueError for a number that Spark does not have."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise ValueError(f"{text} is not a number")
    digits, exponent, suffix = found["digits"], found["exponent"] or "", (found["suffix"] or "").upper()
    sign = "-" if negative else ""
    if suffix == "F":
        raise ValueError(f"{text}: a FLOAT literal is not supported. Write a DOUBLE: {text[:-1]}D")
    if suffix == "D" or (exponent and not suffix):
        return Constant(float(f"{sign}{digits}{exponent}"), pa.float64())
    if not suffix and "." in digits:
        return _decimal(Decimal(f"{sign}{digits}"))
    if suffix not in INTEGERS or exponent or "." in digits:
        raise ValueError(f"{text} is not a number")
    value = int(sign + digits)
    if not suffix:
        kinds = [kind for kind in (pa.int32(), pa.int64()) if _fits(value, kind)]
        return Constant(value, kinds[0]) if kinds else _decimal(Decimal(value))
    if not _fits(value, INTEGERS[suffix]):
        raise ValueError(f"{sign}{text} is out of range")
    return Constant(value, INTEGERS[suffix])


def _fits(value: int, kind: pa.DataType) -> bool:
    return bool(-(1 << (kind.bit_width - 1)) <= value < 1 << (kind.bit_width - 1))


def _decimal(value: Decimal) -> Constant:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale)
    if precision > MOST_DIGITS:
        raise ValueError(f"{value} has more than {MOST_DIGITS} digits")
    return Constant(value, pa.decimal128(precision, scale))


_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
"""What follows a backslash, and what it means. Any other character means itself."""

_ESCAPED = re.compile(
    r"\\(?:u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<octal>[0-1][0-7]{2})|(?P<one>.))|(?P<twice>''|\"\")",
    re.DOTALL,
)


def string(quoted: str) -> str:
    """The string of a literal in quotes, maybe with an `r` before them. Raises ValueError."""
    if quoted[:1] in ("r", "R"):
        return quoted[2:-1]
    return _ESCAPED.sub(lambda found: _unescaped(found, quoted[0]), quoted[1:-1])


def _unescaped(found: re.Match[str], quote: str) -> str:
    if found["twice"]:
        return quote if found["twice"][0] == quote else found["twice"]
    if code := found["short"] or found["long"]:
        value = int(code, 16)
        if 0xD800 <= value < 0xE000 or value > 0x10FFFF:
            raise ValueError(f"{found[0]} is not a character")
        return chr(value)
    if found["octal"]:
        return chr(int(found["octal"], 8))
    return _ESCAPES.get(found["one"], found["one"])


def time_constant(text: str, kind: pa.DataType) -> Constant:
    """A date or timestamp from text, as the type of a column. Raises ValueError.

    A timestamp must name its zone: without one, Spark reads it in the time zone of its session, which a source does not
    know.
    """
    return Constant(_time(text.strip(), kind), kind)


def _time(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_date(kind):
        if _DATE.fullmatch(text) is None:
            raise ValueError(f"{text!r} is not a date. Write it as 2025-01-31")
        return date.fromisoformat(text)
    found = _TIMESTAMP.fullmatch(text)
    if kind == TIMESTAMP_NTZ:
        if found is None or found[2]:
            raise ValueError(f"{text!r} is not a timestamp without a zone. Write it as 2025-01-31T12:00:00")
        return datetime.fromisoformat(text)
    assert kind == TIMESTAMP
    if found is None:
        raise ValueError(f"{text!r} is not a timestamp. Write it as 2025-01-31T12:00:00Z")
    if not found[2]:
        raise ValueError(f"{text!r} names no time zone. Append Z for UTC, or an offset such as +01:00")
    moment = datetime.fromisoformat(text)
    if moment.utcoffset() is not None and abs(moment.utcoffset() or timedelta()) > timedelta(hours=18):
        raise ValueError(f"{text!r}: a zone is at most 18 hours from UTC")
    return moment
