"""The targets of the stream figures."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.figure import Figure
from benchmarks.measurement import Measurement
from benchmarks.streaming.catch_up import ALL_AT_ONCE, LIMITED
from benchmarks.streaming.idle import DEFAULT, EVERY_100_MS
from benchmarks.streaming.measurement import (
    CATCH_UP,
    IDLE,
    MICRO_BATCH,
    MICRO_BATCH_TASKS,
    PLANNING,
    STEADY_MICRO_BATCH,
    STEADY_MICRO_BATCH_TASKS,
    YAHOO,
    Growth,
)
from benchmarks.streaming.memory_growth import DRIVER
from benchmarks.streaming.micro_batch import CONFIGURED
from benchmarks.streaming.sides import FLINK, JVM, PENSTOCK
from benchmarks.streaming.triggers import EVERY_TRIGGER, SHORT_WAIT
from benchmarks.streaming.yahoo import COLUMNS, WHERE
from benchmarks.target import Target, compare

FLAT = 1.1
"""The last triggers may take a tenth more memory than the first."""

CODEC = "none"
"""Codec of all topics of the stream figures."""


def _micro_batch_targets(what: str, whole: str, tasks: str) -> list[Target]:
    """Both sides with their defaults; with the settings that make each of them fast; and the tasks alone."""
    return [
        Target(f"{what}, p50: Penstock / JVM source", whole, (PENSTOCK, ""), (JVM, ""), at_most=0.5),
        Target(f"the same, JVM source with {SHORT_WAIT}", whole, (PENSTOCK, ""), (JVM, SHORT_WAIT), at_most=0.6),
        Target(
            f"the same, and Penstock with {CONFIGURED}", whole, (PENSTOCK, CONFIGURED), (JVM, SHORT_WAIT), at_most=0.6
        ),
        Target(f"{what}, addBatch: Penstock / JVM source", tasks, (PENSTOCK, ""), (JVM, ""), at_most=0.3),
    ]  # fmt: skip


TARGETS = (
    *_micro_batch_targets("20-row micro-batch", MICRO_BATCH, MICRO_BATCH_TASKS),
    *_micro_batch_targets("20 rows every 150 ms", STEADY_MICRO_BATCH, STEADY_MICRO_BATCH_TASKS),
    Target(
        "catching up, 1 M per trigger: JVM source / Penstock",
        CATCH_UP, (JVM, LIMITED), (PENSTOCK, LIMITED), at_least=1.8,
    ),
    Target(
        "catching up, all at once: Flink / Penstock",
        CATCH_UP, (FLINK, ALL_AT_ONCE), (PENSTOCK, ALL_AT_ONCE), at_least=0.9,
    ),
    Target("Yahoo's job: JVM source / Penstock", YAHOO, (JVM, ""), (PENSTOCK, ""), at_least=2.5),
    Target("the same with columns", YAHOO, (JVM, ""), (PENSTOCK, COLUMNS), at_least=2.5),
    Target("the same with columns and where", YAHOO, (JVM, ""), (PENSTOCK, WHERE), at_least=4.0),
    Target("planning over 2,000 partitions: Penstock / JVM source", PLANNING, (PENSTOCK, ""), (JVM, ""), at_most=1.0),
    Target(
        "the same with discovery at every trigger",
        PLANNING, (PENSTOCK, EVERY_TRIGGER), (JVM, ""), at_most=1.0,
    ),
    Target(
        "CPU of a trigger without data, every 100 ms: Penstock / JVM source",
        IDLE, (PENSTOCK, EVERY_100_MS), (JVM, EVERY_100_MS), at_most=1.0,
    ),
    Target("the same with the default trigger", IDLE, (PENSTOCK, DEFAULT), (JVM, DEFAULT), at_most=1.0),
)  # fmt: skip


def figures(measurements: Iterable[Measurement]) -> list[Figure]:
    return compare(TARGETS, measurements, CODEC)


def memory_figures(growths: Iterable[Growth]) -> list[Figure]:
    # The resident size of the driver's JVM shows when it last requested heap from the system, not what it uses.
    return [
        Figure(f"memory over 500 triggers, {one.what}: last 100 / first 100", CODEC, one.ratio, f"<= {FLAT:g}",
               one.ratio <= FLAT)
        for one in growths
        if one.what != DRIVER
    ]  # fmt: skip
