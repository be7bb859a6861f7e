"""Which columns leave the source, where each of them comes from, and which part of them a user picked."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import OptionError
from penstock.model.columns import TYPES
from penstock.model.watermark_columns import WATERMARK_COLUMNS

CORRUPT = "_corrupt_record"
ERROR = "_error"
ERROR_COLUMNS = {CORRUPT: pa.binary(), ERROR: pa.string()}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the result."""

    name: str
    source: str
    """The Kafka column it is made of; its own name, if it is one of errors or event-time watermarks."""
    type: pa.DataType
    field: str | None = None
    """The field of a flattened value."""


@dataclass(frozen=True, slots=True)
class Layout:
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(column.name, column.type) for column in self.columns])

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def sources(self) -> set[str]:
        return {column.source for column in self.columns}

    def wanted(self, source: str) -> pa.DataType | None:
        """The type that a Kafka column has to be decoded to for this; None if nobody looks at it."""
        mine = [column for column in self.columns if column.source == source]
        if not mine:
            return None
        if mine[0].field is None:
            return mine[0].type
        return pa.struct([(column.field, column.type) for column in mine])


def full_layout(
    key: pa.DataType,
    value: pa.DataType,
    *,
    include_headers: bool = False,
    include_errors: bool = False,
    include_watermarks: bool = False,
    prefix: str | None = None,
) -> Layout:
    """Every column there is: Kafka's with their types, or, with a prefix, flattened."""
    types = TYPES | {"key": key, "value": value}
    names = [name for name in types if include_headers or name != "headers"]
    columns: list[Column] = []
    if prefix is None:
        columns = [Column(name, name, types[name]) for name in names]
    else:
        if pa.types.is_struct(value):
            columns = [Column(field.name, "value", field.type, field.name) for field in value]
            names.remove("value")
        columns += [Column(prefix + name, name, types[name]) for name in names]
    if include_errors:
        columns += [Column(name, name, kind) for name, kind in ERROR_COLUMNS.items()]
    if include_watermarks:
        columns += [Column(name, name, kind) for name, kind in WATERMARK_COLUMNS.items()]
    _check_names(column.name for column in columns)
    return Layout(tuple(columns))


def _check_names(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise OptionError("flatten", "true", f"makes two columns {name!r}", "Set another flattenPrefix")
        seen.add(name)


def picked(full: Layout, wanted: pa.Schema) -> Layout:
    """What a user's own schema leaves of the columns there are. It may leave out and reorder, also inside of
    structs; it cannot rename or retype."""
    known = {column.name: column for column in full.columns}
    _check_once(wanted.names, "")
    columns = []
    for field in wanted:
        column = known.get(field.name)
        if column is None:
            near = difflib.get_close_matches(field.name, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"The columns are {', '.join(known)}"
            raise OptionError("schema", field.name, "is not a column of this source", hint)
        _check_part(column.type, field.type, field.name)
        columns.append(Column(column.name, column.source, field.type, column.field))
    return Layout(tuple(columns))


def _check_once(names: Sequence[str], path: str) -> None:
    """Columns are found by their names: the second one would be another's, or none."""
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise OptionError("schema", path + name, "is there twice", "Name it once, and copy it afterwards")


def part_of(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A part of what a user's own class has made: it makes whole structs."""
    if array.type == wanted:
        return array
    if not pa.types.is_struct(wanted):
        return array.cast(wanted)  # by name, also inside of lists and maps
    children = [part_of(array.field(array.type.get_field_index(field.name)), field.type) for field in wanted]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)


def _check_part(full: pa.DataType, wanted: pa.DataType, path: str) -> None:
    """Whether a type is a part of another one: the same, but for fields that are left out."""
    types = pa.types
    if types.is_struct(full) and types.is_struct(wanted):
        known = {field.name: field.type for field in full}
        _check_once([field.name for field in wanted], f"{path}.")
        for field in wanted:
            if field.name not in known:
                near = difflib.get_close_matches(field.name, known, n=1)
                hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(known)}"
                raise OptionError("schema", f"{path}.{field.name}", "is not a field of the data's schema", hint)
            _check_part(known[field.name], field.type, f"{path}.{field.name}")
    elif types.is_list(full) and types.is_list(wanted):
        _check_part(full.value_type, wanted.value_type, f"{path}.element")
    elif types.is_map(full) and types.is_map(wanted):
        _check_part(full.key_type, wanted.key_type, f"{path}.key")
        _check_part(full.item_type, wanted.item_type, f"{path}.value")
    elif full != wanted:
        raise OptionError("schema", f"{path} {wanted}", f"is {full}", "Read it as that and cast it afterwards")
