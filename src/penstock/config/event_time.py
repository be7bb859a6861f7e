"""The options of event time: how a stream's watermarks are derived, and how far partitions may drift apart."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from penstock.config.formats import FormatOptions
from penstock.config.import_path import imported, is_import_path
from penstock.config.option import Option, OptionTable, OptionValues
from penstock.config.parsers import flag, text
from penstock.errors import OptionError
from penstock.model.duration import duration

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.eventtime.strategy import WatermarkStrategy

NEVER = "never"


def _span(name: str, value: str) -> float:
    """A duration that a WatermarkStrategy accepts, in seconds. Checked here, so that the error names the option."""
    seconds = duration(name, value)
    if seconds >= timedelta.max.total_seconds():  # as a float it is rounded up
        raise OptionError(name, value, "is too long a time")
    return seconds


def _idleness(name: str, value: str) -> float | None:
    if value.strip().lower() == NEVER:
        return None
    if not (seconds := _span(name, value)):
        raise OptionError(name, value, "must be more than 0: every partition would be idle at once")
    return seconds


def _import_path(name: str, value: str) -> str:
    given = text(name, value)
    if not is_import_path(given):
        raise OptionError(name, value, "is not an import path", "Example: package.module:name")
    return given


@dataclass(frozen=True, slots=True)
class ImportedFunction:
    """A user's function by its import path. Pickled by name only: each process imports it at the first call."""

    path: str
    option: str

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        result: pa.Array = _loaded(self.path, self.option)(batch)
        return result

    @property
    def columns(self) -> tuple[str, ...]:
        """Kafka's columns that it gets."""
        from penstock.model.columns import TYPES  # with pyarrow, which commands about groups and topics do not need

        named = getattr(_loaded(self.path, self.option), "columns", DEFAULT_COLUMNS)
        if isinstance(named, str) or not all(name in TYPES for name in named):
            hint = f"There are {', '.join(TYPES)}"
            raise OptionError(self.option, self.path, "has an attribute columns with others than Kafka's", hint)
        return tuple(named)


DEFAULT_COLUMNS = ("key", "value", "timestamp")


@functools.cache
def _loaded(path: str, option: str) -> Callable[[pa.RecordBatch], pa.Array]:
    """The function at a path, or a new instance of the class there, which must be callable."""
    try:
        found = imported(path)
        function = found() if isinstance(found, type) else found
    except ValueError as error:
        raise OptionError(option, path, str(error)) from None
    except Exception as error:
        reason = f"creating an instance failed: {type(error).__name__}: {error}"
        raise OptionError(option, path, reason, "It is created without arguments") from error
    if not callable(function):
        hint = "It takes a pyarrow.RecordBatch and returns a pyarrow.Array"
        raise OptionError(option, path, f"is a {type(found).__name__}, not a function", hint)
    return function  # type: ignore[no-any-return]


EVENT_TIME_OPTIONS = OptionTable(
    Option(
        "eventTime.column",
        text,
        None,
        "The column with a record's event time: `timestamp`, or with typed columns a field such as `value.created`. "
        "Default: `timestamp`, the record's own.",
    ),
    Option(
        "eventTime.function",
        _import_path,
        None,
        "Your own function of event times, as `package.module:name`, in place of `eventTime.column`. It takes a "
        "`pyarrow.RecordBatch` and returns the event time of each record, null where it has none. It gets the columns "
        "in its attribute `columns`, by default `key`, `value` and `timestamp`.",
    ),
    Option(
        "eventTime.watermarks",
        _import_path,
        None,
        "Your own function of punctuated watermarks, as `package.module:name`, in place of "
        "`eventTime.outOfOrderness`. It takes what `eventTime.function` takes, and returns the watermark that each "
        "record carries, null where it carries none.",
    ),
    Option(
        "eventTime.outOfOrderness",
        _span,
        "0s",
        "The largest time by which records of one partition are out of order, such as `5s`. The partition's event-time "
        "watermark stays this far behind the highest event time read from it.",
    ),
    Option(
        "eventTime.idleness",
        _idleness,
        # Flink has no default, and there a partition that never gets a record holds back the others forever.
        "1m",
        "The time without records after which a partition is idle and no longer holds back the others, such as `1m`. "
        "`never`: it always holds them back.",
    ),
    Option(
        "eventTime.maxDrift",
        _span,
        None,
        "The largest time by which a partition's event-time watermark may be ahead of the slowest partition's. Reading "
        "stops there until the slowest catches up. Give `withWatermark` a delay of at least this plus "
        "`eventTime.outOfOrderness`, and Spark drops no record because another partition was faster. Default: no "
        "limit.",
    ),
    Option(
        "includeWatermarks",
        flag,
        "false",
        "Whether to add two columns: `_watermark`, the stream's combined event-time watermark when the batch was "
        "planned, and `_partition_watermark`, the watermark of the record's own partition.",
        "include_columns",
    ),
)


