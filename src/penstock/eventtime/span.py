"""What the event times of one range come to: the lowest and the highest, and how many were late (E5)."""

from __future__ import annotations

import pyarrow as pa

from penstock.eventtime.times import NO_TIMESTAMP, EventTimes


class EventTimeSpan:
    """The event times of the records that one task has read. For one thread."""

    def __init__(self, watermark: int | None = None, *, by_record: bool = False) -> None:
        """`watermark`: the combined one, by which records are late. `by_record`: whether event times are the records'
        own timestamps, which some have not."""
        self.lowest: int | None = None
        """In milliseconds; None: no record has an event time."""
        self.highest: int | None = None
        self.late = 0
        self._watermark = watermark
        self._absent = NO_TIMESTAMP if by_record else None

    def observe(self, column: pa.Array) -> None:
        """The event times of some more records; null where one has none."""
        times = EventTimes(column, "the event time", absent=self._absent)
        if times.earliest is None or times.latest is None:
            return
        self.lowest = times.earliest if self.lowest is None else min(self.lowest, times.earliest)
        self.highest = times.latest if self.highest is None else max(self.highest, times.latest)
        self.late += times.late(self._watermark)
