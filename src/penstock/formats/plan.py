"""What typed columns a source has, and the frozen plan by which a task makes those that were picked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.columns import TYPES
from penstock.errors import OptionError
from penstock.formats.layout import ERROR_COLUMNS, Layout, full_layout, picked
from penstock.formats.options import FormatOptions, Mode
from penstock.formats.registry_options import RegistryConfig
from penstock.formats.spec import ColumnSpec, Custom, RawBytes, narrowed


@dataclass(frozen=True, slots=True)
class TypedPlan:
    """A task's orders: which columns to make, how, and what to do with a record that does not parse."""

    key: ColumnSpec
    value: ColumnSpec
    layout: Layout
    mode: Mode = "PERMISSIVE"
    dead_letter_topic: str | None = None
    registry: RegistryConfig | None = None

    @property
    def specs(self) -> dict[str, ColumnSpec]:
        """How to decode what has to be decoded: what is laid out; everything, if somebody wants to know what does not
        parse; and with a user's own class, which may skip records, always."""
        every = self.mode != "PERMISSIVE" or not self.layout.sources.isdisjoint(ERROR_COLUMNS)
        both = {"key": self.key, "value": self.value}
        return {
            name: spec
            for name, spec in both.items()
            if not isinstance(spec, RawBytes) and (every or name in self.layout.sources or isinstance(spec, Custom))
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
        needed = set(self.layout.sources) | set(self.specs)
        for spec in self.specs.values():
            if isinstance(spec, Custom):
                needed |= {*spec.columns, "topic", "partition", "offset"}  # its errors name the record
        if self.mode == "FAILFAST":
            needed.add("offset")
        return [name for name in TYPES if name in needed]


@dataclass(frozen=True, slots=True)
class TypedSource:
    """The formats of a source, settled: everything that could be picked."""

    key: ColumnSpec
    value: ColumnSpec
    options: FormatOptions
    include_headers: bool = False

    @property
    def layout(self) -> Layout:
        """The columns of a read without a wish."""
        return self._layout(self.include_headers, self.options.include_errors)

    def _layout(self, headers: bool, errors: bool) -> Layout:
        prefix = self.options.prefix if self.options.flatten else None
        key, value = self.key.type, self.value.type
        return full_layout(key, value, include_headers=headers, include_errors=errors, prefix=prefix)

    def picked(self, columns: Sequence[str] | None) -> TypedPlan:
        """The plan for columns by name; None picks those of a read without a wish."""
        if columns is None:
            return self.plan()
        if isinstance(columns, str) or not columns:
            raise OptionError("columns", columns, "must be a list with at least one column", 'Example: ["value"]')
        known = {column.name: column.type for column in self._layout(True, True).columns}
        return self.plan(pa.schema([(name, known.get(name, pa.null())) for name in columns]))

    def plan(self, wanted: pa.Schema | None = None) -> TypedPlan:
        """The plan for what a user's schema picks; headers and errors can be picked without their options."""
        if wanted is None:
            layout = self.layout
        else:
            errors = self.options.include_errors or any(field.name in ERROR_COLUMNS for field in wanted)
            layout = picked(self._layout(True, errors), wanted)
        return TypedPlan(
            _part(self.key, layout.wanted("key")),
            _part(self.value, layout.wanted("value")),
            layout,
            self.options.mode,
            self.options.dead_letter_topic,
            self.options.registry,
        )


def _part(spec: ColumnSpec, wanted: pa.DataType | None) -> ColumnSpec:
    return spec if wanted is None else narrowed(spec, wanted)
