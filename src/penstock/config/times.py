"""Parses times: milliseconds since 1970, ISO 8601, or relative to now. The only parser of times that users write."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from penstock.errors import OptionError
from penstock.model.duration import duration
from penstock.model.offset_spec import AtTimestamp, PerPartition, milliseconds_at
from penstock.model.topic_partition import TopicPartition

NOT_A_TIME = "is not a time"
EXAMPLE = "Use 2025-01-31T12:00Z, -1h for an hour ago, or milliseconds since 1970"

RELATIVE = re.compile(r"-\s*(\d+\s*[A-Za-z]+)")
"""A duration with a minus and a unit. A negative number without a unit means something else on the command line."""

LAST_MILLISECOND = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Ago:
    """A time relative to now, in milliseconds before it."""

    milliseconds: int


Time: TypeAlias = int | Ago
"""Milliseconds since 1970, or a time relative to now."""


@dataclass(frozen=True, slots=True)
class TimesOption:
    """The times of an option: one for all partitions, or one for each topic or partition.

    Parsing does not look at a clock. Spark parses the options of a query in several processes, and each must get the
    same times. So `at` resolves relative times, with the one "now" of the query.
    """

    option: str
    all: Time | None = None
    topics: tuple[tuple[str, Time], ...] = ()
    partitions: tuple[tuple[TopicPartition, Time], ...] = ()

    def at(self, now: int) -> AtTimestamp:
        if self.all is not None:
            return AtTimestamp(resolved(self.all, now), self.option)
        topics = {topic: resolved(time, now) for topic, time in self.topics}
        partitions = {tp: resolved(time, now) for tp, time in self.partitions}
        return AtTimestamp(PerPartition(topics, partitions), self.option)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def resolved(time: Time, now: int) -> int:
    """A time in milliseconds since 1970, and not before. `now` is in the same unit."""
    return max(now - time.milliseconds, 0) if isinstance(time, Ago) else time


def parse_time(name: str, value: str) -> Time:
    """Parse a time. ISO text without a zone is in the local zone of this machine."""
    text = value.strip()
    if text.isascii() and text.isdecimal():
        if int(text) > LAST_MILLISECOND:
            raise OptionError(name, value, f"must be at most {LAST_MILLISECOND}")
        return int(text)
    if found := RELATIVE.fullmatch(text):
        try:
            return Ago(round(duration(name, found[1]) * 1000))
        except OptionError as error:
            raise OptionError(name, value, error.reason, error.hint) from None
    if re.fullmatch(r"[+-]\d+", text):
        hint = f"Add a unit: {text}s, {text}m, {text}h or {text}d" if text[0] == "-" else EXAMPLE
        raise OptionError(name, value, NOT_A_TIME, hint)
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.astimezone()
    except (ValueError, OverflowError):
        raise OptionError(name, value, NOT_A_TIME, EXAMPLE) from None
    if (milliseconds := milliseconds_at(moment)) < 0:
        raise OptionError(name, value, "is before 1970")
    return milliseconds
