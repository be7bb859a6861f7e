"""The columns of a record as Arrow types: those of Spark's Kafka source."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import pyarrow as pa

from penstock.errors import OptionError
from penstock.model.watermark_columns import WATERMARK_COLUMNS

HEADERS = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))

TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS,
}
"""The kernel builds the same columns; a test compares the two."""


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    types = TYPES | WATERMARK_COLUMNS
    return pa.schema([(name, types[name]) for name in columns])


def checked_columns(
    columns: Sequence[str] | None, include_headers: bool, include_watermarks: bool | None = None
) -> list[str]:
    """The selected columns, checked. `columns` None selects the default columns. `include_watermarks`: whether these
    include event-time watermarks; None if the source has none."""
    known = TYPES if include_watermarks is None else TYPES | WATERMARK_COLUMNS
    if columns is None:
        names = [name for name in TYPES if include_headers or name != "headers"]
        return names + (list(WATERMARK_COLUMNS) if include_watermarks else [])
    if isinstance(columns, str) or not columns:
        raise OptionError("columns", columns, "must be a list with at least one column", 'Example: ["key", "value"]')
    for name in columns:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"The columns are {', '.join(known)}"
            raise OptionError("columns", name, "is not a column of Kafka", hint)
    if len(set(columns)) < len(columns):
        raise OptionError("columns", list(columns), "names a column twice")
    return list(columns)
