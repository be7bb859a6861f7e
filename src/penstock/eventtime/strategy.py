"""WatermarkStrategy: the event time of records, and how far out of order they may arrive (E1)."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import EventTimeError, OptionError
from penstock.eventtime.times import NO_TIMESTAMP, EventTimes, column_at
from penstock.model.duration import duration

Duration: TypeAlias = timedelta | str | int | float
"""A timedelta, a text such as `10m` or `500ms`, or a number of seconds."""

BatchFunction: TypeAlias = Callable[[pa.RecordBatch], pa.Array]

MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, repr=False)
class WatermarkStrategy:
    """How event times and watermarks follow from records: `monotonous`, `bounded`, `punctuated` or `none`.

        WatermarkStrategy.bounded("10s").with_timestamps("value.created").with_idleness("1m").with_alignment("5m")

    A strategy is a value: `with_...` returns a new one. It can be pickled if its functions can.
    """

    out_of_orderness: int | None = None
    """Milliseconds that a record may be older than one before it; None if watermarks do not follow from event times."""
    marks: BatchFunction | None = None
    """The watermark that each record carries, null where it carries none."""
    timestamps: str | BatchFunction | None = None
    """The event time of each record: a column, or a function. None: the record's own timestamp."""
    idleness: float | None = None
    """Seconds without records after which a partition no longer holds back the others. None: never."""
    max_drift: int | None = None
    """Milliseconds that a partition may be ahead of the slowest. None: no limit."""

    def __post_init__(self) -> None:
        if self.out_of_orderness is not None and self.marks is not None:
            raise OptionError("marks", _name(self.marks), "cannot be combined with out_of_orderness")
        for name in ("out_of_orderness", "idleness", "max_drift"):
            value = getattr(self, name)
            if value is not None and (value < 0 or (name == "idleness" and not value)):
                raise OptionError(name, value, "is too small", "Use WatermarkStrategy.bounded, with_idleness, ...")

    @classmethod
    def monotonous(cls) -> WatermarkStrategy:
        """Event times never decrease within a partition. The watermark is 1 ms behind the highest."""
        return cls(out_of_orderness=0)

    @classmethod
    def bounded(cls, out_of_orderness: Duration) -> WatermarkStrategy:
        """A record is never more than `out_of_orderness` older than one before it in its partition."""
        span = time_span("out_of_orderness", out_of_orderness)
        return cls(out_of_orderness=-(-span // MILLISECOND))

    @classmethod
    def punctuated(cls, function: BatchFunction) -> WatermarkStrategy:
        """Records carry watermarks. `function` takes a RecordBatch and returns the watermark of each record, as a
        timestamp or int64 milliseconds, and null for records without one."""
        if not callable(function):
            raise OptionError("function", function, "is not a function", "It takes a RecordBatch and returns an Array")
        return cls(marks=function)

    @classmethod
    def none(cls) -> WatermarkStrategy:
        """No watermarks at all."""
        return cls()

    def with_timestamps(self, column_or_function: str | BatchFunction | None) -> WatermarkStrategy:
        """Where records have their event time: a column, a path into structs (`value.created`), or a function that maps
        a RecordBatch to one time per row. None: the record's own timestamp."""
        given = column_or_function
        if given is not None and not callable(given) and not (isinstance(given, str) and given.strip()):
            raise OptionError("timestamps", given, "is neither the name of a column nor a function")
        return replace(self, timestamps=given)

    def with_idleness(self, idleness: Duration | None) -> WatermarkStrategy:
        """A partition without records for this time no longer holds back the others. None: it always does."""
        if idleness is None:
            return replace(self, idleness=None)
        span = time_span("idleness", idleness)
        if not span:
            raise OptionError("idleness", idleness, "must be more than 0", "Every partition would be idle at once")
        return replace(self, idleness=span.total_seconds())

    def with_alignment(self, max_drift: Duration | None) -> WatermarkStrategy:
        """A partition that is more than `max_drift` ahead of the slowest waits for it. None: no partition waits."""
        return replace(self, max_drift=None if max_drift is None else time_span("max_drift", max_drift) // MILLISECOND)

    def event_times(self, batch: pa.RecordBatch) -> pa.Int64Array:
        """The event time of each record, in milliseconds since the epoch, rounded down; null where it has none."""
        return self.times_of(batch).milliseconds()

    def times_of(self, batch: pa.RecordBatch) -> EventTimes:
        """Like `event_times`, for callers that need only the latest or the number of late ones: a fifth of the cost."""
        if callable(self.timestamps):
            return _called(self.timestamps, batch, "timestamps")
        path = self.timestamps or "timestamp"
        hint = (
            "Use a timestamp, a date, or an int64 of milliseconds since the epoch; or with_timestamps(function), where "
            "the function takes the RecordBatch and returns such a column"
        )
        absent = NO_TIMESTAMP if self.timestamps is None else None
        return EventTimes(column_at(batch, path), f"column {path!r}", hint, absent)

    def watermark_of(self, max_event_time: int) -> int | None:
        """The watermark after a record with this event time; None if watermarks do not follow from event times."""
        return None if self.out_of_orderness is None else max_event_time - self.out_of_orderness - 1

    def marks_of(self, batch: pa.RecordBatch) -> EventTimes | None:
        """The watermark that each record carries, null where it carries none. None unless punctuated."""
        return None if self.marks is None else _called(self.marks, batch, "punctuated")

    def watermark_after(self, batch: pa.RecordBatch, times: EventTimes | pa.Int64Array | None = None) -> int | None:
        """The highest watermark of these records. `times`: their event times, if the caller has them."""
        marks = self.marks_of(batch)
        if marks is not None:
            return marks.latest
        if self.out_of_orderness is None:
            return None
        if times is None:
            times = self.times_of(batch)
        latest: int | None = times.latest if isinstance(times, EventTimes) else pc.max(times).as_py()
        return None if latest is None else self.watermark_of(latest)

    def __repr__(self) -> str:
        if self.marks is not None:
            kind = f"punctuated({_name(self.marks)})"
        elif self.out_of_orderness is None:
            kind = "none()"
        else:
            kind = (
                f"bounded({_text(self.out_of_orderness * MILLISECOND)!r})" if self.out_of_orderness else "monotonous()"
            )
        shown = f"WatermarkStrategy.{kind}"
        if self.timestamps is not None:
            named = _name(self.timestamps) if callable(self.timestamps) else repr(self.timestamps)
            shown += f".with_timestamps({named})"
        if self.idleness is not None:
            shown += f".with_idleness({_text(timedelta(seconds=self.idleness))!r})"
        if self.max_drift is not None:
            shown += f".with_alignment({_text(self.max_drift * MILLISECOND)!r})"
        return shown


def time_span(name: str, value: Duration) -> timedelta:
    """A duration, rounded to whole microseconds: 0.1 s is 100 ms, not a little more."""
    if isinstance(value, str) and value.strip().isdecimal():
        # Ambiguous: Spark reads a text without a unit as milliseconds, and a number here is seconds.
        raise OptionError(name, value, "has no unit", f"Write {value.strip()}s or {value.strip()}ms")
    if isinstance(value, bool) or not isinstance(value, timedelta | str | int | float):
        raise OptionError(name, value, "is not a time", "Give a timedelta, a text such as '10m', or seconds")
    if isinstance(value, float) and not math.isfinite(value):
        raise OptionError(name, value, "is not a time")
    try:
        span = value if isinstance(value, timedelta) else timedelta(seconds=_seconds(name, value))
    except OverflowError:
        raise OptionError(name, value, "is too long") from None
    if span < timedelta(0):
        raise OptionError(name, value, "must not be negative")
    return span


def _seconds(name: str, value: str | int | float) -> int | float:
    return duration(name, value) if isinstance(value, str) else value


def _text(span: timedelta) -> str:
    """`5m`, `1500ms`: a whole number of the largest unit possible."""
    units = (
        ("d", timedelta(days=1)),
        ("h", timedelta(hours=1)),
        ("m", timedelta(minutes=1)),
        ("s", timedelta(seconds=1)),
    )
    for unit, size in (*units, ("ms", MILLISECOND)):
        if span and not span % size:
            return f"{span // size}{unit}"
    return f"{span // timedelta(microseconds=1)}us" if span else "0s"


def _name(function: BatchFunction) -> str:
    if isinstance(path := getattr(function, "path", None), str):
        return path  # of a function that is imported when it is called
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _called(function: BatchFunction, batch: pa.RecordBatch, role: str) -> EventTimes:
    where = f"function {_name(function)} ({role})"
    try:
        result = function(batch)
    except OptionError:
        raise  # it could not be imported
    except Exception as error:
        reason = f"failed: {type(error).__name__}: {error}"
        raise EventTimeError(where, reason, details=traceback.format_exc()) from error
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if not isinstance(result, pa.Array):
        hint = "It takes a pyarrow.RecordBatch and returns a pyarrow.Array"
        raise EventTimeError(where, f"returned a {type(result).__name__}", hint)
    if len(result) != batch.num_rows:
        reason = f"returned {len(result)} values for {batch.num_rows} records"
        raise EventTimeError(where, reason, "One per record, null where it has none")
    return EventTimes(result, f"the result of {where}")
