"""The targets of the write figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from benchmarks.consumer.readers import CONFLUENT_TUNED, JAVA
from benchmarks.figure import Figure
from benchmarks.measurement import Measurement
from benchmarks.streaming.sides import JVM, PENSTOCK
from benchmarks.streaming.triggers import SHORT_WAIT
from benchmarks.target import Target, compare
from benchmarks.writing.figures import (
    AT_LEAST_ONCE,
    BATCH,
    CODEC,
    CONFLUENT_MANY,
    CONVERTED,
    DISCARD,
    EXACTLY_ONCE,
    FROM_JSON,
    GROWTH,
    KEYS,
    MEMORY,
    MICRO_BATCH,
    NOOP,
    PEAK,
    PLAIN,
    SAME_SPARK,
    STREAM,
    TUNED,
    VALUES,
)

WHOLE_JOB = 1.7
DISCARDED_JOB = 2.2
SINK_ALONE = 2.5
TYPED = 2.5
ADDED_MS = 60.0
MEMORY_MB = 200.0
FLAT_MB = 30.0
"""Memory is flat if it grows by less over the write. The worker's allocator keeps that much."""

_ONCE = (PENSTOCK, AT_LEAST_ONCE)
_EXACTLY = (PENSTOCK, EXACTLY_ONCE)

TARGETS = (
    Target("batch write: at least once / exactly once, time", BATCH, _ONCE, _EXACTLY, at_least=0.9),
    Target("stream, 1 M rows per trigger: the same", STREAM, _ONCE, _EXACTLY, at_least=0.9),
    Target(
        "20-row micro-batch from Kafka to Kafka, p50: Penstock / JVM source and sink",
        MICRO_BATCH, _ONCE, (JVM, AT_LEAST_ONCE), at_most=0.8,
    ),
    Target(f"the same, JVM source with {SHORT_WAIT}", MICRO_BATCH, _ONCE, (JVM, SHORT_WAIT), at_most=0.8),
    Target(
        "Arrow table into Kafka, one thread: Penstock / confluent-kafka's produce(), tuned",
        PLAIN, (PENSTOCK, KEYS), (CONFLUENT_TUNED, KEYS), at_least=15.0,
    ),
    Target(
        "the same, with the conversion of the table to Python objects",
        PLAIN, (PENSTOCK, KEYS), (CONFLUENT_TUNED, CONVERTED), at_least=15.0,
    ),
    Target("the same / its produce_batch()", PLAIN, (PENSTOCK, KEYS), (CONFLUENT_MANY, KEYS), at_least=15.0),
    Target(
        "values into Kafka, one thread: Penstock / Java's ProducerPerformance, warm",
        PLAIN, (PENSTOCK, VALUES), (JAVA, VALUES), at_least=1.5,
    ),
)  # fmt: skip

SPARKS = {SAME_SPARK: "the same PySpark", PENSTOCK: "PySpark 4.3.0"}
RIVALS = {AT_LEAST_ONCE: "", TUNED: ", larger batches"}
"""Spark's sink with its default batches, and with larger ones."""

Values = Mapping[tuple[str, str, str], float]
"""Medians by figure, side and case."""


def figures(measurements: Iterable[Measurement]) -> list[Figure]:
    measured = list(measurements)
    values = {(one.figure, one.side, one.case): one.value for one in measured}
    return _batches(values) + _typed(values) + compare(TARGETS, measured, CODEC) + _added(values) + _memory(values)


def _batches(values: Values) -> list[Figure]:
    found = []
    noop = values.get((BATCH, JVM, NOOP))
    for rival, settings in RIVALS.items():
        whole = values.get((BATCH, JVM, rival))
        if whole is None or noop is None:
            continue
        for side, where in SPARKS.items():
            job, discard = values.get((BATCH, side, AT_LEAST_ONCE)), values.get((BATCH, side, DISCARD))
            own_noop = values.get((BATCH, side, NOOP))
            if job is None or discard is None or own_noop is None:
                continue
            name = f"batch write, whole job: JVM sink{settings} / {{}}, {where}"
            found.append(_at_least(name.format("Penstock"), whole / job, WHOLE_JOB))
            found.append(_at_least(name.format("a writer that discards everything"), whole / discard, DISCARDED_JOB))
            name = f"batch write, less the noop job: JVM sink{settings} / {{}}, {where}"
            found.append(_at_least(name.format("Penstock"), (whole - noop) / (job - own_noop), SINK_ALONE))
    return found


def _typed(values: Values) -> list[Figure]:
    found = []
    for rival, settings in RIVALS.items():
        whole = values.get((FROM_JSON, JVM, rival))
        for side, where in SPARKS.items():
            for case, what in ((AT_LEAST_ONCE, "Penstock"), (DISCARD, "a writer that discards everything")):
                job = values.get((FROM_JSON, side, case))
                if whole is not None and job is not None:
                    name = f"JSON from a struct: JVM to_json and sink{settings} / {what}, {where}"
                    found.append(_at_least(name, whole / job, TYPED))
    return found


def _added(values: Values) -> list[Figure]:
    once, exactly = values.get((MICRO_BATCH, *_ONCE)), values.get((MICRO_BATCH, *_EXACTLY))
    if once is None or exactly is None:
        return []
    added = exactly - once
    name = "20-row micro-batch, p50: added by exactly once"
    return [Figure(name, CODEC, added, f"<= {ADDED_MS:g} ms", added <= ADDED_MS, " ms")]


def _memory(values: Values) -> list[Figure]:
    found = []
    for case in (AT_LEAST_ONCE, EXACTLY_ONCE):
        for what, limit in ((PEAK, MEMORY_MB), (GROWTH, FLAT_MB)):
            value = values.get((MEMORY, PENSTOCK, f"{what}, {case}"))
            if value is not None:
                name = f"Spark worker writing 2 GB, {case}: {what}"
                found.append(Figure(name, CODEC, value, f"<= {limit:g} MB", value <= limit, " MB"))
    return found


def _at_least(name: str, ratio: float, wanted: float) -> Figure:
    return Figure(name, CODEC, ratio, f">= {wanted:g}", ratio >= wanted)
