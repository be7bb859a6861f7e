"""Durations in ISO 8601, exactly those that Java's `Duration.parse` reads: Kafka's settings have them."""

from __future__ import annotations

import re

_PATTERN = re.compile(
    r"([-+]?)P(?:([-+]?[0-9]+)D)?"
    r"(T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?)([0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_SECONDS = {2: 86_400, 4: 3600, 5: 60}
"""Of the units by their groups. Seconds have a fraction, and are read apart."""
_LIMIT = 2**63
"""Java's count of seconds has 64 bits."""
_NANOSECONDS = 10**9


def nanoseconds(text: str) -> int | None:
    """The length of a duration such as `PT1H30M` or `P7D`; None for text that Java refuses."""
    found = _PATTERN.fullmatch(text)
    if found is None or not any(found[group] for group in (2, 4, 5, 7)) or (found[3] or "").upper() == "T":
        return None
    parts = [int(found[group]) * seconds for group, seconds in _SECONDS.items() if found[group]]
    sign = -1 if found[6] == "-" else 1
    if found[7]:
        parts.append(sign * int(found[7]))
    seconds = sum(parts)
    if any(not -_LIMIT <= part < _LIMIT for part in (*parts, seconds)):
        return None
    total = seconds * _NANOSECONDS + sign * int((found[8] or "").ljust(9, "0"))
    return -total if found[1] == "-" else total
