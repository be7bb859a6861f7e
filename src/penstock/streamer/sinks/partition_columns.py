"""The column `date`: the UTC day of `timestamp`, for sinks that partition by day."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

DATE = "date"


def days_of(timestamps: pa.ChunkedArray) -> pa.ChunkedArray:
    days = timestamps.cast(pa.timestamp("us")).cast(pa.date32(), safe=False)
    # A timestamp may be any number (such as microseconds read as milliseconds), and the calendar ends.
    in_calendar = pc.and_(pc.greater_equal(days, date.min), pc.less_equal(days, date.max))
    return pc.if_else(in_calendar, days, pa.scalar(None, pa.date32()))


def with_date(rows: pa.Table) -> pa.Table:
    return rows.append_column(DATE, days_of(rows.column("timestamp")))
