"""Records as the page of `penstock watch` gets them: texts of a bounded size."""

from __future__ import annotations

import codecs

import pyarrow as pa
import pyarrow.compute as pc

from penstock.cli.records import moment
from penstock.watch.search import Cut, ShownRecord

COLUMNS = ["partition", "offset", "timestamp", "key", "value", "headers"]

SHOWN_BYTES = 8 * 1024
"""Of a key, a value or a header. 200 records of that size are an answer of a few MB."""


def shown(batch: pa.RecordBatch) -> list[tuple[int, ShownRecord]]:
    """The rows of a batch, each with its timestamp in microseconds."""
    if batch.num_rows == 0:
        return []
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    keys, values = _cuts(batch.column("key")), _cuts(batch.column("value"))
    headers = batch.column("headers").to_pylist()
    rows = zip(
        *(batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), times, keys, values, headers),
        strict=True,
    )
    return [
        (
            at or 0,
            ShownRecord(
                *(partition, offset, moment(at), key, value),
                tuple((each["key"][:SHOWN_BYTES], cut(each["value"])) for each in (named or ())[:50]),
            ),
        )
        for partition, offset, at, key, value, named in rows
    ]


def _cuts(column: pa.Array) -> list[Cut]:
    """Only the beginning of a large value becomes a Python object."""
    sizes = pc.binary_length(column).to_pylist()
    starts = pc.binary_slice(column, 0, SHOWN_BYTES).to_pylist()
    return [_cut(start, size) for start, size in zip(starts, sizes, strict=True)]


def cut(data: bytes | None) -> Cut:
    return _cut(None if data is None else data[:SHOWN_BYTES], None if data is None else len(data))


def _cut(start: bytes | None, size: int | None) -> Cut:
    if start is None or size is None:
        return Cut(None, None)
    # A character that is cut at the end is left out. Other bytes that are not UTF-8 are escaped.
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    return Cut(decoder.decode(start, final=len(start) == size), size, len(start) < size)
