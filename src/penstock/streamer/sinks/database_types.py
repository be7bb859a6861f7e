"""Rows made to fit the columns of a table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RowsRefused, SinkError


def fitted(rows: pa.Table, target: pa.Schema) -> pa.Table:
    """The rows as the table's columns are.

    PostgreSQL's driver copies bytes and converts nothing: an int64 is refused by an `integer`, and four letters would
    become one. Other drivers convert by themselves, and SQLite's only guesses what a column holds.
    """
    for at, field in enumerate(rows.schema):
        if field.name not in target.names:
            continue
        wanted = target.field(field.name)
        native = (wanted.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
        if not native or wanted.type == field.type:
            continue
        if native == "jsonb" and _kind(field.type) == "text":
            # Its binary form is a version, 1, before the text; the driver sends the text alone.
            text = rows.column(at).cast(pa.binary())
            rows = rows.set_column(at, field.name, pc.binary_join_element_wise(b"\x01", text, b""))
        elif _kind(field.type) == _kind(wanted.type) and _kind(field.type) in ("integer", "float"):
            try:
                column = rows.column(at).cast(wanted.type)
            except pa.ArrowInvalid as error:
                raise RowsRefused(f"column {field.name!r} of the table is {native}: {error}") from error
            rows = rows.set_column(at, field.name, column)
        elif _kind(field.type) != _kind(wanted.type) and (_kind(wanted.type) or native == "uuid"):
            raise SinkError(f"column {field.name!r} is {field.type} here and {native} in the table: make them the same")
    return rows


def _kind(type_: pa.DataType) -> str:
    """Types of one kind are converted, or stand for the same; empty for those that the driver has to judge."""
    types = pa.types
    if types.is_dictionary(type_):
        return _kind(type_.value_type)
    if types.is_integer(type_):
        return "integer"
    if types.is_floating(type_):
        return "float"
    if types.is_string(type_) or types.is_large_string(type_) or types.is_binary(type_) or types.is_large_binary(type_):
        return "text"
    if types.is_boolean(type_):
        return "boolean"
    return "time" if types.is_timestamp(type_) else "date" if types.is_date(type_) else ""
