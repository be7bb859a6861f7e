"""The targets of the figures about growth."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.figure import Figure
from benchmarks.measurement import Measurement
from benchmarks.scale.figures import BROKER, EVERY_TRIGGER, PLANNED, PLANNING, case
from benchmarks.streaming.sides import JVM, PENSTOCK
from benchmarks.target import Target, compare

CODEC = "none"
LINEAR = 1.2
"""A partition may cost a fifth more among 10,000 than among 1,000."""

TARGETS = (
    Target("planning over 10,000 partitions: Penstock / JVM source", BROKER, (PENSTOCK, ""), (JVM, ""), at_most=1.0),
    Target(
        "planning over 10,000 partitions, discovery at every trigger: Penstock / JVM source",
        BROKER, (PENSTOCK, EVERY_TRIGGER), (JVM, ""), at_most=1.0,
    ),
)  # fmt: skip


def figures(measurements: Iterable[Measurement]) -> list[Figure]:
    measured = list(measurements)
    return compare(TARGETS, measured, CODEC) + _growth(measured)


def _growth(measured: list[Measurement]) -> list[Figure]:
    """CPU per partition among 10,000, divided by that among 1,000."""
    by_case = {one.case: one.value for one in measured if one.figure == PLANNING}
    found = []
    for what in PLANNED:
        few, many = by_case.get(case(what, 1_000)), by_case.get(case(what, 10_000))
        if few is not None and many is not None:
            ratio = many / few / 10
            name = f"planning, {what}: CPU per partition, 10,000 / 1,000 partitions"
            found.append(Figure(name, CODEC, ratio, f"<= {LINEAR:g}", ratio <= LINEAR))
    return found
