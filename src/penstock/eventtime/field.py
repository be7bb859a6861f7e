"""Where a record has its event time: in a column of Kafka, or in a field of a typed key or value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import OptionError, did_you_mean

OPTION = "eventTime.column"


def is_time(given: pa.DataType) -> bool:
    """Whether a column of this type can hold event times. One of type null holds none, which is not an error."""
    return bool(
        pa.types.is_timestamp(given) or pa.types.is_date(given) or pa.types.is_int64(given) or pa.types.is_null(given)
    )


@dataclass(frozen=True, slots=True)
class EventTimeField:
    """The event time of a record: a column, or a path into its structs."""

    source: str
    """The column of Kafka."""
    path: tuple[str, ...] = ()
    """The names of the fields from struct to struct."""

    @property
    def sources(self) -> frozenset[str]:
        return frozenset((self.source,))

    def values(self, column: pa.Array) -> pa.Array:
        """The event times in that column; null where one of the structs is null."""
        for name in self.path:
            at = column.type.get_field_index(name)
            # `field` ignores the nulls of the struct itself.
            column = column.flatten()[at] if column.null_count else column.field(at)
        return column

    def times(self, column: Callable[[str], pa.Array]) -> pa.Array:
        """The event times of some records."""
        return self.values(column(self.source))

    def added_to(self, wanted: pa.DataType | None, full: pa.DataType) -> pa.DataType:
        """The type to decode a column as: the wanted fields and this one. `wanted` None: no other field."""
        return _with_path(wanted, full, self.path)


RECORD_TIMESTAMP = EventTimeField("timestamp")
"""The record's own timestamp."""


def _with_path(wanted: pa.DataType | None, full: pa.DataType, path: tuple[str, ...]) -> pa.DataType:
    if not path:
        return full if wanted is None else wanted
    fields = {} if wanted is None else {field.name: field.type for field in wanted}
    fields[path[0]] = _with_path(fields.get(path[0]), full.field(path[0]).type, path[1:])
    return pa.struct(list(fields.items()))


TIMES_IN = ("key", "value", "timestamp")
"""The columns of Kafka that can hold an event time. An offset is a long too, but not a time."""


def find_field(text: str, columns: Mapping[str, tuple[EventTimeField, pa.DataType]]) -> EventTimeField:
    """The field that a user names: a column, or a path into its structs with dots. `columns`: those of the result, with
    their origin and type."""
    fields = [pa.field(name, kind) for name, (_, kind) in columns.items()]
    found = find_path(fields, text)
    if found is None:
        times = list(time_paths([field for field in fields if columns[field.name][0].source in TIMES_IN]))
        hint = nearest(text, times) or f"There are {', '.join(times)}. {FIELDS_HINT}"
        raise OptionError(OPTION, text, "is not a column of this source", hint)
    start, kind = columns[fields[found[0]].name]
    hint = "It must be a timestamp, a date, or a long of milliseconds since 1970"
    if start.source not in TIMES_IN:
        raise OptionError(OPTION, text, "is a column of Kafka that is not a time", hint)
    names = []
    for index in found[1:]:
        names.append(kind.field(index).name)
        kind = kind.field(index).type
    if not is_time(kind):
        raise OptionError(OPTION, text, f"is {kind}, which is not a time", hint)
    return EventTimeField(start.source, (*start.path, *names))


FIELDS_HINT = "To use a field that .schema(...) leaves out, set valueSchema (keySchema) or use a registry"


# --- paths into structs -----------------------------------------------------------------------------------------------


def find_path(fields: Sequence[pa.Field], path: str) -> list[int] | None:
    """The index of the field at each level of a path; None if there is no such field. Names may contain dots: a column
    named like the whole path comes before a path into structs."""
    for index, field in enumerate(fields):
        if field.name == path:
            return [index]
    for index, field in enumerate(fields):
        if pa.types.is_struct(field.type) and path.startswith(f"{field.name}."):
            below = find_path(list(field.type), path[len(field.name) + 1 :])
            if below is not None:
                return [index, *below]
    return None


def time_paths(fields: Iterable[pa.Field], above: str = "") -> Iterator[str]:
    """All paths to a time."""
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from time_paths(field.type, f"{above}{field.name}.")
        elif is_time(field.type):
            yield above + field.name


def nearest(path: str, known: Sequence[str]) -> str:
    """A question that suggests the nearest path: one with the same last name, or a similar spelling."""
    last = path.rsplit(".", 1)[-1]
    same = [name for name in known if name.rsplit(".", 1)[-1] == last]
    return f"Did you mean {same[0]}?" if same else did_you_mean(path, known)
