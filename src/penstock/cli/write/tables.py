"""CSV and Parquet files as batches of records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from penstock.cli.write.input_file import BadInput, InputFile
from penstock.cli.write.layout import TIMESTAMP, WRITTEN, InputSettings, Layout
from penstock.writer.columns import is_bytes_or_text

CSV_BLOCK = 1 << 20
PARQUET_ROWS = 16_384


class TableRows:
    """The records of one CSV or Parquet file."""

    def __init__(self, file: InputFile, settings: InputSettings) -> None:
        self._file = file
        self._settings = settings
        self._row = 0
        self._rows = 0
        """Of Parquet. 0: the number of rows is unknown."""
        self._stream: BinaryIO | None = None
        self._schema, self._batches = self._open_csv() if file.format == "csv" else self._open_parquet()
        self.layout: Layout = settings.layout_of(self._schema.names)
        is_bytes = self.layout == "records" and is_text(self._schema.field("value").type)
        self.needs_format = not is_bytes
        """Whether values must be encoded: they are neither bytes nor text."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        convert = records_of if self.layout == "records" else rows_of
        try:
            for batch in self._batches:
                converted = convert(batch, self._settings)
                self._row += batch.num_rows
                yield converted
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            raise BadInput(self._file, f"after row {self._row:,}", _one_line(error)) from error

    def share(self) -> float | None:
        if self._stream is not None:
            return self._file.share(self._stream)
        return self._row / self._rows if self._rows else None

    def _open_csv(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        from pyarrow import csv

        settings, types = self._settings, {}
        if settings.schema is not None:
            types = {field.name: field.type for field in settings.schema}
        else:
            types = {"key": pa.string(), "value": pa.string()}  # of records; no number loses its zeros
        self._stream = self._file.open()
        try:
            reader = csv.open_csv(
                self._stream,
                read_options=csv.ReadOptions(block_size=CSV_BLOCK),
                parse_options=csv.ParseOptions(delimiter=settings.delimiter or self._file.delimiter),
                convert_options=csv.ConvertOptions(column_types=types),
            )
        except (pa.ArrowInvalid, OSError) as error:
            raise BadInput(self._file, "", _one_line(error)) from error
        return reader.schema, iter(reader)

    def _open_parquet(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        from pyarrow import parquet

        try:
            file = parquet.ParquetFile(self._file.path)
        except (pa.ArrowInvalid, OSError) as error:
            raise BadInput(self._file, "", _one_line(error)) from error
        self._rows = file.metadata.num_rows
        return file.schema_arrow, file.iter_batches(PARQUET_ROWS)


def records_of(batch: pa.RecordBatch, settings: InputSettings) -> pa.RecordBatch:
    """Kafka's columns of a batch."""
    columns = {}
    for name in WRITTEN:
        if name not in batch.schema.names or (name == "partition" and not settings.keep_partitions):
            continue
        column = plain(batch.column(name))
        if name == "timestamp":
            column = as_timestamp(column)
        elif name == "partition":
            column = column.cast(pa.int32())
        elif name in ("key", "value") and not is_text(column.type) and not pa.types.is_nested(column.type):
            column = column.cast(pa.string())
        columns[name] = column
    return pa.record_batch(columns)


def rows_of(batch: pa.RecordBatch, settings: InputSettings) -> pa.RecordBatch:
    """One struct per row, and the key that the user chose."""
    fields = [plain(column) for column in batch.columns]
    columns = {"value": pa.StructArray.from_arrays(fields, names=batch.schema.names)}
    if settings.key is not None:
        key = plain(batch.column(settings.key))
        columns["key"] = key if is_text(key.type) else key.cast(pa.string())
    return pa.record_batch(columns)


def as_timestamp(column: pa.Array) -> pa.Array:
    """Times as milliseconds. Numbers are milliseconds already, and a time without a zone is UTC."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64()).cast(pa.timestamp("ms")).cast(TIMESTAMP)
    if is_text(column.type):
        column = column.cast(pa.timestamp("us", "UTC"))
    return column.cast(TIMESTAMP, safe=False)  # microseconds are cut off


def plain(column: pa.Array) -> pa.Array:
    """Without dictionaries, by which pyarrow reads columns that it wrote from categories."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def is_text(type_: pa.DataType) -> bool:
    return is_bytes_or_text(type_.value_type if pa.types.is_dictionary(type_) else type_)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
