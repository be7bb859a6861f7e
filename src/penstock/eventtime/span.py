"""The lowest and highest event time of one range, and how many of its records are late (E5)."""

from __future__ import annotations

import pyarrow as pa

from penstock.eventtime.times import NO_TIMESTAMP, EventTimes


class EventTimeSpan:
    """The event times of the records that one task has read. For one thread."""

    def __init__(self, watermark: int | None = None, *, by_record: bool = False) -> None:
        """`watermark`: the combined one; records at or before it are late. `by_record`: event times are timestamps of
        records, which some records lack."""
        self.lowest: int | None = None
        """In milliseconds; None if no record has an event time."""
        self.highest: int | None = None
        self.late = 0
        self._watermark = watermark
        self._absent = NO_TIMESTAMP if by_record else None

    def observe(self, column: pa.Array) -> None:
        """Add the event times of more records; null where a record has none."""
        self.add(EventTimes(column, "the event time", absent=self._absent))

    def add(self, times: EventTimes, marks: EventTimes | None = None) -> None:
        """Add event times. `marks`: the watermarks that the records carry. They count in place of the times: the lowest
        and highest are theirs."""
        self.late += times.late(self._watermark)
        bounds = times if marks is None else marks
        if bounds.earliest is None or bounds.latest is None:
            return
        self.lowest = bounds.earliest if self.lowest is None else min(self.lowest, bounds.earliest)
        self.highest = bounds.latest if self.highest is None else max(self.highest, bounds.latest)
