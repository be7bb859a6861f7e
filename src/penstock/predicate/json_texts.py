"""Reads a path in texts of JSON, without a schema: `value:user.id`."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock._kernel import Format
from penstock.predicate.elements import elements


def json_texts(values: pa.Array, steps: Sequence[str | int]) -> pa.Array:
    """What a path finds in each text or its bytes, as text. Objects, arrays and numbers are texts of JSON. Null if it
    finds nothing, and for bytes that are not JSON."""
    if pa.types.is_string(values.type):
        values = values.cast(pa.binary())
    format_ = Format.json(pa.field("", _type(steps)))
    parts = []
    while len(values):
        decoded = pa.array(format_.decode(values))  # maybe only the first rows, if they take much memory
        parts.append(_found(decoded, steps))
        values = values.slice(len(decoded))
    return pa.concat_arrays(parts) if parts else pa.array([], pa.string())


def _type(steps: Sequence[str | int]) -> pa.DataType:
    """The type that has nothing but the end of a path."""
    made: pa.DataType = pa.string()
    for step in reversed(steps):
        made = pa.struct([(step, made)]) if isinstance(step, str) else pa.list_(made)
    return made


def _found(values: pa.Array, steps: Sequence[str | int]) -> pa.Array:
    for step in steps:
        values = pc.struct_field(values, [0]) if isinstance(step, str) else elements(values, step)
    return values
