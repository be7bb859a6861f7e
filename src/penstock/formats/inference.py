"""The schema that JSON documents have in common, by Spark's rules with Spark's default options.

    each document's type -> the least type that holds two of them, again and again -> what is left open is settled

Whole numbers are BIGINT, or DECIMAL if they are too large for that, other numbers DOUBLE; a field that is an object
here and a number there is STRING, which holds any of them as text; one that was only ever null or "" is STRING; empty
objects are left out. Fields are sorted by name. Texts that look like dates stay texts.

Other than Spark: a document whose root is an array is skipped, as the reader does not take it for a row either; so are
documents with 'single quotes'; names that differ in case only are always two fields; and of a name that is twice in an
object the last one counts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.formats.types import MOST_LEVELS, check_size, list_type, struct_type

__all__ = ["infer_json"]

MAX_DECIMAL = 38
LONG = range(-(2**63), 2**63)
LONG_DIGITS = 20
"""What a BIGINT needs as a DECIMAL, says Spark."""


@dataclass(frozen=True, slots=True)
class _Null:
    """A null, or an empty text, which many writers mean by it."""


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
"""Like Spark's parser it looks at the first document of a text and no further."""


def infer_json(values: Sequence[bytes | None]) -> pa.StructType:
    """The struct that these documents have in common. Bad ones are skipped; a ValueError if no object is left."""
    objects = [found for value in values if value is not None and (found := _object_of(value)) is not None]
    if not objects:
        present = sum(value is not None for value in values)
        raise ValueError(
            f"none of {len(values)} records is a JSON object: {len(values) - present} are null, {present} something "
            "else. Is it another format, or does a schema registry's header stand before the document?"
        )
    made = _settled(_all_common(objects))
    if made is None:
        raise ValueError(f"the JSON objects in {len(values)} records have no fields")
    check_size(made)
    return made


def _object_of(value: bytes) -> _Object | None:
    try:
        document, _ = _decode(value.decode().lstrip(" \t\r\n"))
        return _object(document, MOST_LEVELS) if isinstance(document, dict) else None
    except (ValueError, RecursionError):  # also a number too long for Python, or half of a surrogate pair in a name
        return None


def _type_of(document: Any, levels: int) -> _Type:
    """`levels`: how deep it may still nest. Raises ValueError beyond that."""
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
                raise ValueError("nests too deep for a column")
            return _List(_all_common([_type_of(each, levels - 1) for each in document]))
    return _object(document, levels)


def _object(document: dict[str, Any], levels: int) -> _Object:
    if not levels:
        raise ValueError("nests too deep for a column")
    for name in document:
        name.encode()
    return _Object({name: _type_of(value, levels - 1) for name, value in document.items()})


def _all_common(types: Sequence[_Type]) -> _Type:
    """The least type that holds all of these. Objects are merged at once: one after the other, what was found so far
    would be copied for each."""
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
    """The least type that holds both; lists and objects have none with others."""
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


def _settled(type_: _Type) -> Any:
    """Its Arrow type; None for objects that never had a field."""
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
            inner = _settled(element)
            return None if inner is None else list_type(inner)
        case _Object(fields=fields):
            settled = {name: _settled(fields[name]) for name in sorted(fields, key=_java_order) if name}
            kept = {name: inner for name, inner in settled.items() if inner is not None}
            return struct_type(kept) if kept else None


def _java_order(name: str) -> bytes:
    # Java compares UTF-16 units, and so emoji come before, say, full-width letters.
    return name.encode("utf-16-be")
