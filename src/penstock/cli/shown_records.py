"""Records as the page of `penstock watch` gets them: texts of a bounded size."""

from __future__ import annotations

import codecs
import json

import pyarrow as pa

from penstock.cli.records import moment
from penstock.cli.typed_records import plain_values
from penstock.formats.layout import CORRUPT, ERROR
from penstock.watch.search import Cut, ShownRecord

COLUMNS = ["partition", "offset", "timestamp", "key", "value", "headers"]
TYPED_COLUMNS = [*COLUMNS, ERROR, CORRUPT]

SHOWN_BYTES = 8 * 1024
"""Of a key, a value or a header. 200 records of that size are an answer of a few MB."""
SHOWN_HEADERS = 50


def shown(batch: pa.RecordBatch) -> list[tuple[int, ShownRecord]]:
    """The rows of a batch, each with its timestamp in microseconds."""
    rows = batch.num_rows
    if rows == 0:
        return []
    times = batch.column("timestamp").view(pa.int64()).to_pylist()
    keys, values = _cuts(batch.column("key")), _cuts(batch.column("value"))
    errors: list[str | None] = [None] * rows
    if ERROR in batch.schema.names:
        errors = batch.column(ERROR).to_pylist()
        for at, data in enumerate(_cuts(batch.column(CORRUPT))):
            if data.text is not None:
                # The column has the bytes of the value, unless the key alone is malformed.
                (keys if _is_of_key(errors[at] or "") else values)[at] = data
    headers = batch.column("headers").to_pylist()
    places = batch.column("partition").to_pylist(), batch.column("offset").to_pylist()
    return [
        (
            at or 0,
            ShownRecord(
                *(partition, offset, moment(at), key, value),
                tuple((each["key"][:SHOWN_BYTES], cut(each["value"])) for each in (named or ())[:SHOWN_HEADERS]),
                error,
            ),
        )
        for partition, offset, at, key, value, named, error in zip(
            *places, times, keys, values, headers, errors, strict=True
        )
    ]


def _is_of_key(error: str) -> bool:
    return error.startswith("key: ") and "; value: " not in error


def _cuts(column: pa.Array) -> list[Cut]:
    """Text and bytes as text, other types as JSON. Only the beginning of a large text becomes a Python object."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.view(pa.binary() if pa.types.is_string(column.type) else pa.large_binary())
    elif not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
        # One row at a time, because each may be large.
        return [cut(_json(column.slice(at, 1))) for at in range(len(column))]
    # Not by pyarrow.compute, which takes 13 MB.
    buffers = [one.as_buffer() for one in column]
    return [_cut(*(None, None) if data is None else (data[:SHOWN_BYTES].to_pybytes(), data.size)) for data in buffers]


def _json(one: pa.Array) -> bytes | None:
    [value] = plain_values(one)
    return None if value is None else json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


def cut(data: bytes | None) -> Cut:
    return _cut(None if data is None else data[:SHOWN_BYTES], None if data is None else len(data))


def _cut(start: bytes | None, size: int | None) -> Cut:
    if start is None or size is None:
        return Cut(None, None)
    # A character that is cut at the end is left out. Other bytes that are not UTF-8 are escaped.
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    return Cut(decoder.decode(start, final=len(start) == size), size, len(start) < size)
