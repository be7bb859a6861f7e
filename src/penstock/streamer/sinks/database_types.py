"""Conversion of rows to the column types of a table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RowsRefused, SinkError


def fitted(rows: pa.Table, target: pa.Schema) -> pa.Table:
    """The rows with the types of the table's columns.

    PostgreSQL's driver copies bytes and does not convert: an `integer` column refuses an int64, and stores text of four
    bytes as one number. Other drivers convert by themselves, and SQLite's only guesses the type of a column.
    """
    for at, field in enumerate(rows.schema):
        if field.name not in target.names:
            continue
        wanted = target.field(field.name)
        native = (wanted.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
        if not native or wanted.type == field.type:
            continue
        if native == "jsonb" and _kind(field.type) == "text":
            # The binary form of jsonb is a version byte, 1, before the text. The driver sends only the text.
            text = rows.column(at).cast(pa.binary())
            rows = rows.set_column(at, field.name, pc.binary_join_element_wise(b"\x01", text, b""))
        elif _kind(field.type) == _kind(wanted.type) and _kind(field.type) in ("integer", "float"):
            try:
                column = rows.column(at).cast(wanted.type)
            except pa.ArrowInvalid as error:
                raise RowsRefused(f"column {field.name!r} of the table is {native}: {error}") from error
            rows = rows.set_column(at, field.name, column)
        elif _kind(field.type) != _kind(wanted.type) and (_kind(wanted.type) or native == "uuid"):
            raise SinkError(
                f"column {field.name!r} is {field.type} in the rows and {native} in the table. Use one type"
            )
    return rows


def _kind(type_: pa.DataType) -> str:
    """Types of one kind are converted or equivalent. Empty: the driver decides."""
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
