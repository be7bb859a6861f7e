"""Runs the selected write figures."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.measurement import Measurement
from benchmarks.run import BenchmarkRun
from benchmarks.writing import batches, memory, plain, streams
from benchmarks.writing.figures import BATCH, FROM_JSON, MEMORY, MICRO_BATCH, PLAIN, STREAM


def measure(bench: BenchmarkRun, names: Sequence[str]) -> list[Measurement]:
    parts = {
        BATCH: batches.measure,
        FROM_JSON: batches.measure_json,
        STREAM: streams.measure,
        MICRO_BATCH: streams.measure_micro_batch,
        PLAIN: plain.measure,
        MEMORY: memory.measure,
    }
    return [one for name, part in parts.items() if name in names for one in part(bench)]
