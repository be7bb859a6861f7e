"""The work of a task, as Spark pickles it."""

from __future__ import annotations

import uuid

import pytest
from pyspark.serializers import CPickleSerializer

from penstock.model.offset_range import OffsetRange
from penstock.model.task_report import ReportAddress
from penstock.model.watermark_columns import UNKNOWN
from penstock.spark.batch import RangePartition

WHOLE = OffsetRange("events", 3, 5, 9, uuid.uuid4(), "broker", 9092, 7)


@pytest.mark.parametrize("value", [WHOLE, OffsetRange("events", 0, 0, 1)])
@pytest.mark.parametrize("reports", [None, ReportAddress(("a", "b"), 40000, "token")])
@pytest.mark.parametrize("watermarks", [UNKNOWN, (5, None), (5, 6)])
def test_a_task_gets_the_planned_range(value, reports, watermarks):
    serializer = CPickleSerializer()
    found = serializer.loads(serializer.dumps(RangePartition(value, reports, watermarks)))
    assert isinstance(found, RangePartition)
    assert (found.value, found.reports, found.watermarks) == (value, reports, watermarks)


def test_a_task_costs_few_bytes():
    assert len(CPickleSerializer().dumps(RangePartition(WHOLE))) < 160
