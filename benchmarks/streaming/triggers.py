"""Duration of one trigger: a producer sends a few rows, waits until the stream has read them, and repeats.

The durations are those that Spark reports for each trigger. Every round is a new query in a warm session; its first
triggers do not count.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.measurement import Measurement
from benchmarks.run import BenchmarkRun
from benchmarks.speed import WrongRead
from benchmarks.streaming.measurement import MICRO_BATCH, PLANNING
from benchmarks.streaming.sides import JVM, PENSTOCK, OnDemandProducer, Stream, spark_sides

PARTITIONS = 4
ROWS = 20

PLANNED_TOPICS = 20
PLANNED_PARTITIONS = 100
"""Partitions of each topic: 2,000 in all."""

PLANNED_HANDLES = 4000
"""Open files that the broker needs: 2,000 for the partitions alone."""

PLANNED_ROWS = 4
EVERY_TRIGGER = "discovery at every trigger"
"""Spark's source lists partitions whenever it plans, Penstock every 30 s by default."""

SHORT_WAIT = "fetch.max.wait.ms=10"
"""Spark's source looks up the ends of its partition after each poll. By then Kafka's consumer has sent its next fetch
request, and the broker answers the requests of a connection in order: the lookup waits until records arrive, or for
`fetch.max.wait.ms` (500 by default). In these figures no records arrive before the trigger ends."""

SHORT_WAIT_OPTIONS = {"kafka.fetch.max.wait.ms": "10"}

PLANNING_TIMES = ("latestOffset", "getBatch", "queryPlanning")
"""The phases in which Spark asks the source for offsets and splits them into tasks."""


@dataclass(frozen=True, slots=True)
class Entry:
    side: str
    options: Mapping[str, str]
    case: str = ""
    sink: Mapping[str, str] | None = None
    """Options of the Kafka sink. None: the noop sink."""


@dataclass(frozen=True, slots=True)
class Size:
    """Numbers of triggers: before the first round, at the start of each round, and those that count."""

    warm_up: int
    settling: int
    counted: int


def measure_micro_batch(bench: BenchmarkRun) -> list[Measurement]:
    topic = "bench-micro-batch"
    bench.kafka.create_topic(topic, PARTITIONS)
    options = {"subscribe": topic}
    entries = [Entry(side, options) for side in spark_sides(bench)]
    if JVM in bench.sides:
        entries.append(Entry(JVM, options | SHORT_WAIT_OPTIONS, SHORT_WAIT))
    size = Size(warm_up=bench.sized(30, 3), settling=bench.sized(10, 1), counted=bench.sized(40, 5))
    with OnDemandProducer(bench, PARTITIONS, [topic]) as producer:
        return measure_triggers(bench, MICRO_BATCH, entries, producer, ROWS, size, lambda ms: ms["triggerExecution"])


def measure_planning(bench: BenchmarkRun) -> list[Measurement]:
    _, handles = resource.getrlimit(resource.RLIMIT_NOFILE)  # the hard limit: Java raises its own limit to it
    if handles != resource.RLIM_INFINITY and handles < PLANNED_HANDLES:
        bench.progress.note(f"planning: skipped: the broker needs {PLANNED_HANDLES} open files and may open {handles}")
        return []
    topics = [f"bench-planning-{number}" for number in range(bench.sized(PLANNED_TOPICS, 4))]
    for number, topic in enumerate(topics):
        bench.progress(f"planning: {number} of {len(topics)} topics made")
        # Index files are allocated in full at once, 10 MB each and two per partition.
        bench.kafka.create_topic(topic, PLANNED_PARTITIONS, configs={"segment.index.bytes": 65_536})
    options = {"subscribePattern": "bench-planning-.*"}
    possible = [
        Entry(PENSTOCK, options),
        Entry(JVM, options),
        Entry(PENSTOCK, {**options, "partition.discovery.interval.ms": "0"}, EVERY_TRIGGER),
    ]
    entries = [entry for entry in possible if entry.side in bench.sides]
    size = Size(warm_up=bench.sized(15, 2), settling=bench.sized(4, 1), counted=bench.sized(20, 4))
    with OnDemandProducer(bench, PLANNED_PARTITIONS, topics) as producer:
        return measure_triggers(bench, PLANNING, entries, producer, PLANNED_ROWS, size, planning_time)


def planning_time(ms: Mapping[str, float]) -> float:
    return sum(ms.get(name, 0) for name in PLANNING_TIMES)


def measure_triggers(
    bench: BenchmarkRun,
    figure: str,
    entries: Sequence[Entry],
    producer: OnDemandProducer,
    rows: int,
    size: Size,
    time_of: Callable[[Mapping[str, float]], float],
) -> list[Measurement]:
    measured = {entry.side + entry.case: Measurement(figure, entry.case, entry.side, "ms") for entry in entries}
    with ExitStack() as stack:
        streams: dict[str, Stream] = {}
        for entry in entries:
            if entry.side not in streams:
                streams[entry.side] = stack.enter_context(Stream(entry.side, bench))
            bench.progress(f"{figure}: warming {entry.side} with {size.warm_up} triggers")
            _triggers(streams[entry.side], entry, producer, rows, size.warm_up)
        for turn in range(bench.rounds):
            for entry in entries:
                bench.progress(f"{figure}: {entry.side}, round {turn + 1} of {bench.rounds}")
                triggers = _triggers(streams[entry.side], entry, producer, rows, size.settling + size.counted)
                if len(triggers) <= size.settling + size.counted // 2:
                    raise WrongRead(f"{entry.side}: only {len(triggers)} triggers found all {rows} rows at once")
                counted = triggers[size.settling :]
                value = median(time_of(ms) for ms in counted)
                names = sorted({name for ms in counted for name in ms})
                one = measured[entry.side + entry.case]
                one.rounds.append(value)
                one.extra.append({name: median(ms.get(name, 0) for ms in counted) for name in names})
                case = f", {entry.case}" if entry.case else ""
                bench.progress.note(
                    f"{figure}: {entry.side}{case}, round {turn + 1} of {bench.rounds}: {value:.0f} ms "
                    f"(p50 of {len(counted)})"
                )
    return list(measured.values())


def _triggers(stream: Stream, entry: Entry, producer: OnDemandProducer, rows: int, wanted: int) -> list[dict[str, Any]]:
    """Spark's durations of this many triggers, without triggers that did not find all rows at once."""
    stream.start(entry.options, sink=entry.sink)
    for _ in range(wanted):
        producer.send(rows)
        stream.settle()
    triggers = stream.stop()
    seen = sum(trigger["rows"] for trigger in triggers)
    if seen != rows * wanted:
        raise WrongRead(f"{stream.name} read {seen} of {rows * wanted} rows")
    # A stream may plan while the broker has stored only half of a request: two triggers, and neither counts.
    return [trigger["ms"] for trigger in triggers if trigger["rows"] == rows]
