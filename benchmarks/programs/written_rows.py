"""The rows of the plain write figures, as an Arrow table: the same ones that Spark generates for the batch figures.

A module that needs only pyarrow, because confluent-kafka runs in its own environment.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

CHUNK = 100_000
"""Rows of each chunk of the table: about as many as Parquet readers return."""

EVENTS = ("page_view", "search", "page_view", "add_to_cart", "page_view", "checkout")
COUNTRIES = ("DE", "US", "FR", "JP", "BR", "IN", "GB")


def rows_table(rows: int) -> pa.Table:
    """The columns `key` and `value`, binary."""
    chunks = [_rows(first, min(CHUNK, rows - first)) for first in range(0, rows, CHUNK)]
    return pa.Table.from_batches(chunks)


def _rows(first: int, count: int) -> pa.RecordBatch:
    numbers = pa.array(range(first, first + count), pa.int64())
    key = _text("u", _scattered(numbers, 7_919, 1_000_000, 1_000_000))
    value = _text(
        '{"user":"', key,
        '","event":"', _choice(numbers, EVENTS),
        '","item":', _scattered(numbers, 104_729, 80_000, 10_000),
        ',"country":"', _choice(numbers, COUNTRIES),
        '","device":"mobile","ms":', _scattered(numbers, 31, 900, 20),
        "}",
    )  # fmt: skip
    return pa.record_batch({"key": key.cast(pa.binary()), "value": value.cast(pa.binary())})


def _scattered(numbers: Any, factor: int, modulus: int, smallest: int) -> Any:
    product = pc.multiply(numbers, factor)
    rest = pc.subtract(product, pc.multiply(pc.divide(product, modulus), modulus))
    return pc.add(rest, smallest)


def _choice(numbers: Any, words: tuple[str, ...]) -> Any:
    return pc.take(pa.array(words), _scattered(numbers, 1, len(words), 0))


def _text(*parts: Any) -> Any:
    columns = [pa.scalar(part) if isinstance(part, str) else pc.cast(part, pa.string()) for part in parts]
    return pc.binary_join_element_wise(*columns, pa.scalar(""))
