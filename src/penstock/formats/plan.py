"""What typed columns a source has, and the frozen plan by which a task makes those that were picked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.config.formats import FormatOptions, Mode
from penstock.config.registry_config import RegistryConfig
from penstock.errors import OptionError
from penstock.eventtime.field import EventTimeField, find_field
from penstock.formats.layout import ERROR_COLUMNS, Layout, full_layout, picked
from penstock.formats.spec import ColumnSpec, Custom, RawBytes, narrowed
from penstock.model.columns import TYPES
from penstock.model.watermark_columns import WATERMARK_COLUMNS

CHEAPEST = "partition"
"""What to fetch where nothing is looked at: somebody has to count the rows."""


@dataclass(frozen=True, slots=True)
class TypedPlan:
    """A task's orders: which columns to make, how, and what to do with a record that does not parse."""

    key: ColumnSpec
    value: ColumnSpec
    layout: Layout
    mode: Mode = "PERMISSIVE"
    dead_letter_topic: str | None = None
    registry: RegistryConfig | None = None
    event_time: EventTimeField | None = None
    """What tasks look at, and leave out of the result unless it is laid out too."""

    @property
    def _looked_at(self) -> set[str]:
        """Kafka's columns that the result is made of, and the one of event times."""
        kafka = self.layout.sources & TYPES.keys()
        return kafka if self.event_time is None else kafka | {self.event_time.source}

    @property
    def specs(self) -> dict[str, ColumnSpec]:
        """How to decode what has to be decoded: what is looked at; everything, if somebody wants to know what does not
        parse; and with a user's own class, which may skip records, always."""
        every = self.mode != "PERMISSIVE" or not self.layout.sources.isdisjoint(ERROR_COLUMNS)
        both = {"key": self.key, "value": self.value}
        return {
            name: spec
            for name, spec in both.items()
            if not isinstance(spec, RawBytes) and (every or name in self._looked_at or isinstance(spec, Custom))
        }

    @property
    def may_end(self) -> bool:
        """Whether a record may end its partition (F4)."""
        return any(isinstance(spec, Custom) and spec.may_end for spec in self.specs.values())

    @property
    def fetched(self) -> list[str]:
        """Kafka's columns that are needed for all this."""
        if self.mode == "DEADLETTER":
            return list(TYPES)  # a letter is the whole record
        needed = self._looked_at | set(self.specs)
        for spec in self.specs.values():
            if isinstance(spec, Custom):
                needed |= {*spec.columns, "topic", "partition", "offset"}  # its errors name the record
        if self.mode == "FAILFAST":
            needed.add("offset")
        return [name for name in TYPES if name in needed] or [CHEAPEST]


@dataclass(frozen=True, slots=True)
class TypedSource:
    """The formats of a source, settled: everything that could be picked."""

    key: ColumnSpec
    value: ColumnSpec
    options: FormatOptions
    include_headers: bool = False
    include_watermarks: bool = False

    @property
    def layout(self) -> Layout:
        """The columns of a read without a wish."""
        return self._layout(self.include_headers, self.options.include_errors, self.include_watermarks)

    def _layout(self, headers: bool, errors: bool, watermarks: bool) -> Layout:
        return full_layout(
            self.key.type,
            self.value.type,
            include_headers=headers,
            include_errors=errors,
            include_watermarks=watermarks,
            prefix=self.options.prefix if self.options.flatten else None,
        )

    def event_time_field(self, name: str) -> EventTimeField:
        """The field that `eventTime.column` names, by the columns that a read without a wish has. The value's fields
        can be named as such also where they are columns."""
        columns = {"value": (EventTimeField("value"), self.value.type)}
        for column in self._layout(headers=False, errors=False, watermarks=False).columns:
            path = () if column.field is None else (column.field,)
            columns[column.name] = EventTimeField(column.source, path), column.type
        return find_field(name, columns)

    def picked(self, columns: Sequence[str] | None, *, has_watermarks: bool = False) -> TypedPlan:
        """The plan for columns by name; None picks those of a read without a wish. `has_watermarks`: whether those of
        event-time watermarks can be named."""
        if columns is None:
            return self.plan()
        if isinstance(columns, str) or not columns:
            raise OptionError("columns", columns, "must be a list with at least one column", 'Example: ["value"]')
        known = {column.name: column.type for column in self._layout(True, True, has_watermarks).columns}
        return self.plan(pa.schema([(name, known.get(name, pa.null())) for name in columns]))

    def plan(self, wanted: pa.Schema | None = None, event_time: EventTimeField | None = None) -> TypedPlan:
        """The plan for what a user's schema picks; headers, errors and event-time watermarks can be picked without
        their options. `event_time`: what tasks have to look at besides."""
        if wanted is None:
            layout = self.layout
        else:
            errors = self.options.include_errors or any(field.name in ERROR_COLUMNS for field in wanted)
            watermarks = self.include_watermarks or any(field.name in WATERMARK_COLUMNS for field in wanted)
            layout = picked(self._layout(True, errors, watermarks), wanted)
        return TypedPlan(
            _part("key", self.key, layout, event_time),
            _part("value", self.value, layout, event_time),
            layout,
            self.options.mode,
            self.options.dead_letter_topic,
            self.options.registry,
            event_time,
        )


def _part(column: str, spec: ColumnSpec, layout: Layout, event_time: EventTimeField | None) -> ColumnSpec:
    wanted = layout.wanted(column)
    if event_time is not None and event_time.source == column:
        wanted = event_time.added_to(wanted, spec.type)
    return spec if wanted is None else narrowed(spec, wanted)
