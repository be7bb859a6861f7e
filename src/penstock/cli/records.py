"""Records as text: rows of a table, or lines of JSON."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from penstock.cli.output import json_text

FORMATS = ("text", "json", "hex", "base64")

SLICE = 1000
"""Rows that are converted to Python objects at a time: a batch can have a million."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def shown(data: bytes | None, form: str) -> Any:
    """A key or a value as a JSON value."""
    if data is None:
        return None
    match form:
        case "hex":
            return data.hex()
        case "base64":
            return base64.b64encode(data).decode("ascii")
        case "json":
            # NaN, Infinity and 1e999 are not JSON, and deep nesting cannot be written again: both are shown as text.
            with suppress(ValueError, RecursionError):
                return json.loads(data, parse_constant=_finite, parse_float=_finite)
    return data.decode("utf-8", "backslashreplace")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a JSON number")
    return number


def moment(microseconds: int | None) -> str | None:
    """A timestamp in UTC, in milliseconds, as in Kafka."""
    if microseconds is None:
        return None
    try:
        text = (EPOCH + timedelta(microseconds=microseconds)).isoformat(timespec="milliseconds")
    except OverflowError:
        return f"{microseconds // 1000} ms"
    return text.replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class RecordView:
    """Which parts of records are shown, and in which format."""

    topic: str
    keys: bool = True
    headers: bool = False
    key_format: str = "text"
    value_format: str = "text"

    @property
    def columns(self) -> list[str]:
        """The columns to read, in the order of a record."""
        names = ["partition", "offset", "timestamp"]
        return names + ["key"] * self.keys + ["value"] + ["headers"] * self.headers

    def records(self, batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
        for at in range(0, batch.num_rows, SLICE):
            part = batch.slice(at, SLICE)
            columns = {name: self._values(name, part.column(at)) for at, name in enumerate(self.columns)}
            for values in zip(*columns.values(), strict=True):
                yield dict(zip(columns, values, strict=True))

    def _values(self, name: str, column: pa.Array) -> list[Any]:
        readers: dict[str, Callable[[Any], Any]] = {
            "key": lambda data: shown(data, self.key_format),
            "value": lambda data: shown(data, self.value_format),
            "headers": headers_of,
        }
        if name == "timestamp":
            return [moment(at) for at in column.cast(pa.int64()).to_pylist()]
        values: list[Any] = column.to_pylist()
        return [readers[name](value) for value in values] if name in readers else values

    def json_line(self, record: dict[str, Any]) -> str:
        return json_text({"topic": self.topic, **record})

    @property
    def header(self) -> list[str]:
        return [name.upper() for name in self.row_names]

    @property
    def row_names(self) -> list[str]:
        """The columns of a table. The value is last, because lines are cut at their end."""
        return [name for name in self.columns if name != "value"] + ["value"]

    def row(self, record: dict[str, Any]) -> list[str]:
        return [cell(record[name]) for name in self.row_names]


def headers_of(headers: list[dict[str, Any]] | None) -> list[list[Any]] | None:
    if headers is None:
        return None
    return [[header["key"], shown(header["value"], "text")] for header in headers]


def cell(value: Any) -> str:
    if value is None:
        return "∅"
    return value if isinstance(value, str) else json_text(value)
