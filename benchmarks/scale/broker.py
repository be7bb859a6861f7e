"""Planning over 10,000 partitions of one real broker, beside Spark's own source."""

from __future__ import annotations

import resource
from collections.abc import Iterable

from benchmarks.measurement import Measurement
from benchmarks.run import BenchmarkRun
from benchmarks.scale.figures import BROKER, EVERY_TRIGGER
from benchmarks.streaming.sides import JVM, PENSTOCK, OnDemandProducer
from benchmarks.streaming.triggers import Entry, Size, measure_triggers, planning_time

TOPICS, PARTITIONS = 100, 100
HANDLES = 12_000
"""Open files that the broker needs: one per partition, and some for itself."""
ROWS = 4


def measure(bench: BenchmarkRun) -> Iterable[Measurement]:
    _, handles = resource.getrlimit(resource.RLIMIT_NOFILE)  # the hard limit: Java raises its own limit to it
    if handles != resource.RLIM_INFINITY and handles < HANDLES:
        bench.progress.note(f"{BROKER}: skipped: the broker needs {HANDLES} open files and may open {handles}")
        return []
    topics = [f"scale-{number:04}" for number in range(bench.sized(TOPICS, 4))]
    for number, topic in enumerate(topics):
        bench.progress(f"{BROKER}: {number} of {len(topics)} topics made")
        # Index files are allocated in full at once, 10 MB each and two per partition.
        bench.kafka.create_topic(topic, PARTITIONS, configs={"segment.index.bytes": 65_536})
    options = {"subscribePattern": "scale-.*"}
    possible = [
        Entry(PENSTOCK, options),
        Entry(JVM, options),
        Entry(PENSTOCK, {**options, "partition.discovery.interval.ms": "0"}, EVERY_TRIGGER),
    ]
    entries = [entry for entry in possible if entry.side in bench.sides]
    size = Size(warm_up=bench.sized(12, 2), settling=bench.sized(3, 1), counted=bench.sized(12, 4))
    with OnDemandProducer(bench, PARTITIONS, topics) as producer:
        return measure_triggers(bench, {BROKER: planning_time}, entries, producer, ROWS, size)
