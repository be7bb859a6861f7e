"""Duration of one trigger: a producer sends a few rows, on demand or in a steady rhythm.

The durations are those that Spark reports for each trigger. Every round is a new query in a warm session; its first
triggers do not count.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.measurement import Measurement
from benchmarks.run import BenchmarkRun
from benchmarks.speed import WrongRead
from benchmarks.streaming.measurement import PLANNING
from benchmarks.streaming.sides import JVM, PENSTOCK, OnDemandProducer, Stream

SETTINGS = {"spark.sql.streaming.numRecentProgressUpdates": "1000"}
"""Spark keeps the progress of 100 triggers by default, and a round may have more."""

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
`fetch.max.wait.ms` (500 by default). With an on-demand producer no records arrive before the trigger ends."""

SHORT_WAIT_OPTIONS = {"kafka.fetch.max.wait.ms": "10"}

PLANNING_TIMES = ("latestOffset", "getBatch", "queryPlanning")
"""The phases in which Spark asks the source for offsets and splits them into tasks."""


TimeOf = Callable[[Mapping[str, float]], float]
"""A time of a trigger, from Spark's durations of its phases."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    side: str
    options: Mapping[str, str]
    case: str = ""
    sink: Mapping[str, str] | None = None
    """Options of the Kafka sink. None: the noop sink."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of the Spark session. Entries of one side with the same settings share a session."""


@dataclass(frozen=True, slots=True)
class Size:
    """Numbers of triggers: before the first round, at the start of each round, and those that count."""

    warm_up: int
    settling: int
    counted: int


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
        return measure_triggers(bench, {PLANNING: planning_time}, entries, producer, PLANNED_ROWS, size)


def planning_time(ms: Mapping[str, float]) -> float:
    return sum(ms.get(name, 0) for name in PLANNING_TIMES)


def trigger_time(ms: Mapping[str, float]) -> float:
    return ms["triggerExecution"]


def measure_triggers(
    bench: BenchmarkRun,
    times: Mapping[str, TimeOf],
    entries: Sequence[Entry],
    producer: OnDemandProducer,
    rows: int,
    size: Size,
    steady_seconds: float | None = None,
) -> list[Measurement]:
    """Medians of times of each trigger, by the names of their figures. The first one leads the lines of progress.

    `steady_seconds`: the producer sends in this rhythm, however far the stream is, and all triggers with rows count.
    None: it sends when the stream has read everything, and triggers that did not find all rows at once do not count.
    """
    figure = next(iter(times))
    measured = {(name, entry): Measurement(name, entry.case, entry.side, "ms") for entry in entries for name in times}

    def run(entry: Entry, wanted: int) -> list[dict[str, Any]]:
        stream = streams[_session(entry)]
        if steady_seconds is None:
            return _triggers_on_demand(stream, entry, producer, rows, wanted)
        return _triggers_of_steady_input(stream, entry, producer, rows, wanted, steady_seconds)

    with ExitStack() as stack:
        streams: dict[str, Stream] = {}
        for entry in entries:
            if _session(entry) not in streams:
                stream = Stream(entry.side, bench, {**SETTINGS, **entry.settings})
                streams[_session(entry)] = stack.enter_context(stream)
            bench.progress(f"{figure}: warming {entry.side} with {size.warm_up} triggers")
            run(entry, size.warm_up)
        for turn in range(bench.rounds):
            for entry in entries:
                bench.progress(f"{figure}: {entry.side}, round {turn + 1} of {bench.rounds}")
                counted = run(entry, size.settling + size.counted)[size.settling :]
                # Steady input: a slow trigger reads what was sent several times.
                if len(counted) <= size.counted // (2 if steady_seconds is None else 8):
                    raise WrongRead(f"{entry.side}: only {len(counted)} triggers of {rows} rows count")
                names = sorted({name for ms in counted for name in ms})
                for name, time_of in times.items():
                    one = measured[name, entry]
                    one.rounds.append(median(time_of(ms) for ms in counted))
                    one.extra.append({phase: median(ms.get(phase, 0) for ms in counted) for phase in names})
                case = f", {entry.case}" if entry.case else ""
                values = ", ".join(f"{measured[name, entry].rounds[-1]:.0f} ms" for name in times)
                bench.progress.note(
                    f"{figure}: {entry.side}{case}, round {turn + 1} of {bench.rounds}: {values} "
                    f"(p50 of {len(counted)})"
                )
    return list(measured.values())


def _session(entry: Entry) -> str:
    return entry.side + json.dumps(dict(entry.settings))


def _triggers_on_demand(
    stream: Stream, entry: Entry, producer: OnDemandProducer, rows: int, wanted: int
) -> list[dict[str, Any]]:
    """Spark's durations of this many triggers, without triggers that did not find all rows at once."""
    stream.start(entry.options, sink=entry.sink)
    for _ in range(wanted):
        producer.send(rows)
        stream.settle()
    # A stream may plan while the broker has stored only half of a request: two triggers, and neither counts.
    return [trigger["ms"] for trigger in _stop(stream, rows * wanted) if trigger["rows"] == rows]


def _triggers_of_steady_input(
    stream: Stream, entry: Entry, producer: OnDemandProducer, rows: int, wanted: int, seconds: float
) -> list[dict[str, Any]]:
    """Spark's durations of the triggers that read what is sent this many times, once in so many seconds."""
    stream.start(entry.options, sink=entry.sink)
    due = time.monotonic()
    for _ in range(wanted):
        producer.send(rows)
        due += seconds
        time.sleep(max(0.0, due - time.monotonic()))
    stream.settle()
    return [trigger["ms"] for trigger in _stop(stream, rows * wanted)]


def _stop(stream: Stream, rows: int) -> list[dict[str, Any]]:
    """Stop the query. Returns its triggers that had rows, which must be these in all."""
    triggers = stream.stop()
    seen = sum(trigger["rows"] for trigger in triggers)
    if seen != rows:
        raise WrongRead(f"{stream.name} read {seen} of {rows} rows")
    return triggers
