"""Event times and watermarks that a user's functions compute from whole batches of records (E6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import EventTimeError
from penstock.eventtime.strategy import WatermarkStrategy
from penstock.eventtime.times import EventTimes


@dataclass(frozen=True, slots=True)
class EventTimeFunctions:
    """The event time of a record as a strategy with functions has it. Picklable if the functions are."""

    strategy: WatermarkStrategy
    columns: tuple[str, ...]
    """Kafka's columns that the functions get, typed if the source is."""

    @property
    def sources(self) -> frozenset[str]:
        return frozenset(self.columns)

    def added_to(self, wanted: pa.DataType | None, full: pa.DataType) -> pa.DataType:
        """The type to decode a column as: all of it, because a function may use any field."""
        return full

    def times(self, column: Callable[[str], pa.Array]) -> tuple[EventTimes, EventTimes | None]:
        """The event times of some records, and the watermarks that they carry; None unless punctuated."""
        batch = pa.RecordBatch.from_arrays([column(name) for name in self.columns], list(self.columns))
        if self.strategy.marks is None:
            return self.strategy.times_of(batch), None
        return self.strategy.times_of(batch), self.strategy.marks_of(batch)

    def check(self, types: dict[str, pa.DataType]) -> None:
        """Call the functions once, on a batch without records. Raises EventTimeError."""
        try:
            self.times(lambda name: pa.array([], types[name]))
        except EventTimeError as error:
            hint = error.hint or "It is called with an empty batch when the DataFrame is made"
            raise EventTimeError(error.where, error.reason, hint, error.details) from error
