"""Infers the common schema of JSON documents, by Spark's rules with Spark's default options.

    each document's type -> the smallest common type of all documents -> Arrow type

Whole numbers are BIGINT, or DECIMAL if they are too large for that. Other numbers are DOUBLE. A field that is an object
in one document and a number in another is STRING, which holds any of them as text. A field that is always null or "" is
STRING. Objects without fields are dropped. Fields are sorted by name. Strings that look like dates stay strings.

Differences from Spark: a document whose root is an array is skipped, because it does not make a row either. So are
documents with 'single quotes'. Names that differ only in case are always two fields. If an object has a name twice, the
last one counts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.model.types import MOST_LEVELS, check_size, list_type, struct_type

__all__ = ["infer_json"]

MAX_DECIMAL = 38
LONG = range(-(2**63), 2**63)
LONG_DIGITS = 20
"""Digits of a BIGINT as a DECIMAL, as in Spark."""


@dataclass(frozen=True, slots=True)
class _Null:
    """A null, or an empty string, which many writers use for null."""


@dataclass(frozen=True, slots=True)
class _Whole:
    digits: int | None = None
    """None: fits a BIGINT."""


@dataclass(frozen=True, slots=True)
class _Simple:
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class _List:
    element: _Type


@dataclass(frozen=True, slots=True)
class _Object:
    fields: dict[str, _Type]


_Type: TypeAlias = _Null | _Whole | _Simple | _List | _Object

NULL = _Null()
STRING = _Simple(pa.string())
DOUBLE = _Simple(pa.float64())
BOOLEAN = _Simple(pa.bool_())

_decode = json.JSONDecoder().raw_decode
"""Like Spark's parser, it reads only the first document of a text."""


def infer_json(values: Sequence[bytes | None]) -> pa.StructType:
    """The common struct of these documents. Malformed ones are skipped. Raises ValueError if no object is left."""
    objects = [found for value in values if value is not None and (found := _object_of(value)) is not None]
    if not objects:
        present = sum(value is not None for value in values)
        raise ValueError(
            f"none of {len(values)} records is a JSON object: {len(values) - present} are null, {present} something "
            "else. Check the format, and whether the documents begin with a schema registry's header (option "
            "valueFraming)"
        )
    inferred = _arrow_type(_all_common(objects))
    if inferred is None:
        raise ValueError(f"the JSON objects in {len(values)} records have no fields")
    check_size(inferred)
    return inferred


def _object_of(value: bytes) -> _Object | None:
    try:
        document, _ = _decode(value.decode().lstrip(" \t\r\n"))
        return _object(document, MOST_LEVELS) if isinstance(document, dict) else None
    except (ValueError, RecursionError):  # also a number too long for Python, or half of a surrogate pair in a name
        return None


def _type_of(document: Any, levels: int) -> _Type:
    """The type of a document. Raises ValueError if it is nested more than `levels` deep."""
    match document:
        case None | "":
            return NULL
        case str():
            return STRING
        case bool():
            return BOOLEAN
        case int():
            if document in LONG:
                return _Whole()
            digits = len(str(abs(document)))
            return _Whole(digits) if digits <= MAX_DECIMAL else DOUBLE
        case float():
            return DOUBLE
        case list():
            if not levels:
                raise ValueError("is nested too deeply for a column")
            return _List(_all_common([_type_of(each, levels - 1) for each in document]))
    return _object(document, levels)


def _object(document: dict[str, Any], levels: int) -> _Object:
    if not levels:
        raise ValueError("is nested too deeply for a column")
    for name in document:
        name.encode()
    return _Object({name: _type_of(value, levels - 1) for name, value in document.items()})


def _all_common(types: Sequence[_Type]) -> _Type:
    """The smallest type that holds all of these. Objects are merged at once: merging them one by one would copy the
    intermediate result each time."""
    kinds = {type(each) for each in types} - {_Null}
    if kinds == {_Object}:
        fields: dict[str, list[_Type]] = {}
        for each in types:
            for name, inner in each.fields.items() if isinstance(each, _Object) else ():
                fields.setdefault(name, []).append(inner)
        return _Object({name: _all_common(found) for name, found in fields.items()})
    if kinds == {_List}:
        return _List(_all_common([each.element for each in types if isinstance(each, _List)]))
    none: _Type = NULL
    return reduce(_common, types, none)


def _common(one: _Type, other: _Type) -> _Type:
    """The smallest type that holds both; for a list or an object and anything else, STRING."""
    if one == other or isinstance(other, _Null):
        return one
    match one, other:
        case _Null(), _:
            return other
        case _Whole(), _Whole():
            return _Whole(max(one.digits or LONG_DIGITS, other.digits or LONG_DIGITS))
        case (_Whole(), _Simple(type=simple)) | (_Simple(type=simple), _Whole()) if simple == DOUBLE.type:
            return DOUBLE
    return STRING


def _arrow_type(type_: _Type) -> Any:
    """The Arrow type; None for objects without any field."""
    match type_:
        case _Null():
            return pa.string()
        case _Whole(digits=None):
            return pa.int64()
        case _Whole(digits=digits):
            return pa.decimal128(digits, 0)
        case _Simple(type=simple):
            return simple
        case _List(element=element):
            inner = _arrow_type(element)
            return None if inner is None else list_type(inner)
        case _Object(fields=fields):
            typed = {name: _arrow_type(fields[name]) for name in sorted(fields, key=_java_order) if name}
            kept = {name: inner for name, inner in typed.items() if inner is not None}
            return struct_type(kept) if kept else None


def _java_order(name: str) -> bytes:
    # Java compares UTF-16 units, and so emoji come before, say, full-width letters.
    return name.encode("utf-16-be")
