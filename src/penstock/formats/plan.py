"""The typed columns of a source, and the plan by which tasks build the selected ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from penstock.config.formats import FormatOptions, Mode, default_formats
from penstock.config.registry_config import RegistryConfig
from penstock.errors import OptionError
from penstock.eventtime.field import EventTimeField, find_field
from penstock.formats.layout import ERROR_COLUMNS, Layout, full_layout, select_columns
from penstock.formats.selection import selected_schema, with_path
from penstock.formats.spec import ColumnSpec, Custom, RawBytes, pruned
from penstock.model.columns import TYPES
from penstock.model.expression import ScopeColumn, Where
from penstock.model.watermark_columns import WATERMARK_COLUMNS

if TYPE_CHECKING:
    from penstock.eventtime.functions import EventTimeFunctions
    from penstock.eventtime.strategy import WatermarkStrategy

    EventTimeSource: TypeAlias = EventTimeField | EventTimeFunctions

CHEAPEST = "partition"
"""The column to fetch if none is needed, because the rows must be counted."""


@dataclass(frozen=True, slots=True)
class TypedPlan:
    """What a task does: which columns it builds, how, and what it does with malformed records."""

    key: ColumnSpec
    value: ColumnSpec
    layout: Layout
    mode: Mode = "PERMISSIVE"
    dead_letter_topic: str | None = None
    registry: RegistryConfig | None = None
    event_time: EventTimeSource | None = None
    """The field of event times. Tasks decode it even if it is not a column of the result."""
    where: Where | None = None
    """The predicate that rows must meet. Tasks decode its fields even if they are not columns of the result."""

    @property
    def _needed(self) -> set[str]:
        """Kafka's columns that the result comes from, those of the predicate, and the column of event times."""
        kafka = self.layout.sources & TYPES.keys()
        if self.where is not None:
            kafka |= {field.source for field in self.where.fields}
        return kafka if self.event_time is None else kafka | self.event_time.sources

    @property
    def specs(self) -> dict[str, ColumnSpec]:
        """The columns to decode: those that are needed; both, if malformed records must be found; and always those of a
        user's own class, which may skip records."""
        every = self.mode != "PERMISSIVE" or not self.layout.sources.isdisjoint(ERROR_COLUMNS)
        both = {"key": self.key, "value": self.value}
        return {
            name: spec
            for name, spec in both.items()
            if not isinstance(spec, RawBytes) and (every or name in self._needed or isinstance(spec, Custom))
        }

    @property
    def steps(self) -> tuple[dict[str, ColumnSpec], dict[str, ColumnSpec]] | None:
        """The columns to decode for the predicate and for event times, with their fields only, and those to decode
        afterwards, of the rows that pass. None: all is decoded at once.

        Modes other than PERMISSIVE look for malformed records among all, and a user's own class may do anything.
        """
        at_once = self.mode != "PERMISSIVE" or not self.layout.sources.isdisjoint(ERROR_COLUMNS)
        if self.where is None or at_once or any(isinstance(spec, Custom) for spec in self.specs.values()):
            return None
        first: dict[str, ColumnSpec] = {}
        later: dict[str, ColumnSpec] = {}
        for name, spec in self.specs.items():
            wanted = _with_fields(name, None, spec.type, self.event_time, self.where)
            if wanted is not None:
                first[name] = pruned(spec, wanted)
            selected = self.layout.wanted(name)
            if selected is not None and (wanted is None or not _holds(first[name].type, selected)):
                later[name] = pruned(spec, selected)
        return (first, later) if later else None

    @property
    def may_end(self) -> bool:
        """Whether a record can end its partition (F4)."""
        return any(isinstance(spec, Custom) and spec.may_end for spec in self.specs.values())

    @property
    def fetched(self) -> list[str]:
        """Kafka's columns to fetch."""
        if self.mode == "DEADLETTER":
            return list(TYPES)  # a letter is the whole record
        needed = self._needed | set(self.specs)
        for spec in self.specs.values():
            if isinstance(spec, Custom):
                needed |= {*spec.columns, "topic", "partition", "offset"}  # its errors name the record
        if self.mode == "FAILFAST" or (self.where is not None and self.where.may_fail):
            needed.add("offset")  # an error names the record
        return [name for name in TYPES if name in needed] or [CHEAPEST]


