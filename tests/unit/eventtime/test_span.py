"""What a task makes of event times (E5, F19), and the watermark columns."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import OptionError
from penstock.eventtime.field import EventTimeField
from penstock.eventtime.span import EventTimeSpan
from penstock.eventtime.strategy import WatermarkStrategy
from penstock.model.columns import arrow_schema, checked_columns
from penstock.model.watermark_columns import WatermarkColumns

TYPES = [
    pa.int64(),
    pa.date32(),
    pa.date64(),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    pa.timestamp("us", tz="UTC"),
    pa.timestamp("ms", tz="Europe/Berlin"),
]


def numbers(kind: pa.DataType) -> tuple[int, int]:
    """The least and the most that a test puts into a column: around 1970, so that rounding down shows."""
    if pa.types.is_date64(kind):
        return 0, 0
    return -5000, 5000


@pytest.mark.parametrize("kind", TYPES, ids=str)
@given(data=st.data())
def test_E5_F19_highest_and_late_are_those_of_the_strategys_own_event_times(kind, data):
    low, high = numbers(kind)
    values = data.draw(st.lists(st.none() | st.integers(low, high), max_size=30))
    if pa.types.is_date64(kind):
        values = [None if value is None else data.draw(st.integers(-3, 3)) * 86_400_000 for value in values]
    watermark = data.draw(st.none() | st.integers(-6_000_000, 6_000_000) | st.integers(-10, 10))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=3)))
    column = pa.array(values, pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)
    span = EventTimeSpan(watermark)
    for start, stop in pairwise([0, *cuts, len(values)]):
        span.observe(column[start:stop])
    strategy = WatermarkStrategy.monotonous().with_timestamps("at")
    times = [time for time in strategy.event_times(pa.record_batch({"at": column})).to_pylist() if time is not None]
    assert span.highest == max(times, default=None)
    assert span.late == sum(watermark is not None and time <= watermark for time in times)


@pytest.mark.parametrize("watermark", [2**62, 2**63, -(2**62), -(2**63)])
def test_E5_watermarks_of_broken_clocks_are_compared_too(watermark):
    for kind in TYPES:
        span = EventTimeSpan(watermark)
        span.observe(
            pa.array([0, 86_400_000, None], pa.int64())
            .cast(pa.int32() if kind == pa.date32() else pa.int64())
            .cast(kind)
        )
        assert span.late == (2 if watermark > 0 else 0), kind


def test_F19_a_record_without_a_timestamp_has_no_event_time():
    kind = pa.timestamp("us", tz="UTC")
    span = EventTimeSpan(10, by_record=True)
    span.observe(pa.array([-1000, 7000, -1000, 11_000], kind))
    assert (span.highest, span.late) == (11, 1)
    span = EventTimeSpan(10, by_record=True)
    span.observe(pa.array([-1000, -1000], kind))
    assert (span.highest, span.late) == (None, 0)
    span = EventTimeSpan(10)  # in a payload it is a time like any other
    span.observe(pa.array([-1000], kind))
    assert (span.highest, span.late) == (-1, 1)


def test_F19_a_value_in_a_null_struct_is_not_an_event_time():
    inner = pa.StructArray.from_arrays([pa.array([5, 99, 7])], ["at"], mask=pa.array([False, True, False]))
    outer = pa.StructArray.from_arrays([inner], ["created"], mask=pa.array([False, False, True]))
    found = EventTimeField("value", ("created", "at")).values(outer)
    assert found.to_pylist() == [5, None, None]


def test_a_worker_that_looks_at_no_event_times_does_not_load_what_computes_them():
    code = "import sys, penstock.spark.stream, penstock.reader.task; print('pyarrow.compute' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


# --- columns ----------------------------------------------------------------------------------------------------------


def test_watermark_columns_hold_the_same_in_every_row():
    columns = WatermarkColumns((1500, None))
    for rows in (3, 0, 5, 2):
        mine, partitions = columns.column("_watermark", rows), columns.column("_partition_watermark", rows)
        assert mine.to_pylist() == [datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)] * rows
        assert partitions.to_pylist() == [None] * rows
        schema = arrow_schema(["_watermark", "_partition_watermark"])
        assert pa.RecordBatch.from_arrays([mine, partitions], schema=schema).validate(full=True) is None


@pytest.mark.parametrize("watermark", [2**62, -(2**62)])
def test_a_watermark_beyond_all_calendars_is_the_furthest_there_is(watermark):
    (found,) = WatermarkColumns((watermark, 0)).column("_watermark", 1)
    assert found.value == (2**63 - 1) * (1 if watermark > 0 else -1)


def test_watermark_columns_are_named_where_there_are_some():
    ours = ["_watermark", "_partition_watermark"]
    assert checked_columns(None, include_headers=False, include_watermarks=True)[-2:] == ours
    assert not {*ours} & {*checked_columns(None, include_headers=False, include_watermarks=False)}
    assert checked_columns(["value", *ours], False, False) == ["value", *ours]
    with pytest.raises(OptionError, match="is not a column of Kafka"):
        checked_columns(ours, include_headers=False)
