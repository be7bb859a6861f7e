"""The kernel's Avro against Spark's `to_avro` and `from_avro`, in an environment that has spark-avro."""

from __future__ import annotations

import datetime
import json
import subprocess
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.environments import EnvironmentMissing, Rival, avro_source

from chaos.processes import clean_environment
from fixtures.jvm_source import SETTINGS
from penstock._kernel import FormatEncoder
from penstock.formats.derived_schema import avro_schema
from penstock.model.types import list_type, map_type, struct_type

pytestmark = [pytest.mark.jvm, pytest.mark.extended, pytest.mark.timeout(1500)]

SECONDS = 600

TYPE = struct_type(
    {
        "flag": pa.bool_(),
        "tiny": pa.int8(),
        "number": pa.int32(),
        "long": pa.int64(),
        "real": pa.float32(),
        "double": pa.float64(),
        "text": pa.string(),
        "bytes": pa.binary(),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "price": pa.decimal128(9, 2),
        "large": pa.decimal128(38, 10),
        "tags": list_type(pa.string()),
        "inner": struct_type({"a": pa.int64(), "deep": struct_type({"price": pa.decimal128(20, 3)})}),
        "map": map_type(pa.string(), struct_type({"x": pa.float64()})),
    }
)
FULL = {
    "flag": True,
    "tiny": -5,
    "number": 2**31 - 1,
    "long": -(2**63),
    "real": 0.1,
    "double": 1e300,
    "text": "grüße",
    "bytes": b"\x00\xff",
    "day": datetime.date(2024, 2, 29),
    "at": datetime.datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=datetime.UTC),
    "local": datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
    "price": Decimal("-1234567.89"),
    "large": Decimal("1234567890123456789012345678.0123456789"),
    "tags": ["a", None, ""],
    "inner": {"a": 1, "deep": {"price": Decimal("0.001")}},
    "map": [("k", {"x": 1.5})],  # one entry: Java's maps have no order
}
ROWS = [
    FULL,
    dict.fromkeys(FULL),
    FULL | {"tags": [], "map": [("n", None)], "inner": {"a": None, "deep": None}, "price": Decimal(0)},
]

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import from_avro, to_avro

request = json.load(sys.stdin)
builder = SparkSession.builder.master("local[1]").config("spark.jars", request["jars"])
for name, value in request["settings"].items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
rows = spark.read.parquet(request["folder"] + "/rows")
rows = rows.select("n", to_avro("v").alias("theirs"), from_avro("ours", request["schema"]).alias("read"))
rows.coalesce(1).write.parquet(request["folder"] + "/results")
spark.stop()
"""


@pytest.fixture(scope="module")
def environment() -> Rival:
    try:
        return avro_source(lambda text: None)
    except EnvironmentMissing as missing:
        pytest.skip(f"spark-avro is not available: {missing}")


def test_W2_a_derived_schema_and_its_bytes_are_those_of_to_avro_and_from_avro_reads_them(
    environment: Rival, tmp_path: Path
) -> None:
    column = pa.array(ROWS, TYPE)
    schema = avro_schema(TYPE)
    encoded = FormatEncoder.avro(schema, pa.field("", TYPE)).encode(column)
    assert encoded.faults == []
    ours = pa.array(encoded)
    pq.write_table(pa.table({"n": range(len(ROWS)), "v": column, "ours": ours}), tmp_path / "rows")
    request = {
        "folder": str(tmp_path),
        "schema": schema,
        "jars": ",".join(map(str, environment.jars)),
        "settings": SETTINGS | {"spark.local.dir": str(tmp_path / "local")},
    }
    ran = subprocess.run(
        [str(environment.python), "-c", PROGRAM],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=tmp_path,
        env=clean_environment(),
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = pq.read_table(tmp_path / "results").sort_by("n")
    # The column is nullable there, and so the record is a branch of a union: its index is the first byte.
    assert found.column("theirs").to_pylist() == [b"\0" + value for value in ours.to_pylist()]
    assert found.column("read").to_pylist() == column.to_pylist()
