"""Selects columns, and fields of their structs, by name: what a schema selects, without its types."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.errors import OptionError
from penstock.formats.layout import Layout
from penstock.model.types import list_type, struct_type

OPTION = "columns"


def selected_schema(full: Layout, names: Sequence[str]) -> pa.Schema:
    """The schema that names select. A name is that of a column, or a path with dots into its structs, also through
    arrays of structs: `value.items.price`. A column stands where its first name stands."""
    fields = list(full.schema)
    chosen: dict[tuple[str, ...], str] = {}
    for name in names:
        path = _find(fields, name)
        if path is None:
            raise OptionError(OPTION, name, "is not a column of this source", _hint(fields, name))
        for other, text in chosen.items():
            if path[: len(other)] == other or other[: len(path)] == path:
                within = f"is selected twice: {text} is named too" if other != path else "is named twice"
                raise OptionError(OPTION, name, within, "Name it once")
        chosen[path] = name
    wanted: dict[str, pa.DataType] = {}
    for first, *rest in chosen:
        wanted[first] = with_path(wanted.get(first), full.schema.field(first).type, rest)
    return pa.schema(list(wanted.items()))


def with_path(wanted: pa.DataType | None, full: pa.DataType, path: Sequence[str]) -> pa.DataType:
    """The type with the wanted fields and the field at a path. `wanted` None: no other field."""
    if not path:
        return full
    if pa.types.is_list(full):
        return list_type(with_path(None if wanted is None else wanted.value_type, full.value_type, path))
    fields = {} if wanted is None else {field.name: field.type for field in wanted}
    fields[path[0]] = with_path(fields.get(path[0]), full.field(path[0]).type, path[1:])
    return struct_type(fields)


def _find(fields: Sequence[pa.Field], name: str) -> tuple[str, ...] | None:
    """The path that a name means; None if there is none. A field may have dots in its name: one that is named like the
    whole rest comes before a path into structs."""
    for field in fields:
        if field.name == name:
            return (name,)
    for field in fields:
        if name.startswith(f"{field.name}."):
            below = _find(_inner(field.type), name[len(field.name) + 1 :])
            if below is not None:
                return (field.name, *below)
    return None


def _inner(type_: pa.DataType) -> list[pa.Field]:
    """The fields of a struct, or of the structs in an array."""
    while pa.types.is_list(type_):
        type_ = type_.value_type
    return list(type_) if pa.types.is_struct(type_) else []


def _hint(fields: Sequence[pa.Field], name: str) -> str:
    for field in fields:
        if name.startswith(f"{field.name}.") and pa.types.is_binary(field.type):
            return f"{field.name} is bytes. To select its fields, set its format"
    known = list(_paths(fields))
    near = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]}?" if near else f"There are {', '.join(field.name for field in fields)}"


def _paths(fields: Sequence[pa.Field], above: str = "") -> Iterator[str]:
    for field in fields:
        yield above + field.name
        yield from _paths(_inner(field.type), f"{above}{field.name}.")
