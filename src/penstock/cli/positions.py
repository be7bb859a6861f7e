"""Positions of `--from`, `--until` and `--to`, and their offsets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from penstock.config.times import NOT_A_TIME, now_ms, parse_time, resolved
from penstock.errors import OptionError
from penstock.model.offset_spec import AtTimestamp, Earliest, GroupOffsets, Latest

MILLISECOND_DIGITS = 13
"""A number of this many digits or more is a time in ms (any since 2001): no partition has a trillion records."""

POSITIONS_HINT = (
    "Use earliest, latest, group, an offset, -N for the last N, a time as 2025-01-31T12:00 or in ms, or -1h for an "
    "hour ago"
)


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
    if text.isdecimal() and len(text) < MILLISECOND_DIGITS:
        return AtOffset(int(text))
    try:
        return AtTimestamp(resolved(parse_time(argument, text), now_ms()), argument)
    except OptionError as error:
        if error.reason != NOT_A_TIME:
            raise
        raise OptionError(argument, text, "is not a position", POSITIONS_HINT) from None


def nearest(position: AtOffset | LastRecords, begin: Mapping[int, int], end: Mapping[int, int]) -> dict[int, int]:
    """The offset of a position in each partition, within its log."""
    match position:
        case AtOffset(offset):
            return {p: min(max(offset, begin[p]), end[p]) for p in begin}
        case LastRecords(count):
            return {p: max(end[p] - count, begin[p]) for p in begin}
