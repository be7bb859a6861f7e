"""What `write_batches` and `Writer.write` accept."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from penstock.arrow.input_data import readers

ROWS = [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}]
TABLE = pa.Table.from_pylist(ROWS)


def rows(data):
    return [row for reader in readers(data) for batch in reader for row in batch.to_pylist()]


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        TABLE.to_batches(),
        (TABLE.slice(at, 1) for at in range(2)),
        pl.DataFrame(TABLE),
        pl.LazyFrame(ROWS),
        [pl.DataFrame(TABLE)[:1], TABLE[1:]],
        TABLE.to_struct_array().combine_chunks(),
    ],
    ids=["table", "batch", "reader", "batches", "tables", "polars", "lazy", "mixed", "struct"],
)
def test_arrow_data_is_read(data):
    assert rows(data) == ROWS


def test_the_index_of_a_pandas_frame_is_no_column():
    frame = pd.DataFrame(ROWS, index=["x", "y"])
    (reader,) = readers(frame)
    assert reader.schema.names == ["key", "value"]
    assert reader.read_all().to_pylist() == ROWS


def test_duckdb_relations_and_results_are_read():
    import duckdb

    connection = duckdb.connect()
    assert rows(connection.sql("select key, value from (values ('a', '1'), ('b', '2')) as t(key, value)")) == ROWS


def test_an_iterable_is_read_as_it_is_written():
    taken = []

    def parts():
        for at in range(3):
            taken.append(at)
            yield TABLE

    next(readers(parts()))
    assert taken == [0]


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ("text", "cannot write str"),
        (b"bytes", "bytes"),
        ({"key": [1]}, "dict"),
        (7, "int"),
        ([{"key": 1}], "list of dict"),
    ],
)
def test_anything_else_is_refused_by_its_type(data, named):
    with pytest.raises(TypeError, match=f"{named}: give a pyarrow Table"):
        rows(data)
