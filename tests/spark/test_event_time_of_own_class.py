"""Event times that a user's own class reads from the bytes, in a streaming query (E6)."""

from __future__ import annotations

import sys

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
