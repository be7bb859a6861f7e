"""The columns of a source: where each comes from, and which ones a user selected."""

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
    """The Kafka column that it comes from. Columns of errors and of event-time watermarks: their own name."""
    type: pa.DataType
    field: str | None = None
    """The field of a flattened value."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a result, in order."""

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
        """The type that a Kafka column must be decoded to; None if no column needs it."""
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
    """All columns of a source. With a prefix, the value's fields are columns."""
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


def select_columns(full: Layout, wanted: pa.Schema) -> Layout:
    """The columns that a user's schema selects. It may drop and reorder columns and fields of structs. It cannot rename
    them or change their type."""
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
    """Columns are found by their names, so each name may occur once."""
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise OptionError("schema", path + name, "occurs twice", "Name it once, and copy the column afterwards")


def prune(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Drop the fields that are not selected from the result of a user's own class, which returns whole structs."""
    if array.type == wanted:
        return array
    if not pa.types.is_struct(wanted):
        return array.cast(wanted)  # matches fields by name, also in lists and maps
    children = [prune(array.field(array.type.get_field_index(field.name)), field.type) for field in wanted]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)


def _check_part(full: pa.DataType, wanted: pa.DataType, path: str) -> None:
    """Check that `wanted` is `full` without some of its fields."""
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
        raise OptionError(
            "schema", f"{path} {wanted}", f"is {full}", "Read it as that type and cast the column afterwards"
        )