@dataclass(frozen=True, slots=True)
class EventTimeOptions:
    """The parsed options of event time."""

    strategy: WatermarkStrategy
    include_columns: bool

    @property
    def by_record(self) -> bool:
        """Whether a record's event time is its own timestamp, for which brokers keep an index."""
        return self.strategy.timestamps is None and self.strategy.marks is None

    @property
    def functions(self) -> tuple[ImportedFunction, ...]:
        """The user's own functions."""
        both = (self.strategy.timestamps, self.strategy.marks)
        return tuple(each for each in both if isinstance(each, ImportedFunction))


def event_time_options(values: OptionValues, formats: FormatOptions) -> EventTimeOptions | None:
    """None if no option of event time is given. Raises OptionError for options that exclude each other."""
    if values.given.keys().isdisjoint(EVENT_TIME_OPTIONS):
        return None
    return EventTimeOptions(_strategy(values, formats), **values.fields(EVENT_TIME_OPTIONS))


def default_event_time(formats: FormatOptions) -> EventTimeOptions:
    """For a user who selects the watermark columns and sets no option of event time."""
    values = EVENT_TIME_OPTIONS.parse({})
    return EventTimeOptions(_strategy(values, formats), **values.fields(EVENT_TIME_OPTIONS))


def _strategy(values: OptionValues, formats: FormatOptions) -> WatermarkStrategy:
    from penstock.eventtime.strategy import WatermarkStrategy  # imports pyarrow.compute: 50 ms that other reads save

    function, marks = values["eventTime.function"], values["eventTime.watermarks"]
    for own, built_in in (
        ("eventTime.function", "eventTime.column"),
        ("eventTime.watermarks", "eventTime.column"),
        ("eventTime.watermarks", "eventTime.outOfOrderness"),
    ):
        if values[own] is not None and built_in in values.given:
            what = f"is not supported together with {own}"
            raise OptionError(built_in, None, what, "Your function takes its place: for times set eventTime.function")
    strategy = WatermarkStrategy.bounded(values["eventTime.outOfOrderness"])
    if marks is not None:
        strategy = WatermarkStrategy.punctuated(ImportedFunction(marks, "eventTime.watermarks"))
    if function is not None:
        strategy = strategy.with_timestamps(ImportedFunction(function, "eventTime.function"))
    column = values["eventTime.column"]
    if column not in (None, f"{formats.prefix}timestamp" if formats.flatten else "timestamp"):
        if not formats.typed:
            raise OptionError(
                "eventTime.column",
                column,
                "does not exist: without typed columns only `timestamp` is a time",
                "Set valueFormat to have the fields of the value",
            )
        strategy = strategy.with_timestamps(column)
    if (idleness := values["eventTime.idleness"]) is not None:
        strategy = strategy.with_idleness(idleness)
    if (drift := values["eventTime.maxDrift"]) is not None:
        strategy = strategy.with_alignment(drift)
    return strategy
