"""Whether memory grows during a long query: 500 triggers, the last 100 compared with the first 100."""

from __future__ import annotations

import sys
from statistics import median
from typing import Any

from benchmarks.run import BenchmarkRun
from benchmarks.streaming.measurement import Growth
from benchmarks.streaming.sides import PENSTOCK, OnDemandProducer, Stream

PARTITIONS = 4
ROWS = 20
TRIGGERS = 500
ENDS = 100
WARM_UP = 60
SAMPLE_EVERY = 10
COLLECT_EVERY = 20
"""The driver's heap is measured after a garbage collection, and only at both ends: regular collections would keep it
small, and in between it must be free to grow."""

SETTINGS = {
    # Spark keeps the last thousand of each for its UI, even without a UI: filling these lists makes the heap grow.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
}

HEAP = "driver's heap after a collection"
DRIVER = "driver's JVM, resident"
PLANNER = "planner process"
WORKER = "largest worker"


def measure(bench: BenchmarkRun) -> list[Growth]:
    if sys.platform != "linux":
        bench.progress.note("memory: skipped, because it is read from /proc, which this system does not have")
        return []
    if PENSTOCK not in bench.sides:
        return []
    topic = "bench-steadiness"
    bench.kafka.create_topic(topic, PARTITIONS)
    total, end = bench.sized(TRIGGERS, 50), bench.sized(ENDS, 20)
    samples: list[tuple[int, dict[str, Any]]] = []
    with OnDemandProducer(bench, PARTITIONS, [topic]) as producer, Stream(PENSTOCK, bench, SETTINGS) as stream:
        stream.start({"subscribe": topic})
        for number in range(-bench.sized(WARM_UP, 5), total):
            producer.send(ROWS)
            stream.settle()
            done = number + 1
            if done > 0 and done % SAMPLE_EVERY == 0:
                at_an_end = done <= end or done > total - end
                samples.append((done, stream.memory(collect=at_an_end and done % COLLECT_EVERY == 0)))
                bench.progress(f"memory: {done} of {total} triggers")
        stream.stop()
    first = [sample for done, sample in samples if done <= end]
    last = [sample for done, sample in samples if done > total - end]
    grown = []
    for what, key in ((HEAP, "heap"), (DRIVER, "driver"), (PLANNER, "planner"), (WORKER, "workers")):
        before, after = (median(_held(sample, key) for sample in part if key in sample) for part in (first, last))
        series = [_held(sample, key) for _, sample in samples if key in sample]
        grown.append(Growth(what, before, after, series))
        bench.progress.note(f"memory: {what}: {before:.1f} MB, at the end of {total} triggers {after:.1f} MB")
    return grown


def _held(sample: dict[str, Any], key: str) -> float:
    held = sample[key]
    return float(max(held.values(), default=0.0) if isinstance(held, dict) else held)
