"""Reads times from Arrow columns: of any time type, at a path into structs, as milliseconds since the epoch."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import EventTimeError
from penstock.eventtime.field import find_path, is_time, nearest, time_paths

MILLISECONDS_OF_A_DAY = 86_400_000
SCALES = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
"""By unit of a timestamp: milliseconds are the value times the first number, divided by the second."""

NO_TIMESTAMP = -1
"""The timestamp that Kafka gives to a record without one: the oldest message format has none."""

TYPES_HINT = "Use a timestamp, a date, or an int64 of milliseconds since the epoch"


class EventTimes:
    """The times of some records, in milliseconds since the epoch, rounded down; null where a record has none.

    Do not simplify: dividing a time by 1000 costs 3.4 ns of CPU, finding the lowest and the highest 0.3 ns. So the
    times keep their unit until a caller asks for each of them.
    """

    __slots__ = ("_bounds", "_numbers", "_scale")

    def __init__(self, times: pa.Array, where: str, hint: str = TYPES_HINT, absent: int | None = None) -> None:
        """`absent`: the value that means that a record has no time."""
        given = times.type
        if not is_time(given):
            raise EventTimeError(where, f"is of type {given}, which is not a time", hint)
        if pa.types.is_date32(given):
            times = times.view(pa.int32()).cast(pa.int64())
            self._scale = MILLISECONDS_OF_A_DAY, 1
        else:
            self._scale = SCALES[given.unit] if pa.types.is_timestamp(given) else (1, 1)
        # A view where possible: a cast would copy the numbers.
        self._numbers: pa.Int64Array = times.cast(pa.int64()) if pa.types.is_null(given) else times.view(pa.int64())
        self._bounds = self._measure(where)
        if absent is not None and self.earliest is not None and self.earliest <= absent:
            milliseconds = self.milliseconds()
            self._numbers = pc.if_else(pc.equal(milliseconds, absent), pa.scalar(None, pa.int64()), milliseconds)
            self._scale = 1, 1
            self._bounds = self._measure(where)

    @property
    def earliest(self) -> int | None:
        return self._bounds[0]

    @property
    def latest(self) -> int | None:
        return self._bounds[1]

    def late(self, watermark: int | None) -> int:
        """How many times are at or before a watermark, and so late (E5)."""
        if watermark is None or self.earliest is None or self.earliest > watermark:
            return 0
        factor, divisor = self._scale
        last = ((watermark + 1) * divisor - 1) // factor
        return int(pc.less_equal(self._numbers, min(last, 2**63 - 1)).true_count)

    def milliseconds(self) -> pa.Int64Array:
        factor, divisor = self._scale
        if factor > 1:
            return pc.multiply(self._numbers, factor)
        if divisor == 1:
            return self._numbers
        # Arrow rounds towards zero, which is up before 1970: a watermark would be 1 ms too high.
        quotients = pc.divide(self._numbers, divisor)
        if self.earliest is None or self.earliest >= 0:
            return quotients
        rounded_up = pc.greater(pc.multiply(quotients, divisor), self._numbers)
        return pc.subtract(quotients, rounded_up.cast(pa.int64()))

    def _measure(self, where: str) -> tuple[int | None, int | None]:
        factor, divisor = self._scale
        found = pc.min_max(self._numbers).as_py()
        if found["min"] is None:
            return None, None
        low, high = found["min"] * factor // divisor, found["max"] * factor // divisor
        if low < -(2**63) or high >= 2**63:
            raise EventTimeError(where, "has a time too far away to count in milliseconds", "Check its unit")
        return low, high


def column_at(batch: pa.RecordBatch, path: str) -> pa.Array:
    """The column of this name, or the field at a path into structs: `value.created`."""
    found = find_path(list(batch.schema), path)
    if found is None:
        raise _unknown(batch.schema, path)
    column = batch.column(found[0])
    # struct_field, unlike StructArray.field, has null where the struct itself is null.
    return pc.struct_field(column, found[1:]) if len(found) > 1 else column


def _unknown(schema: pa.Schema, path: str) -> EventTimeError:
    known = list(time_paths(schema))
    hint = nearest(path, known)
    if not hint and known:
        hint = f"Columns with a time are {', '.join(known)}"
    elif not hint:
        hint = f"No column has a time; there are {', '.join(schema.names)}"
    for field in schema:
        if path.startswith(field.name + ".") and not pa.types.is_struct(field.type):
            hint = f"{field.name} is of type {field.type} and has no fields. {hint}"
    return EventTimeError(f"column {path!r}", "does not exist", hint)
