"""The columns that an iteration decodes: those that the user selected, and those that event times come from. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import EventTimeError
from penstock.eventtime.field import find_path
from penstock.eventtime.strategy import WatermarkStrategy
from penstock.formats.plan import TypedPlan, TypedSource
from penstock.model.columns import TYPES, arrow_schema, checked_columns
from penstock.model.expression import Where


@dataclass(frozen=True, slots=True)
class EventColumns:
    """The columns that one iteration decodes, and those of them that it hands out."""

    decoded: tuple[str, ...]
    """Kafka's columns, or typed ones."""
    selected: tuple[str, ...]
    """The columns that the user selected. They come first."""
    timestamp: str | None
    """The column of the record's own timestamp, if that is the event time."""
    offset: str | None
    """The column of the offset, if alignment may cut batches."""
    plan: TypedPlan | None = None
    """How to decode typed columns."""


def check_event_column(strategy: WatermarkStrategy, typed: TypedSource | None) -> None:
    """Raises EventTimeError if event times cannot be read from the column that the strategy names."""
    if isinstance(strategy.timestamps, str):
        strategy.event_times(_empty(arrow_schema(list(TYPES)) if typed is None else typed.layout.schema))


def raw_columns(strategy: WatermarkStrategy, columns: Sequence[str] | None) -> EventColumns:
    """For batches of Kafka's columns."""
    selected = tuple(checked_columns(columns, include_headers=True))
    timestamp = "timestamp" if strategy.timestamps is None else None
    offset = None if strategy.max_drift is None else "offset"
    needed = [timestamp, strategy.timestamps if isinstance(strategy.timestamps, str) else None, offset]
    more = dict.fromkeys(name for name in needed if name is not None and name not in selected)
    return EventColumns((*selected, *more), selected, timestamp, offset)


def message_columns(strategy: WatermarkStrategy, columns: tuple[str, ...]) -> EventColumns:
    """For messages, which have all of Kafka's columns."""
    path = strategy.timestamps
    if isinstance(path, str) and path not in columns:
        hint = "Iterate batches(), or give with_timestamps a function that reads it from the bytes"
        raise EventTimeError(f"column {path!r}", "does not exist in messages, whose values are bytes", hint)
    return EventColumns(columns, columns, "timestamp" if path is None else None, "offset")


def typed_columns(
    strategy: WatermarkStrategy, source: TypedSource, columns: Sequence[str] | None, where: Where | None = None
) -> EventColumns:
    """For typed batches. Of a value that is not selected, only the path to the event time is decoded."""
    plan = source.select(columns, where=where)
    selected = tuple(plan.layout.names)
    by_source = {column.source: column.name for column in source.layout.columns if column.field is None}
    timestamp = by_source["timestamp"] if strategy.timestamps is None else None
    offset = None if strategy.max_drift is None else by_source["offset"]
    there = source.layout.schema
    more = [pa.field(name, there.field(name).type) for name in (timestamp, offset) if name is not None]
    way = _way(list(there), strategy.timestamps) if isinstance(strategy.timestamps, str) else None
    more += [] if way is None or way.name == offset else [way]
    more = [field for field in more if field.name not in selected]
    if more:
        plan = source.plan(pa.schema([*plan.layout.schema, *more]), where=where)
    return EventColumns(tuple(plan.layout.names), selected, timestamp, offset, plan)


def _way(fields: list[pa.Field], path: str) -> pa.Field | None:
    """The field that a path begins with. Its structs have only the fields on the path."""
    found = find_path(fields, path)
    return None if found is None else _only(fields, found)


def _only(fields: list[pa.Field], way: list[int]) -> pa.Field:
    field, below = fields[way[0]], way[1:]
    return pa.field(field.name, pa.struct([_only(list(field.type), below)])) if below else field


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
