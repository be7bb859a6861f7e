"""Reads paths in texts of JSON, without a schema: `value:user.id`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock._kernel import Format
from penstock.predicate.elements import elements

Steps: TypeAlias = tuple[str | int, ...]
"""Names of fields, and indices of elements."""


def json_texts(values: pa.Array, paths: Iterable[Steps]) -> Mapping[Steps, pa.Array]:
    """What each path finds in each text or its bytes, as text. Objects, arrays and numbers are texts of JSON. Null if
    it finds nothing, and for bytes that are not JSON."""
    if pa.types.is_string(values.type):
        values = values.cast(pa.binary())
    return {steps: found for group in in_one_pass(paths) for steps, found in _texts(values, group).items()}


def in_one_pass(paths: Iterable[Steps]) -> list[list[Steps]]:
    """The paths in groups; those of a group are read at once.

    A path into an array is alone, because an element that one path cannot read would hide the others. So is a path that
    another one continues: it finds a text, not fields."""
    distinct = list(dict.fromkeys(paths))
    inner = {path[:end] for path in distinct for end in range(len(path))}
    alone = [path for path in distinct if path in inner or any(isinstance(step, int) for step in path)]
    together = [path for path in distinct if path not in alone]
    return [*([together] if together else []), *([path] for path in alone)]


def _texts(values: pa.Array, paths: Sequence[Steps]) -> Mapping[Steps, pa.Array]:
    format_ = Format.json(pa.field("", _type(paths)))
    parts: dict[Steps, list[pa.Array]] = {steps: [] for steps in paths}
    while len(values):
        decoded = pa.array(format_.decode(values))  # maybe only the first rows, if they take much memory
        for steps, found in parts.items():
            found.append(_found(decoded, steps))
        values = values.slice(len(decoded))
    return {steps: pa.concat_arrays(found) if found else pa.array([], pa.string()) for steps, found in parts.items()}


def _type(paths: Sequence[Steps]) -> pa.DataType:
    """The type that has nothing but the ends of the paths. Several paths have names only."""
    if not paths[0]:
        return pa.string()
    if isinstance(paths[0][0], int):
        return pa.list_(_type([paths[0][1:]]))
    fields: dict[Any, list[Steps]] = {}
    for name, *rest in paths:
        fields.setdefault(name, []).append(tuple(rest))
    return pa.struct([(name, _type(rest)) for name, rest in fields.items()])


def _found(values: pa.Array, steps: Steps) -> pa.Array:
    for step in steps:
        # By index: a name that begins with a dot would be a path.
        if isinstance(step, str):
            values = pc.struct_field(values, [values.type.get_field_index(step)])
        else:
            values = elements(values, step)
    return values
