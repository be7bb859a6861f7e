"""What one trigger takes: a producer sends a few rows, waits until the stream has read them, and again.

The times are those that Spark reports of each trigger. Every round is a query of its own in a session that is warm;
its first triggers do not count.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.arena import Arena
from benchmarks.measurement import Measurement
from benchmarks.speed import WrongRead
from benchmarks.streaming.measurement import MICRO_BATCH, PLANNING
from benchmarks.streaming.sides import JVM, PENSTOCK, Stream, Trickle, spark_sides

PARTITIONS = 4
ROWS = 20

PLANNED_TOPICS = 20
PLANNED_PARTITIONS = 100
"""Of each topic: 2,000 in all."""

PLANNED_HANDLES = 4000
"""Open files that the broker must be allowed: it takes 2,000 for the partitions alone."""

PLANNED_ROWS = 4
EVERY_TRIGGER = "discovery at every trigger"
"""Spark's source asks for the list of partitions whenever it plans, Penstock every 30 s unless told otherwise."""

PLANNING_TIMES = ("latestOffset", "getBatch", "queryPlanning")
"""Where Spark asks the source what there is and cuts it into tasks."""


@dataclass(frozen=True, slots=True)
class Entry:
    side: str
    options: Mapping[str, str]
    case: str = ""


@dataclass(frozen=True, slots=True)
class Size:
    """How many triggers: before the first round, at the start of every round, and those that count."""

    warm_up: int
    settling: int
    counted: int


def measure_micro_batch(arena: Arena) -> list[Measurement]:
    topic = "bench-micro-batch"
    arena.kafka.create_topic(topic, PARTITIONS)
    entries = [Entry(side, {"subscribe": topic}) for side in spark_sides(arena)]
    size = Size(warm_up=arena.sized(30, 3), settling=arena.sized(10, 1), counted=arena.sized(40, 5))
    with Trickle(arena, PARTITIONS, [topic]) as trickle:
        return _measure(arena, MICRO_BATCH, entries, trickle, ROWS, size, lambda ms: ms["triggerExecution"])


def measure_planning(arena: Arena) -> list[Measurement]:
    _, handles = resource.getrlimit(resource.RLIMIT_NOFILE)  # the hard one: Java raises its own to it
    if handles != resource.RLIM_INFINITY and handles < PLANNED_HANDLES:
        arena.progress.note(f"planning: the broker may open {handles} files, and needs {PLANNED_HANDLES}: left out")
        return []
    topics = [f"bench-planning-{number}" for number in range(arena.sized(PLANNED_TOPICS, 4))]
    for number, topic in enumerate(topics):
        arena.progress(f"planning: {number} of {len(topics)} topics made")
        # Index files take their full size at once, 10 MB each and two per partition.
        arena.kafka.create_topic(topic, PLANNED_PARTITIONS, configs={"segment.index.bytes": 65_536})
    options = {"subscribePattern": "bench-planning-.*"}
    possible = [
        Entry(PENSTOCK, options),
        Entry(JVM, options),
        Entry(PENSTOCK, {**options, "partition.discovery.interval.ms": "0"}, EVERY_TRIGGER),
    ]
    entries = [entry for entry in possible if entry.side in arena.sides]
    size = Size(warm_up=arena.sized(15, 2), settling=arena.sized(4, 1), counted=arena.sized(20, 4))
    with Trickle(arena, PLANNED_PARTITIONS, topics) as trickle:
        return _measure(arena, PLANNING, entries, trickle, PLANNED_ROWS, size, planning_time)


def planning_time(ms: Mapping[str, float]) -> float:
    return sum(ms.get(name, 0) for name in PLANNING_TIMES)


def _measure(
    arena: Arena,
    figure: str,
    entries: Sequence[Entry],
    trickle: Trickle,
    rows: int,
    size: Size,
    time_of: Callable[[Mapping[str, float]], float],
) -> list[Measurement]:
    measured = {entry.side + entry.case: Measurement(figure, entry.case, entry.side, "ms") for entry in entries}
    with ExitStack() as stack:
        streams: dict[str, Stream] = {}
        for entry in entries:
            if entry.side not in streams:
                streams[entry.side] = stack.enter_context(Stream(entry.side, arena))
            arena.progress(f"{figure}: warming {entry.side} with {size.warm_up} triggers")
            _triggers(streams[entry.side], entry, trickle, rows, size.warm_up)
        for turn in range(arena.rounds):
            for entry in entries:
                arena.progress(f"{figure}: {entry.side}, round {turn + 1} of {arena.rounds}")
                triggers = _triggers(streams[entry.side], entry, trickle, rows, size.settling + size.counted)
                if len(triggers) <= size.settling + size.counted // 2:
                    raise WrongRead(f"{entry.side}: only {len(triggers)} triggers found all {rows} rows at once")
                counted = triggers[size.settling :]
                value = median(time_of(ms) for ms in counted)
                names = sorted({name for ms in counted for name in ms})
                one = measured[entry.side + entry.case]
                one.rounds.append(value)
                one.extra.append({name: median(ms.get(name, 0) for ms in counted) for name in names})
                case = f", {entry.case}" if entry.case else ""
                arena.progress.note(
                    f"{figure}: {entry.side}{case}, round {turn + 1} of {arena.rounds}: {value:.0f} ms "
                    f"(p50 of {len(counted)})"
                )
    return list(measured.values())


def _triggers(stream: Stream, entry: Entry, trickle: Trickle, rows: int, wanted: int) -> list[dict[str, Any]]:
    """Spark's times of this many triggers, less those that did not find all rows at once."""
    stream.start(entry.options)
    for _ in range(wanted):
        trickle.send(rows)
        stream.settle()
    triggers = stream.stop()
    seen = sum(trigger["rows"] for trigger in triggers)
    if seen != rows * wanted:
        raise WrongRead(f"{stream.name} read {seen} of {rows * wanted} rows")
    # A stream may look while the broker has stored only half of a request: two triggers, and neither is what is asked.
    return [trigger["ms"] for trigger in triggers if trigger["rows"] == rows]
