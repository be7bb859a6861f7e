"""Event times that a user's own class reads from the bytes, in a streaming query (E6)."""

from __future__ import annotations

import sys
import uuid

import pytest

from fixtures.produce import Rec

READINGS = """
from datetime import UTC, datetime

class Readings:
    def schema(self):
        return "number BIGINT, at TIMESTAMP"

    def deserialize_record(self, record):
        number, seconds = map(int, record.value.split(b"@"))
        return {"number": number, "at": datetime.fromtimestamp(seconds, UTC)}
"""
START = 1_800_000_000
"""Seconds since 1970; the records' own timestamps are others."""


@pytest.fixture
def readings(spark, tmp_path, monkeypatch):
    module = tmp_path / "own_readings.py"
    module.write_text(READINGS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", ":".join([str(tmp_path), *sys.path]))
    spark.sparkContext.addPyFile(str(module))
    return "own_readings:Readings"


def test_E6_a_class_by_import_path_supplies_the_event_time(spark, kafka, topic, produce, readings):
    name = topic()
    produce(name, [Rec(b"%d@%d" % (number, START + 10 * number), timestamp=1000 + number) for number in range(6)])
    options = {"subscribe": name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "2"}
    options |= {"valueFormat": readings, "flatten": "true"}
    options |= {"eventTime.column": "at", "eventTime.outOfOrderness": "3s", "includeWatermarks": "true"}
    frame = spark.readStream.format("penstock").options(**options, **kafka.client_options()).load()
    query = frame.writeStream.format("memory").queryName("own_event_time").trigger(availableNow=True).start()
    assert query.awaitTermination(180)
    rows = spark.sql(
        "SELECT number, unix_millis(_watermark) AS watermark FROM own_event_time ORDER BY number"
    ).collect()

    def after(number):
        """The watermark once the record `number` was read: its event time less the bound and a millisecond."""
        return (START + 10 * number - 3) * 1000 - 1

    assert [(row.number, row.watermark) for row in rows] == [
        *[(0, None), (1, None)],
        *[(2, after(1)), (3, after(1))],
        *[(4, after(3)), (5, after(3))],
    ]


FUNCTIONS = """
import pyarrow as pa
import pyarrow.compute as pc

def times(batch):
    numbers = pc.list_element(pc.split_pattern(batch.column("value").cast(pa.string()), "@"), 1)
    return pc.multiply(numbers.cast(pa.int64()), 1000)

def marks(batch):  # only even seconds carry a watermark
    found = times(batch)
    even = pc.equal(pc.bit_wise_and(pc.divide(found, 1000), 1), 0)
    return pc.if_else(even, found, pa.scalar(None, pa.int64()))
"""


@pytest.fixture
def functions(spark, tmp_path):
    """A module that Spark sends: the planner finds it without a path of its own."""
    name = f"own_functions_{uuid.uuid4().hex}"
    (tmp_path / f"{name}.py").write_text(FUNCTIONS)
    spark.sparkContext.addPyFile(str(tmp_path / f"{name}.py"))
    return name


def watermarks(spark, kafka, name, **options):
    """Rows as (seconds, watermark in seconds), in batches of two."""
    options = {"subscribe": name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "2"} | options
    frame = spark.readStream.format("penstock").options(**options, includeWatermarks="true", **kafka.client_options())
    table = f"own_{uuid.uuid4().hex}"
    query = frame.load().writeStream.format("memory").queryName(table).trigger(availableNow=True).start()
    assert query.awaitTermination(180)
    rows = spark.sql(f"SELECT offset, unix_millis(_watermark) AS watermark FROM {table} ORDER BY offset").collect()
    return [row.watermark for row in rows]


def test_E6_functions_by_import_path_have_times_and_watermarks(spark, kafka, topic, produce, functions):
    name = topic()
    produce(name, [Rec(b"x@%d" % seconds, timestamp=1000 + seconds) for seconds in (4, 7, 9, 6, 8, 5)])
    by_time = watermarks(spark, kafka, name, **{"eventTime.function": f"{functions}:times"})
    assert by_time == [None, None, 6999, 6999, 8999, 8999]
    punctuated = watermarks(spark, kafka, name, **{"eventTime.watermarks": f"{functions}:marks"})
    assert punctuated == [None, None, 4000, 4000, 6000, 6000], "records with odd seconds carry no watermark"


def test_E6_a_function_is_checked_when_the_data_frame_is_made(spark, kafka, topic, functions):
    options = {"subscribe": topic(), "eventTime.function": f"{functions}:tmies"} | kafka.client_options()
    with pytest.raises(Exception, match=f"{functions} has no tmies: did you mean times"):
        spark.readStream.format("penstock").options(**options).load()
