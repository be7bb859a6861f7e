"""Anything that Arrow can read, as a reader of record batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from penstock.writer.columns import PARTITION

ACCEPTED = (
    "a pyarrow Table, RecordBatch or RecordBatchReader, a pandas or polars DataFrame, a DuckDB relation, anything else "
    "with the Arrow stream interface (__arrow_c_stream__), or an iterable of these"
)

DUCKDB_READERS = ("to_arrow_reader", "fetch_record_batch")
"""The method of a DuckDB connection that returns its result as a reader: the present name, and the one before."""


def readers(data: Any) -> Iterator[pa.RecordBatchReader]:
    """The record batches of the data. One reader, or one for each part of an iterable, which may differ in columns."""
    reader = _reader(data)
    if reader is not None:
        yield reader
        return
    if isinstance(data, str | bytes | dict) or not isinstance(data, Iterable):
        raise TypeError(f"cannot write {_kind(data)}: give {ACCEPTED}")
    for part in data:
        reader = _reader(part)
        if reader is None:
            raise TypeError(f"cannot write {_kind(data)} of {_kind(part)}: give {ACCEPTED}")
        yield reader


def _reader(data: Any) -> pa.RecordBatchReader | None:
    """None if Arrow cannot read the data."""
    kind = type(data)
    library = kind.__module__.partition(".")[0]
    if isinstance(data, pa.RecordBatchReader):
        return data
    if library == "pandas" and kind.__name__ == "DataFrame":
        # Not by the stream interface, which makes columns of an index.
        return pa.Table.from_pandas(data, preserve_index=False).to_reader()
    if library == "polars" and kind.__name__ == "LazyFrame":
        data = data.collect()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        batch = pa.record_batch(data)
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    for name in DUCKDB_READERS:
        if library in ("duckdb", "_duckdb") and hasattr(data, name):
            reader: pa.RecordBatchReader = getattr(data, name)()
            return reader
    return None


def as_kafka_has_it(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with the types of Kafka's columns, where only the library they come from has others."""
    for at, field in enumerate(batch.schema):
        if field.name == PARTITION and (pa.types.is_integer(field.type) or pa.types.is_floating(field.type)):
            # pandas counts in 64 bits, and a column with nulls has floats.
            batch = batch.set_column(at, PARTITION, batch.column(at).cast(pa.int32()))
        elif pa.types.is_dictionary(field.type) and pa.types.is_string_view(field.type.value_type):
            # A category of polars, for which pyarrow has no cast.
            column = batch.column(at)
            batch = batch.set_column(at, field.name, column.dictionary.cast(pa.large_string()).take(column.indices))
    return batch


def _kind(data: Any) -> str:
    kind = type(data)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