@dataclass(frozen=True, slots=True)
class TypedSource:
    """The resolved formats of a source, with all columns that can be selected."""

    key: ColumnSpec
    value: ColumnSpec
    options: FormatOptions
    include_headers: bool = False
    include_watermarks: bool = False

    @property
    def layout(self) -> Layout:
        """Default columns."""
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
        """The field that `eventTime.column` names among the default columns. If the value is flattened, its fields can
        also be named as `value.field`."""
        columns = {"value": (EventTimeField("value"), self.value.type)}
        for column in self._layout(headers=False, errors=False, watermarks=False).columns:
            path = () if column.field is None else (column.field,)
            columns[column.name] = EventTimeField(column.source, path), column.type
        return find_field(name, columns)

    def event_time_functions(self, strategy: WatermarkStrategy, columns: tuple[str, ...]) -> EventTimeFunctions:
        """A strategy with functions, which were called once for a check."""
        from penstock.eventtime.functions import EventTimeFunctions  # imports pyarrow.compute: 50 ms

        functions = EventTimeFunctions(strategy, columns)
        functions.check(TYPES | {"key": self.key.type, "value": self.value.type})
        return functions

    def parse_where(self, text: str | None) -> Where | None:
        """The predicate of option `where`, which can name all columns of Kafka and all fields. Raises OptionError."""
        if text is None:
            return None
        from penstock.predicate.parse import parse_where

        columns = self._layout(headers=True, errors=False, watermarks=False).columns
        scope = {
            column.name: ScopeColumn(column.source, () if column.field is None else (column.field,), column.type)
            for column in columns
        }
        return parse_where(text, scope)

    def select(
        self, columns: Sequence[str] | None, *, has_watermarks: bool = False, where: Where | None = None
    ) -> TypedPlan:
        """The plan for columns by name, and for fields of their structs as `value.user`; None selects the default
        columns. `has_watermarks`: whether the columns of event-time watermarks can be selected."""
        if columns is None:
            return self.plan(where=where)
        if isinstance(columns, str) or not columns:
            raise OptionError("columns", columns, "must be a list with at least one column", 'Example: ["value"]')
        return self.plan(selected_schema(self._layout(True, True, has_watermarks), columns), where=where)

    def plan(
        self,
        wanted: pa.Schema | None = None,
        event_time: EventTimeSource | None = None,
        where: Where | None = None,
    ) -> TypedPlan:
        """The plan for a user's schema. It can select headers, errors and event-time watermarks without their options.
        `event_time`: the field of event times, which tasks decode too, as they do those of `where`."""
        if wanted is None:
            layout = self.layout
        else:
            errors = self.options.include_errors or any(field.name in ERROR_COLUMNS for field in wanted)
            watermarks = self.include_watermarks or any(field.name in WATERMARK_COLUMNS for field in wanted)
            layout = select_columns(self._layout(True, errors, watermarks), wanted)
        return TypedPlan(
            _pruned("key", self.key, layout, event_time, where),
            _pruned("value", self.value, layout, event_time, where),
            layout,
            self.options.mode,
            self.options.dead_letter_topic,
            self.options.registry,
            event_time,
            where,
        )


def raw_source() -> TypedSource:
    """Kafka's own columns as a source that builds them by a plan, because rows are filtered."""
    return TypedSource(RawBytes(), RawBytes(), default_formats(), include_headers=True)


def _pruned(
    column: str, spec: ColumnSpec, layout: Layout, event_time: EventTimeSource | None, where: Where | None
) -> ColumnSpec:
    wanted = _with_fields(column, layout.wanted(column), spec.type, event_time, where)
    return spec if wanted is None else pruned(spec, wanted)


def _with_fields(
    column: str,
    wanted: pa.DataType | None,
    full: pa.DataType,
    event_time: EventTimeSource | None,
    where: Where | None,
) -> pa.DataType | None:
    """The type to decode a column as: the wanted fields, that of event times and those of the predicate."""
    if event_time is not None and column in event_time.sources:
        wanted = event_time.added_to(wanted, full)
    for field in () if where is None else where.fields:
        if field.source == column:
            wanted = with_path(wanted, full, field.path)
    return wanted


def _holds(decoded: pa.DataType, selected: pa.DataType) -> bool:
    """Whether a decoded column has all fields that are selected."""
    if pa.types.is_struct(decoded) and pa.types.is_struct(selected):
        types = {field.name: field.type for field in decoded}
        return all(field.name in types and _holds(types[field.name], field.type) for field in selected)
    return bool(decoded == selected)
