"""Duration of a trigger with 20 rows of three partitions on two cores, for which Spark runs two waves of tasks.

Two kinds of input. On demand: a producer sends 20 rows when the stream has read the last ones. Steady: it sends 20 rows
every 150 ms, as in a topic that others write to. The kinds differ for Spark's Kafka source, which waits for records.
"""

from __future__ import annotations

from benchmarks.measurement import Measurement
from benchmarks.run import BenchmarkRun
from benchmarks.streaming.measurement import (
    MICRO_BATCH,
    MICRO_BATCH_TASKS,
    STEADY_MICRO_BATCH,
    STEADY_MICRO_BATCH_TASKS,
)
from benchmarks.streaming.sides import JVM, PENSTOCK, OnDemandProducer, spark_sides
from benchmarks.streaming.triggers import (
    SHORT_WAIT,
    SHORT_WAIT_OPTIONS,
    Entry,
    Size,
    TimeOf,
    measure_triggers,
    trigger_time,
)
from penstock.spark.session import SETTINGS as CONFIGURED_SETTINGS

PARTITIONS = 3
ROWS = 20
STEADY_SECONDS = 0.15

CONFIGURED = "configure"
"""The session has the settings of `penstock.spark.configure`."""


def measure(bench: BenchmarkRun) -> list[Measurement]:
    return _on_demand(bench) + _steady(bench)


def _on_demand(bench: BenchmarkRun) -> list[Measurement]:
    size = Size(warm_up=bench.sized(25, 5), settling=bench.sized(5, 2), counted=bench.sized(30, 10))
    return _measure(bench, "bench-micro-batch", _times(MICRO_BATCH, MICRO_BATCH_TASKS), size)


def _steady(bench: BenchmarkRun) -> list[Measurement]:
    size = Size(warm_up=bench.sized(40, 10), settling=bench.sized(5, 2), counted=bench.sized(65, 32))
    times = _times(STEADY_MICRO_BATCH, STEADY_MICRO_BATCH_TASKS)
    return _measure(bench, "bench-steady-micro-batch", times, size, STEADY_SECONDS)


def _times(whole: str, tasks: str) -> dict[str, TimeOf]:
    return {whole: trigger_time, tasks: lambda ms: ms["addBatch"]}


def _measure(
    bench: BenchmarkRun, topic: str, times: dict[str, TimeOf], size: Size, steady_seconds: float | None = None
) -> list[Measurement]:
    bench.kafka.create_topic(topic, PARTITIONS)
    options = {"subscribe": topic}
    possible = [
        Entry(PENSTOCK, options),
        Entry(PENSTOCK, options, CONFIGURED, settings=CONFIGURED_SETTINGS),
        Entry(JVM, options),
        Entry(JVM, options | SHORT_WAIT_OPTIONS, SHORT_WAIT),
    ]
    entries = [entry for entry in possible if entry.side in spark_sides(bench)]
    with OnDemandProducer(bench, PARTITIONS, [topic]) as producer:
        return measure_triggers(bench, times, entries, producer, ROWS, size, steady_seconds)
