"""CSV and Parquet files as records, without a broker."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.cli.write import tables
from penstock.cli.write.input_file import BadInput, input_files
from penstock.cli.write.layout import InputSettings
from penstock.cli.write.tables import TableRows
from penstock.errors import OptionError
from penstock.formats.schema import parse_schema


@pytest.fixture
def csv(tmp_path):
    def write(text, name="rows.csv"):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def opened(path, **settings):
    (file,) = input_files([path], None)
    return TableRows(file, InputSettings(**settings))


def read(path, **settings):
    return [row for batch in opened(path, **settings).batches() for row in batch.to_pylist()]


def test_a_row_of_other_columns_is_a_struct(csv):
    assert read(csv("user,n\nann,1\nbob,2\n"), key="user") == [
        {"key": "ann", "value": {"user": "ann", "n": 1}},
        {"key": "bob", "value": {"user": "bob", "n": 2}},
    ]


def test_a_key_that_is_a_number_is_written_as_text(csv):
    assert [row["key"] for row in read(csv("id,n\n7,1\n"), key="id")] == ["7"]


def test_kafkas_columns_are_records(csv):
    path = csv("key,value,timestamp,partition\n007,1,2025-01-31T12:00:00Z,3\n")
    assert not opened(path).needs_format
    (batch,) = opened(path).batches()
    assert batch.schema.names == ["key", "value", "timestamp"]
    assert batch.column("key").to_pylist() == ["007"]  # not 7
    assert batch.column("timestamp").cast("int64").to_pylist() == [1_738_324_800_000]
    (batch,) = opened(path, keep_partitions=True).batches()
    assert batch.column("partition").to_pylist() == [3]


def test_timestamps_may_be_milliseconds(csv):
    (batch,) = opened(csv("value,timestamp\na,1738324800001\n")).batches()
    assert batch.column("timestamp").cast("int64").to_pylist() == [1_738_324_800_001]


def test_a_schema_replaces_inferred_types(csv):
    schema = parse_schema("zip STRING, n DOUBLE")
    assert read(csv("zip,n\n01234,1\n"), schema=schema) == [{"value": {"zip": "01234", "n": 1.0}}]


def test_tabs_and_other_delimiters(csv):
    assert read(csv("a\tb\n1\t2\n", "rows.tsv")) == [{"value": {"a": 1, "b": 2}}]
    assert read(csv("a;b\n1;2\n"), delimiter=";") == [{"value": {"a": 1, "b": 2}}]


def test_compressed_files_are_read(tmp_path):
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"a\n1\n"))
    assert read(str(path)) == [{"value": {"a": 1}}]


def test_a_bad_row_is_named_by_file_and_row(csv, monkeypatch):
    monkeypatch.setattr(tables, "CSV_BLOCK", 64)
    path = csv("a,b\n" + "1,2\n" * 100 + "1,x\n")
    with pytest.raises(BadInput, match=r"rows\.csv, after row \d+: .*invalid value 'x'"):
        read(path)
    with pytest.raises(BadInput, match="Expected 2 columns, got 3"):
        read(csv("a,b\n" + "1,2\n" * 100 + "1,2,3\n"))
    with pytest.raises(BadInput, match=r"rows\.csv: Empty CSV file"):
        read(csv(""))


def test_parquet_is_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "PARQUET_ROWS", 10)
    path = str(tmp_path / "rows.parquet")
    pq.write_table(pa.table({"id": list(range(35)), "tags": [["a"]] * 35}), path)
    source = opened(path, key="id")
    assert source.needs_format
    batches = list(source.batches())
    assert [batch.num_rows for batch in batches] == [10, 10, 10, 5]
    assert batches[3].to_pylist()[-1] == {"key": "34", "value": {"id": 34, "tags": ["a"]}}


def test_parquet_with_kafkas_columns(tmp_path):
    path = str(tmp_path / "records.parquet")
    table = pa.table(
        {
            "key": pa.array(["a", None]).dictionary_encode(),
            "value": [b"1", None],
            "timestamp": pa.array([1_738_324_800_001_999, None], pa.timestamp("us", "UTC")),
            "headers": pa.array([[("h", b"1")], None], pa.list_(pa.struct([("key", "string"), ("value", "binary")]))),
            "offset": [1, 2],
        }
    )
    pq.write_table(table, path)
    (batch,) = opened(path).batches()
    assert batch.schema.names == ["key", "value", "headers", "timestamp"]
    assert batch.column("key").to_pylist() == ["a", None]
    assert batch.column("timestamp").cast("int64").to_pylist() == [1_738_324_800_001, None]


def test_a_file_that_is_not_parquet(tmp_path):
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1 not really")
    with pytest.raises(BadInput, match=r"x\.parquet: "):
        opened(str(path))


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("missing.csv", None, "cannot be read: No such file"),
        ("rows.txt", None, "Set --input-format to jsonl, csv or parquet"),
        (".", "csv", "cannot be read: Is a directory"),
    ],
)
def test_a_path_that_cannot_be_read_fails_before_anything_is_written(name, given, said, tmp_path):
    (tmp_path / "rows.txt").write_text("")
    with pytest.raises(OptionError, match=said):
        input_files([str(tmp_path / name)], given)


def test_formats_by_extension(tmp_path):
    names = ["a.jsonl", "a.json", "a.csv.gz", "a.tsv", "a.parquet", "A.NDJSON"]
    for name in names:
        (tmp_path / name).write_text("")
    found = input_files([str(tmp_path / name) for name in names], None)
    assert [file.format for file in found] == ["jsonl", "jsonl", "csv", "csv", "parquet", "jsonl"]
    assert [file.format for file in input_files([], None)] == ["jsonl"]
    with pytest.raises(OptionError, match="cannot be read from a pipe"):
        input_files(["-"], "parquet")
