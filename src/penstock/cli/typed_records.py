"""Typed records as text: the value's fields as columns of a table, or as an object in a line of JSON."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.cli.output import json_text
from penstock.cli.records import SLICE, cell, headers_of, moment
from penstock.formats.layout import ERROR
from penstock.formats.plan import TypedPlan, TypedSource
from penstock.model.expression import Where


@dataclass(frozen=True, slots=True)
class TypedRecordView:
    """The columns of a typed source that are shown."""

    topic: str
    plan: TypedPlan

    def records(self, batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
        names = batch.schema.names
        for at in range(0, batch.num_rows, SLICE):
            part = batch.slice(at, SLICE)
            columns = [_values(name, part.column(name)) for name in names]
            for values in zip(*columns, strict=True):
                yield dict(zip(names, values, strict=True))

    def json_line(self, record: dict[str, Any]) -> str:
        shown = {name: value for name, value in record.items() if name != ERROR or value is not None}
        return json_text({"topic": self.topic, **shown})

    @property
    def _fields(self) -> list[str]:
        value = self.plan.layout.wanted("value")
        return [field.name for field in value] if value is not None and pa.types.is_struct(value) else []

    @property
    def header(self) -> list[str]:
        return [*(name.upper() for name in self._names), *(self._fields or ["VALUE"]), "ERROR"]

    @property
    def _names(self) -> list[str]:
        return [name for name in self.plan.layout.names if name not in ("value", ERROR)]

    def row(self, record: dict[str, Any]) -> list[str]:
        value = record["value"]
        fields = [cell(None if value is None else value[name]) for name in self._fields] or [cell(value)]
        return [*(cell(record[name]) for name in self._names), *fields, record[ERROR] or ""]


def typed_view(
    topic: str, source: TypedSource, *, keys: bool, headers: bool, where: Where | None = None
) -> TypedRecordView:
    names = ["partition", "offset", "timestamp", *["key"] * keys, *["headers"] * headers, "value", ERROR]
    return TypedRecordView(topic, source.select(names, where=where))


def _values(name: str, column: pa.Array) -> list[Any]:
    if name == "timestamp":
        return [moment(at) for at in column.cast(pa.int64()).to_pylist()]
    if name == "headers":
        return [headers_of(each) for each in column.to_pylist()]
    return plain_values(column)


def plain_values(column: pa.Array) -> list[Any]:
    """A typed column as JSON values."""
    try:
        with warnings.catch_warnings(action="ignore"):  # about duplicate keys of a map
            return [_plain(value) for value in column.to_pylist(maps_as_pydicts="lossy")]
    except (OverflowError, ValueError):  # a day or time beyond Python's range
        return [_plain(_as_text(scalar)) for scalar in column]


def _as_text(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py(maps_as_pydicts="lossy")
    except (OverflowError, ValueError):
        if isinstance(scalar, pa.StructScalar):
            return {name: _as_text(scalar[name]) for name in scalar}
        return str(scalar.cast(pa.int64()).as_py()) if pa.types.is_temporal(scalar.type) else repr(scalar)


def _plain(value: Any) -> Any:
    """A value as a JSON value: text if JSON has no type for it."""
    match value:
        case dict():
            return {str(name): _plain(each) for name, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return base64.b64encode(value).decode("ascii")
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date() | timedelta() | Decimal():
            return str(value)
        case float() if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        case _:
            return value
