"""Parses durations: 10s, 5 minutes, 500ms."""

from __future__ import annotations

import re

from penstock.errors import OptionError

UNITS = {"": 0.001, "us": 1e-6, "ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
"""Seconds of each of Spark's units of time. A number without a unit is milliseconds."""

UNIT_NAMES = {"millisecond": "ms", "second": "s", "minute": "m", "hour": "h", "day": "d"}
"""The unit names of Spark's `withWatermark`: `10 minutes`."""


def duration(name: str, value: str) -> float:
    """Seconds of a duration as Spark writes it: `15m`, `30s`, `500ms`, `15 minutes`."""
    found = re.fullmatch(r"(\d{1,12})\s*([a-z]*)", value.strip().lower())
    unit = "" if found is None else UNIT_NAMES.get(found[2].removesuffix("s"), found[2])
    if found is None or unit not in UNITS:
        units = ", ".join(filter(None, UNITS))
        raise OptionError(name, value, "is not a time", f"Write a whole number and one of {units}: 15m, 30s, 500ms")
    return int(found[1]) * UNITS[unit]
