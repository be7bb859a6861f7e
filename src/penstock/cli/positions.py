"""Positions of `--from`, `--until` and `--to`, and their offsets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from penstock.errors import OptionError
from penstock.model.offset_spec import AtTimestamp, Earliest, GroupOffsets, Latest, milliseconds_at

MILLISECOND_DIGITS = 13
"""A number of this many digits or more is a time in ms (any since 2001): no partition has a trillion records."""

LAST_NUMBER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class AtOffset:
    """This offset in every partition, or the nearest one that exists."""

    offset: int


@dataclass(frozen=True, slots=True)
class LastRecords:
    """This number of offsets before the end of each partition."""

    count: int


Position: TypeAlias = Earliest | Latest | GroupOffsets | AtTimestamp | AtOffset | LastRecords


def parse_position(argument: str, text: str) -> Position:
    match text.lower():
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
        case "group":
            return GroupOffsets()
    if re.fullmatch(r"-\d+", text):
        return LastRecords(int(text[1:]))
    if text.isdecimal():
        number = int(text)
        if number > LAST_NUMBER:
            raise OptionError(argument, text, f"is more than Kafka's largest offset, {LAST_NUMBER}")
        return AtTimestamp(number, argument) if len(text) >= MILLISECOND_DIGITS else AtOffset(number)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            argument,
            text,
            "is not a position",
            "Use earliest, latest, group, an offset, -N for the last N, or a time as 2025-01-31T12:00 or in ms",
        ) from None
    if moment.tzinfo is None:
        moment = moment.astimezone()  # a time without a zone is local time
    milliseconds = milliseconds_at(moment)
    if milliseconds < 0:
        raise OptionError(argument, text, "is before 1970")
    return AtTimestamp(milliseconds, argument)


def nearest(position: AtOffset | LastRecords, begin: Mapping[int, int], end: Mapping[int, int]) -> dict[int, int]:
    """The offset of a position in each partition, within its log."""
    match position:
        case AtOffset(offset):
            return {p: min(max(offset, begin[p]), end[p]) for p in begin}
        case LastRecords(count):
            return {p: max(end[p] - count, begin[p]) for p in begin}
