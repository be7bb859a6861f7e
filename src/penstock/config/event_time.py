"""The options of event time: how a stream's watermarks are derived, and how far partitions may drift apart."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from penstock.config.formats import FormatOptions
from penstock.config.option import Option, OptionTable, OptionValues
from penstock.config.parsers import flag, text
from penstock.errors import OptionError
from penstock.model.duration import duration

if TYPE_CHECKING:
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


EVENT_TIME_OPTIONS = OptionTable(
    Option(
        "eventTime.column",
        text,
        None,
        "The column with a record's event time: `timestamp`, or with typed columns a field such as `value.created`. "
        "Default: `timestamp`, the record's own.",
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
        return self.strategy.timestamps is None


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

    strategy = WatermarkStrategy.bounded(values["eventTime.outOfOrderness"])
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
