"""Tables that the Streamer's sinks write, read by Spark with Delta Lake's and Iceberg's own jars, and by DuckDB with
its own extensions.

Each in an environment with the newest version of the reader that has a release for the format.
"""

from __future__ import annotations

import json
import subprocess
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from benchmarks import environments

from penstock.model.columns import arrow_schema
from penstock.streamer.table_offsets import OffsetMoves, TablePartition, log_name
from support import duckdb_reader, table_reader

# The first run may have to fetch PySpark, which is large.
pytestmark = pytest.mark.timeout(2400)

READ_SECONDS = 300.0
RECORDS = 50
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
P0 = TablePartition(log_name("c", "g", "t", "id"), 0)


def records(start, end):
    rows = [
        {
            "key": b"k",
            "value": b"%d" % offset,
            "topic": "t",
            "partition": 0,
            "offset": offset,
            "timestamp": (1_738_324_800_000 + offset) * 1000,
            "headers": [{"key": "trace", "value": b"x"}],
        }
        for offset in range(start, end)
    ]
    typed = pa.array([{"n": offset, "list": [0.5]} for offset in range(start, end)])
    return pa.Table.from_pylist(rows, schema=arrow_schema(COLUMNS)).append_column("typed", typed)


@pytest.fixture
def environment(lake):
    """The interpreter, the jars, and what Spark loads."""
    if lake.kind == "delta":
        return environments.jvm_source(print).python, environments.delta_jars(print)
    return environments.pyspark(environments.ICEBERG_SPARK_VERSION, print).python, environments.iceberg_jars(print)


@pytest.fixture
def table(lake):
    """A table of several commits, the last one without files. Where it is."""
    writer = lake.sink(partition_by=["date"]).open("t")
    for start in range(0, RECORDS, 10):
        writer.commit(records(start, start + 10), OffsetMoves({P0: start or None}, {P0: start + 10}))
    writer.commit(None, OffsetMoves({P0: RECORDS}, {P0: RECORDS + 3}))
    return lake.path if lake.kind == "delta" else lake.table().metadata_location


EXPECTED = {
    "rows": RECORDS,
    "distinct": RECORDS,
    "values": sum(range(RECORDS)),
    "typed": sum(range(RECORDS)),
    "days": [str(date(2025, 1, 31))],
    "headers": [["trace", "x"]],
}


def found_by(*words, cwd):
    ran = subprocess.run(words, capture_output=True, text=True, timeout=READ_SECONDS, cwd=cwd, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout.splitlines()[-1])


def test_spark_reads_each_row_once(lake, table, environment, tmp_path):
    python, jars = environment
    words = (python, Path(table_reader.__file__), lake.kind, table, ",".join(map(str, jars)))
    assert found_by(*words, cwd=tmp_path) == EXPECTED


def test_duckdb_reads_each_row_once(lake, table, tmp_path):
    python = environments.duckdb(print).python
    assert found_by(python, Path(duckdb_reader.__file__), lake.kind, table, cwd=tmp_path) == EXPECTED
