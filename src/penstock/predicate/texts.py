"""Functions of strings, with Spark's results also for text that is not ASCII, and for bytes that are not UTF-8."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.expression import Function


def call(name: Function, values: pa.Array) -> pa.Array:
    if name == "length":
        return _length(values)
    values = decodable(values)
    ascii_only = pc.all(pc.string_is_ascii(values)).as_py()
    if name == "lower":
        return pc.ascii_lower(values) if ascii_only is not False else _each(values, str.lower)
    return pc.ascii_upper(values) if ascii_only is not False else _each(values, str.upper)


def _each(values: pa.Array, change: object) -> pa.Array:
    # Arrow maps single characters, but Spark maps whole words: ß to SS, and Σ at the end of a word to ς.
    assert callable(change)
    return pa.array([None if text is None else change(text) for text in values.to_pylist()], pa.string())


def decodable(values: pa.Array) -> pa.Array:
    """The strings, with U+FFFD for bytes that are not UTF-8, as Java decodes them. `cast(value AS STRING)` checks
    nothing."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        raw = values.view(pa.binary()).to_pylist()
        return pa.array([None if text is None else text.decode(errors="replace") for text in raw], pa.string())
    return values


def _length(values: pa.Array) -> pa.Array:
    if pa.types.is_binary(values.type):
        return pc.binary_length(values)
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        raw = values.view(pa.binary()).to_pylist()
        return pa.array([None if text is None else _characters(text) for text in raw], pa.int32())
    return pc.utf8_length(values)


def _characters(text: bytes) -> int:
    """How many characters Spark counts: each first byte says how many bytes belong to its character."""
    at = count = 0
    while at < len(text):
        first = text[at]
        at += 2 if 0xC2 <= first <= 0xDF else 3 if 0xE0 <= first <= 0xEF else 4 if 0xF0 <= first <= 0xF4 else 1
        count += 1
    return count
