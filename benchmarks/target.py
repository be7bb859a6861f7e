"""Targets: the ratio that two sides of a figure should reach."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.figure import Figure
from benchmarks.measurement import Measurement


@dataclass(frozen=True, slots=True)
class Target:
    figure: str
    measured: str
    dividend: tuple[str, str]
    """Side and case."""
    divisor: tuple[str, str]
    at_least: float | None = None
    at_most: float | None = None


def compare(targets: Sequence[Target], measurements: Iterable[Measurement], codec: str) -> list[Figure]:
    """The ratio of each target whose two sides were measured."""
    by_name = {(one.figure, one.side, one.case): one.value for one in measurements}
    found = []
    for target in targets:
        dividend = by_name.get((target.measured, *target.dividend))
        divisor = by_name.get((target.measured, *target.divisor))
        if dividend is None or divisor is None:
            continue
        ratio = dividend / divisor
        if target.at_least is not None:
            wanted, reached = f">= {target.at_least:g}", ratio >= target.at_least
        else:
            assert target.at_most is not None
            wanted, reached = f"<= {target.at_most:g}", ratio <= target.at_most
        found.append(Figure(target.figure, codec, ratio, wanted, reached))
    return found
