"""Times out of Arrow columns: a column or a path into structs, of whatever type, as milliseconds since the epoch."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import EventTimeError
from penstock.option_values import did_you_mean

MILLISECONDS_OF_A_DAY = 86_400_000
PER_MILLISECOND = {"us": 1_000, "ns": 1_000_000}
WAY_OUT = "A timestamp, a date, or an int64 of milliseconds since the epoch would do"


def is_time(given: pa.DataType) -> bool:
    """Whether times can be read from it. A column without any value (null) has no times, and that is no error."""
    return bool(
        pa.types.is_timestamp(given) or pa.types.is_date(given) or pa.types.is_int64(given) or pa.types.is_null(given)
    )


def as_milliseconds(times: pa.Array, where: str, way_out: str = WAY_OUT) -> pa.Int64Array:
    """Times as milliseconds since the epoch, rounded down, also before 1970; null stays null."""
    given = times.type
    if not is_time(given):
        raise EventTimeError(where, f"is of type {given}, which is not a time", way_out)
    if pa.types.is_date32(given):
        return pc.multiply(times.cast(pa.int32()).cast(pa.int64()), MILLISECONDS_OF_A_DAY)
    numbers = times.cast(pa.int64())
    if not pa.types.is_timestamp(given) or given.unit == "ms":
        return numbers
    if given.unit == "s":
        try:
            return pc.multiply_checked(numbers, 1000)
        except pa.ArrowInvalid:
            raise EventTimeError(where, "has a time too far off to count its milliseconds", "Check its unit") from None
    return _floor_divide(numbers, PER_MILLISECOND[given.unit])


def _floor_divide(numbers: pa.Int64Array, divisor: int) -> pa.Int64Array:
    # Arrow rounds towards zero, which is up before 1970: a watermark would be 1 ms past what it stands for.
    quotients = pc.divide(numbers, divisor)
    lowest = pc.min(numbers).as_py()
    if lowest is None or lowest >= 0:
        return quotients
    rounded_up = pc.greater(pc.multiply(quotients, divisor), numbers)
    return pc.subtract(quotients, rounded_up.cast(pa.int64()))


def column_at(batch: pa.RecordBatch, path: str) -> pa.Array:
    """The column of that name, or the field that the path leads to through structs: `value.created`."""
    found = _indices(list(batch.schema), path)
    if found is None:
        raise _not_there(batch.schema, path)
    column = batch.column(found[0])
    # struct_field, unlike StructArray.field, has null where the struct itself is null.
    return pc.struct_field(column, found[1:]) if len(found) > 1 else column


def _indices(fields: list[pa.Field], path: str) -> list[int] | None:
    """The way to a path, as the position of a field at each level. Names may have dots of their own."""
    for index, field in enumerate(fields):
        if field.name == path:
            return [index]
    for index, field in enumerate(fields):
        if pa.types.is_struct(field.type) and path.startswith(field.name + "."):
            below = _indices(list(field.type), path[len(field.name) + 1 :])
            if below is not None:
                return [index, *below]
    return None


def _time_paths(fields: list[pa.Field], above: str = "") -> Iterator[str]:
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from _time_paths(list(field.type), f"{above}{field.name}.")
        elif is_time(field.type):
            yield above + field.name


def _not_there(schema: pa.Schema, path: str) -> EventTimeError:
    known = list(_time_paths(list(schema)))
    last = path.rsplit(".", 1)[-1]
    nearest = [name for name in known if name.rsplit(".", 1)[-1] == last]
    way_out = f"Did you mean {nearest[0]}?" if nearest else did_you_mean(path, known)
    if not way_out and known:
        way_out = f"Columns with a time are {', '.join(known)}"
    elif not way_out:
        way_out = f"No column has a time; there are {', '.join(schema.names)}"
    for field in schema:
        if path.startswith(field.name + ".") and not pa.types.is_struct(field.type):
            way_out = f"{field.name} is of type {field.type} and has no fields. {way_out}"
    return EventTimeError(f"column {path!r}", "is not there", way_out)
