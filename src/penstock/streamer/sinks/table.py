"""TableSink: a sink that stores offsets together with rows, in one commit of a table: exactly once.

It has what the sinks of Delta Lake and Iceberg share: their options, and the fit of rows to the table's columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa

from penstock.errors import OptionError, RowsRefused, SinkError
from penstock.streamer.sinks.partition_columns import DATE, with_date
from penstock.streamer.table_offsets import OffsetMoves, TablePartition


class TableWriter(Protocol):
    """Writes the rows and offsets of one thread. Only that thread calls it."""

    def write(self, rows: pa.Table | list[object]) -> None:
        """Check that the table can store these rows; store nothing.

        Raises RowsRefused for rows that it can never store, and SinkError if it can store none.
        """

    def commit(self, rows: pa.Table | None, moves: OffsetMoves) -> bool:
        """Store rows and offsets in one commit, or raise. Returns False if there is no table to store offsets in.

        Raises OffsetsMoved, and stores nothing, if the table's newest offsets are not the expected ones. After any
        other error the commit may have been made: the next one finds out by the same comparison.
        """

    def offsets(self, partitions: Collection[TablePartition]) -> dict[TablePartition, int]:
        """The table's newest offsets. Partitions that it does not have are left out."""

    def close(self) -> None: ...


@runtime_checkable
class TableSink(Protocol):
    """A sink whose writers store offsets: the Streamer continues from them, and not from the group's."""

    stores_offsets: bool

    def open(self, thread: str) -> TableWriter: ...


def checked_partition_by(partition_by: Sequence[str]) -> tuple[str, ...]:
    if isinstance(partition_by, str):
        raise OptionError("partition_by", partition_by, "must be a list of columns", f'Example: ["{partition_by}"]')
    return tuple(partition_by)


def with_partition_columns(rows: pa.Table, columns: Iterable[str], table: str) -> pa.Table:
    """The rows, with a column `date` if the table is partitioned by it and the rows have only `timestamp`."""
    for name in columns:
        if name in rows.column_names:
            continue
        if name != DATE or "timestamp" not in rows.column_names:
            hint = f"The columns are {', '.join(rows.column_names)}"
            raise SinkError(f"{table} is partitioned by {name!r}, which the rows do not have. {hint}")
        rows = with_date(rows)
    return rows


def fitted(rows: pa.Table, target: pa.Schema, table: str) -> pa.Table:
    """The rows with the table's columns, in its order and types. Columns are matched by name.

    A number may become wider or narrower, a missing column null. Everything else is an error: a table is not changed
    behind its owner's back.
    """
    unknown = [name for name in rows.column_names if name not in target.names]
    if unknown:
        field = rows.schema.field(unknown[0])
        raise SinkError(
            f"{table} has no column {field.name!r}, and the rows have it as {field.type}. Add it to the table (ALTER "
            "TABLE ... ADD COLUMN), or leave it out with `columns`. Then start the Streamer again"
        )
    columns = []
    for field in target:
        if field.name not in rows.column_names:
            if not field.nullable:
                raise SinkError(f"{table}: column {field.name!r} is required, and the rows do not have it")
            columns.append(pa.chunked_array([pa.nulls(rows.num_rows, field.type)]))
            continue
        column = rows.column(field.name)
        if column.null_count and not field.nullable:
            raise RowsRefused(f"{table}: column {field.name!r} is required, and a row has no value for it")
        if column.type != field.type:
            column = _cast(column, field, table)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=target)


def _cast(column: pa.ChunkedArray, field: pa.Field, table: str) -> pa.ChunkedArray:
    if not _fits(column.type, field.type):
        raise SinkError(
            f"column {field.name!r} is {column.type} in the rows and {field.type} in {table}. Use one type: change the "
            "format or the extractor, or write to another table"
        )
    try:
        return column.cast(field.type)
    except pa.ArrowNotImplementedError as error:
        raise SinkError(f"{table}: column {field.name!r} cannot be converted: {error}") from error
    except pa.ArrowInvalid as error:
        raise RowsRefused(f"{table}: column {field.name!r} is {field.type}: {error}") from error


def _fits(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether values of one type can be stored as the other, apart from their range."""
    types = pa.types
    if types.is_dictionary(have):
        return _fits(have.value_type, want)
    if bool(have == want) or types.is_null(have):
        return True
    for kinds in (
        (types.is_integer,),
        (types.is_floating,),
        (types.is_decimal,),
        (types.is_date,),
        (types.is_time,),
        (types.is_string, types.is_large_string, types.is_string_view),
        (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary),
    ):
        if any(kind(have) for kind in kinds):
            return any(bool(kind(want)) for kind in kinds)
    if types.is_timestamp(have) and types.is_timestamp(want):
        return bool((have.tz is None) == (want.tz is None))
    if types.is_map(have) and types.is_map(want):
        return _fits(have.key_type, want.key_type) and _fits(have.item_type, want.item_type)
    if _is_list(have) and _is_list(want):
        return _fits(have.value_type, want.value_type)
    if types.is_struct(have) and types.is_struct(want):
        wanted = {each.name: each.type for each in want}
        if [each.name for each in have] != list(wanted):
            return False
        return all(_fits(each.type, wanted[each.name]) for each in have)
    return False


def _is_list(type_: pa.DataType) -> bool:
    return any(bool(kind(type_)) for kind in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))


SIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}


def new_schema(schema: pa.Schema, table: str) -> pa.Schema:
    """The columns of a table that is created for these rows. All are nullable: rows may miss any field later."""
    return pa.schema([pa.field(field.name, _stored_type(field.type, field.name, table)) for field in schema])


def _stored_type(type_: pa.DataType, name: str, table: str) -> pa.DataType:
    types = pa.types
    if types.is_dictionary(type_):
        return _stored_type(type_.value_type, name, table)
    if type_ in SIGNED:
        return SIGNED[type_]
    if types.is_float16(type_):
        return pa.float32()
    if types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz and "UTC")
    if types.is_date(type_):
        return pa.date32()
    if types.is_large_string(type_) or types.is_string_view(type_):
        return pa.string()
    if types.is_large_binary(type_) or types.is_binary_view(type_):
        return pa.binary()
    if types.is_map(type_):
        return pa.map_(_stored_type(type_.key_type, name, table), _stored_type(type_.item_type, name, table))
    if _is_list(type_):
        return pa.list_(pa.field("element", _stored_type(type_.value_type, name, table)))
    if types.is_struct(type_) and type_.num_fields:
        return pa.struct([pa.field(each.name, _stored_type(each.type, name, table)) for each in type_])
    plain = (types.is_signed_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_string)
    if types.is_binary(type_) or any(kind(type_) for kind in plain):
        return type_
    raise SinkError(
        f"{table} cannot be created: no type of the table stores column {name!r}, which is {type_} in the rows. "
        "Convert it in an extractor, or leave it out with `columns`"
    )


def by_log(offsets: Mapping[TablePartition, int]) -> dict[str, dict[int, int]]:
    """Offsets by log and partition."""
    logs: dict[str, dict[int, int]] = {}
    for (log, partition), offset in offsets.items():
        logs.setdefault(log, {})[partition] = offset
    return logs
