"""The options of event time: what a stream's event-time watermarks are made of, and who waits for whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.config.formats import FormatOptions
from penstock.config.option import Option, flag, text
from penstock.errors import OptionError
from penstock.model.duration import duration

if TYPE_CHECKING:
    from penstock.eventtime.strategy import WatermarkStrategy

NEVER = "never"

DEFAULT_IDLENESS = "1m"
"""Flink has none, and there a partition that never gets a record holds back the others for ever."""


def _span(name: str, value: str) -> float:
    """A time that a strategy takes, in seconds. Said here, where the option has the name that its user gave it."""
    seconds = duration(name, value)
    if seconds >= timedelta.max.total_seconds():  # rounded up, which it is as a float
        raise OptionError(name, value, "is too long a time")
    return seconds


def _idleness(name: str, value: str) -> float | None:
    if value.strip().lower() == NEVER:
        return None
    if not (seconds := _span(name, value)):
        raise OptionError(name, value, "must be more than 0: every partition would be idle at once")
    return seconds


EVENT_TIME_OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option(
            "eventTime.column",
            text,
            None,
            "The column with a record's event time: `timestamp` (the default: the record's own), or with typed columns "
            "a field such as `value.created`.",
        ),
        Option(
            "eventTime.outOfOrderness",
            _span,
            "0s",
            "By how much records of one partition may be out of order. Its event-time watermark stays so far behind "
            "the highest event time it has read.",
        ),
        Option(
            "eventTime.idleness",
            _idleness,
            DEFAULT_IDLENESS,
            "A partition without records for so long no longer holds the others back; `never`: it always does.",
        ),
        Option(
            "eventTime.maxDrift",
            _span,
            None,
            "No partition is read so far that its event-time watermark is ahead of the slowest one's by more than "
            "this. Give `withWatermark` a delay of at least this and `eventTime.outOfOrderness` together, and Spark "
            "drops nothing because other partitions were faster.",
        ),
        Option(
            "includeWatermarks",
            flag,
            "false",
            "Add the columns `_watermark`, the stream's combined event-time watermark when the batch was planned, and "
            "`_partition_watermark`, that of the record's own partition.",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class EventTimeOptions:
    """What a user said of event time."""

    strategy: WatermarkStrategy
    include_columns: bool = False
    given: tuple[str, ...] = ()
    """The options that were really set: a batch read warns of them."""

    @property
    def by_record(self) -> bool:
        """Whether a record's event time is its own timestamp, which brokers have an index of."""
        return self.strategy.timestamps is None


def event_time_options(values: Mapping[str, Any], formats: FormatOptions) -> EventTimeOptions | None:
    """None if nothing was said of event time. Raises OptionError where options do not go together."""
    given = tuple(name for name in EVENT_TIME_OPTIONS if name in values)
    if not given:
        return None
    return EventTimeOptions(
        strategy=_strategy(values, formats), include_columns=values.get("includeWatermarks", False), given=given
    )


def default_event_time(formats: FormatOptions) -> EventTimeOptions:
    """For a user who asks for the columns and says nothing else."""
    return EventTimeOptions(_strategy({}, formats))


def _strategy(values: Mapping[str, Any], formats: FormatOptions) -> WatermarkStrategy:
    from penstock.eventtime.strategy import WatermarkStrategy  # and pyarrow.compute, 50 ms for reads that need neither

    strategy = WatermarkStrategy.bounded(values.get("eventTime.outOfOrderness", 0.0))
    column = values.get("eventTime.column")
    if column not in (None, f"{formats.prefix}timestamp" if formats.flatten else "timestamp"):
        if not formats.typed:
            raise OptionError(
                "eventTime.column",
                column,
                "is not there: without typed columns only `timestamp` is a time",
                "Set valueFormat to have the fields of the value",
            )
        strategy = strategy.with_timestamps(column)
    idleness = values.get("eventTime.idleness", duration("eventTime.idleness", DEFAULT_IDLENESS))
    if idleness is not None:
        strategy = strategy.with_idleness(idleness)
    if (drift := values.get("eventTime.maxDrift")) is not None:
        strategy = strategy.with_alignment(drift)
    return strategy
