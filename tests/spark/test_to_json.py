"""The kernel's JSON against Spark's `to_json`: the same column, the same bytes."""

from __future__ import annotations

import json
import random
import struct
from decimal import Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from penstock._kernel import FormatEncoder
from penstock.model.types import list_type, map_type, struct_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZONES = ("UTC", "Europe/Berlin", "America/St_Johns", "+05:30")

MICROS = (
    *(0, -1, 1, 999, 1000, 1_705_314_030_123_456, -62_135_596_800_000_000, 253_402_300_799_999_999),
    *(253_402_300_800_000_000, -62_198_755_200_000_000, -2_208_988_800_000_001, -3_000_000_000_000_000),
    *(1_711_846_800_000_000, 1_711_850_400_000_000, 1_729_990_800_000_000, 4_102_444_800_000_000),
    *(9_000_000_000_000_000_000, -9_000_000_000_000_000_000),
)
DAYS = (0, -1, 18_262, 2_932_896, 2_932_897, -719_162, -719_163, -719_529, -141_428, -141_427, 100_000_000)
TEXTS = ("", "plain", 'q"b\\s/', "\b\t\n\f\r", "\x00\x01\x1f\x7f\x80", "grüße", "😀", "</script>", "a" * 100 + '"')


def _doubles() -> list[float]:
    rng = random.Random(15)
    powers = [sign * 10.0**power for power in range(-20, 25) for sign in (1, -1)]
    of_bits = [struct.unpack("<d", rng.randbytes(8))[0] for _ in range(500)]
    of_money = [round(rng.uniform(-1e6, 1e6), 2) for _ in range(500)]
    return [0.0, -0.0, 0.1, 1.5, 1e-3, 9.99e-4, 9999999.0, 1e7, 5e-324, float("nan"), float("inf"), float("-inf"),
            2.0**53, *powers, *of_bits, *of_money]  # fmt: skip


def _column(type_: pa.DataType, values: list[object]) -> pa.StructArray:
    return pa.array([{"v": value} for value in [*values, None]], struct_type({"v": type_}))


NESTED = struct_type(
    {
        "l": list_type(pa.int32()),
        "ll": list_type(list_type(pa.string())),
        "m": map_type(pa.string(), struct_type({"x": pa.float64(), "y": pa.binary()})),
        "mi": map_type(pa.int64(), pa.bool_()),
        "s": struct_type({"a": struct_type({"b": pa.int8()}), "c": pa.int16()}),
    }
)
NESTED_ROWS = [
    {"l": [1, None, -3], "ll": [[], None, ["a", None]], "m": [('k"', {"x": 1.0, "y": b"\x00\x01"}), ("n", None)]},
    {"mi": [(5, True), (-6, None)], "s": {"a": {"b": None}, "c": 3}},
    {"l": [], "m": [], "s": {"a": None, "c": None}},
    {"s": None},
]


def _cases() -> dict[str, pa.StructArray]:
    def scaled(precision: int, scale: int) -> pa.StructArray:
        most = 10**precision - 1
        numbers = [0, 1, -1, 15, 10, 100, most, -most, most // 7, 10**scale, -(10**scale) + 1]
        wide = Context(prec=60)
        fitting = [number for number in numbers if abs(number) <= most]
        return _column(
            pa.decimal128(precision, scale), [Decimal(number).scaleb(-scale, context=wide) for number in fitting]
        )

    floats = [struct.unpack("<f", struct.pack("<I", bits))[0] for bits in (1, 2, 8388608, 1036831949, 2139095039)]
    return {
        "boolean": _column(pa.bool_(), [True, False]),
        "tinyint": _column(pa.int8(), [0, 127, -128]),
        "smallint": _column(pa.int16(), [0, 32767, -32768]),
        "int": _column(pa.int32(), [0, 2**31 - 1, -(2**31)]),
        "bigint": _column(pa.int64(), [0, 2**63 - 1, -(2**63), 10**18]),
        "decimal(9,2)": scaled(9, 2),
        "decimal(20,0)": scaled(20, 0),
        "decimal(38,18)": scaled(38, 18),
        "decimal(38,38)": scaled(38, 38),
        "string": _column(pa.string(), list(TEXTS)),
        "binary": _column(pa.binary(), [b"", b"\x00", b"ab", b"abc", bytes(range(256))]),
        "date": _column(pa.date32(), list(DAYS)),
        "timestamp": _column(pa.timestamp("us", "UTC"), list(MICROS)),
        "timestamp_ntz": _column(pa.timestamp("us"), list(MICROS)),
        "nested": pa.array(NESTED_ROWS, NESTED),
        "double": _column(pa.float64(), list(_doubles())),
        "float": _column(pa.float32(), [0.0, -0.0, 0.1, 1e10, 3.4e38, 1e-3, float("nan"), float("-inf"), *floats]),
    }


def spark_texts(spark: SparkSession, column: pa.StructArray, ignore: bool, tmp_path: str) -> list[str]:
    import pyarrow.parquet as pq
    from pyspark.sql import functions as sf

    pq.write_table(pa.table({"n": range(len(column)), "v": column}), tmp_path, version="2.6")
    rows = spark.read.parquet(tmp_path).select("n", sf.to_json("v", {"ignoreNullFields": str(ignore)}))
    return [text for _, text in sorted(map(tuple, rows.collect()))]


@pytest.mark.spark
@pytest.mark.extended
@pytest.mark.parametrize("name", list(_cases()))
def test_W2_json_is_what_to_json_writes(spark: SparkSession, tmp_path: Path, name: str) -> None:
    column = _cases()[name]
    zones = ZONES if name == "timestamp" else ZONES[:1]
    for zone in zones:
        for ignore in (True, False):
            spark.conf.set("spark.sql.session.timeZone", zone)
            try:
                expected = spark_texts(spark, column, ignore, str(tmp_path / f"{zones.index(zone)}-{ignore}.parquet"))
            finally:
                spark.conf.unset("spark.sql.session.timeZone")
            encoder = FormatEncoder.json(pa.field("", column.type), time_zone=zone, ignore_null_fields=ignore)
            written = [each.decode() for each in pa.array(encoder.encode(column)).to_pylist()]
            if name in ("double", "float"):
                # Java below 19 writes more digits than needed for some numbers.
                differing = [(ours, theirs) for ours, theirs in zip(written, expected, strict=True) if ours != theirs]
                assert len(differing) < len(expected) / 10, differing
                code = "<d" if name == "double" else "<f"
                for pair in differing:
                    ours, theirs = (struct.pack(code, json.loads(text)["v"]) for text in pair)
                    assert ours == theirs, pair
                assert all(len(ours) < len(theirs) for ours, theirs in differing), differing
            else:
                assert written == expected, zone
