"""Where in a record its event time is: one of Kafka's columns, or a field at some depth of a typed key or value."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import OptionError

OPTION = "eventTime.column"


def is_time(given: pa.DataType) -> bool:
    """Whether times can be read from it. A column without any value (null) has no times, and that is no error."""
    return bool(
        pa.types.is_timestamp(given) or pa.types.is_date(given) or pa.types.is_int64(given) or pa.types.is_null(given)
    )


@dataclass(frozen=True, slots=True)
class EventTimeField:
    source: str
    """The Kafka column it is in."""
    path: tuple[str, ...] = ()
    """The way through its structs."""

    def values(self, column: pa.Array) -> pa.Array:
        """The event times in that column; null also where a struct on the way is."""
        for name in self.path:
            at = column.type.get_field_index(name)
            # `field` does not know of the struct's own nulls.
            column = column.flatten()[at] if column.null_count else column.field(at)
        return column

    def added_to(self, wanted: pa.DataType | None, full: pa.DataType) -> pa.DataType:
        """What has to be built of a column for this and for what is wanted of it; None: nothing is."""
        return _with_path(wanted, full, self.path)


BY_RECORD = EventTimeField("timestamp")
"""The record's own timestamp."""


def _with_path(wanted: pa.DataType | None, full: pa.DataType, path: tuple[str, ...]) -> pa.DataType:
    if not path:
        return full if wanted is None else wanted
    fields = {} if wanted is None else {field.name: field.type for field in wanted}
    fields[path[0]] = _with_path(fields.get(path[0]), full.field(path[0]).type, path[1:])
    return pa.struct(list(fields.items()))


def find_field(text: str, columns: Mapping[str, tuple[EventTimeField, pa.DataType]]) -> EventTimeField:
    """The field that a user names: a column, or a way into its structs with dots. `columns`: of the result, where each
    of them comes from, and its type."""
    names = _names({name: kind for name, (_, kind) in columns.items()}, text)
    if names is None:
        times = [path for name, (_, kind) in columns.items() for path in _times(name, kind)]
        near = difflib.get_close_matches(text, times, n=1)
        way_out = f"Did you mean {near[0]}?" if near else f"There are {', '.join(times)}. {SAY_WHAT_IT_IS}"
        raise OptionError(OPTION, text, "is not a column of this source", way_out)
    start, kind = columns[names[0]]
    for name in names[1:]:
        kind = kind.field(name).type
    if not is_time(kind):
        way_out = "It must be a timestamp, a date, or a long of milliseconds since 1970"
        raise OptionError(OPTION, text, f"is {kind}, which is not a time", way_out)
    return EventTimeField(start.source, start.path + names[1:])


SAY_WHAT_IT_IS = "Fields that .schema(...) leaves out are known by valueSchema (keySchema) or a registry"


def _names(fields: Mapping[str, pa.DataType], path: str) -> tuple[str, ...] | None:
    """The names on a path, level by level: they may have dots of their own."""
    if path in fields:
        return (path,)
    for name, kind in fields.items():
        if pa.types.is_struct(kind) and path.startswith(f"{name}."):
            below = _names({field.name: field.type for field in kind}, path[len(name) + 1 :])
            if below is not None:
                return (name, *below)
    return None


def _times(path: str, kind: pa.DataType) -> Iterator[str]:
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _times(f"{path}.{field.name}", field.type)
    elif is_time(kind):
        yield path
