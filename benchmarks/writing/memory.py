"""Memory of a Spark worker that writes 2 GB in one task: its peak over an idle worker, and its growth over time."""

from __future__ import annotations

import sys
from statistics import median

from benchmarks.measurement import Measurement
from benchmarks.run import BenchmarkRun
from benchmarks.streaming.sides import PENSTOCK
from benchmarks.writing.figures import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    GROWTH,
    MEMORY,
    PARTITIONS,
    PEAK,
    penstock_options,
)
from benchmarks.writing.output_topics import output_topic
from benchmarks.writing.rows import ROW, ROW_BYTES
from benchmarks.writing.spark_side import Job, SparkWriter

WRITTEN_BYTES = 2_000_000_000
QUICK = 20


def measure(bench: BenchmarkRun) -> list[Measurement]:
    if PENSTOCK not in bench.sides:
        return []
    if sys.platform != "linux":
        bench.progress.note("memory: skipped, because it is read from /proc, which this system does not have")
        return []
    measured = []
    size = bench.sized(WRITTEN_BYTES, WRITTEN_BYTES // QUICK)
    for case in (AT_LEAST_ONCE, EXACTLY_ONCE):
        bench.progress(f"{MEMORY}: {case}, {size / 1e6:.0f} MB")
        job = Job("penstock", ROW, round(size / ROW_BYTES), penstock_options(case), tasks=1)
        with output_topic(bench, PARTITIONS) as topic, SparkWriter(PENSTOCK, bench, cores=1) as writer:
            answer = writer.memory(job, topic)
        over, series = answer["peak_mb"] - answer["idle_mb"], answer["series_mb"]
        grown = growth(series, answer["idle_mb"])
        extra = {**answer, "series_mb": [round(one, 1) for one in series], "written_mb": size / 1e6}
        measured += [
            Measurement(MEMORY, f"{PEAK}, {case}", PENSTOCK, "MB", [over], [extra]),
            Measurement(MEMORY, f"{GROWTH}, {case}", PENSTOCK, "MB", [grown]),
        ]
        bench.progress.note(f"{MEMORY}: {case}: {over:.0f} MB over idle, growth {grown:.1f} MB")
    return measured


def growth(series: list[float], idle: float) -> float:
    """The median of the last fifth of the samples less that of the first fifth, while the worker writes.

    Samples in the lower half of the range are left out: Spark has not started the task, or it has just begun.
    """
    half = idle + (max(series) - idle) / 2
    writing = [one for one in series if one >= half]
    fifth = max(1, len(writing) // 5)
    return median(writing[-fifth:]) - median(writing[:fifth])
