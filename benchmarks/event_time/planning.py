"""What event time adds to the planning of a trigger over 200 partitions: of a live topic that has a new record in each,
and of one that is caught up on under a limit, where brokers are asked for times at every trigger."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from benchmarks.arena import Arena
from benchmarks.event_time.figures import EVENT_TIME, HOUR, OFF, ON, PLANNING, case
from benchmarks.measurement import Measurement
from benchmarks.speed import WrongRead
from benchmarks.streaming.sides import PENSTOCK, Stream, Trickle
from benchmarks.streaming.triggers import Entry, Size, measure_triggers, planning_time
from benchmarks.topics import BATCH_SIZE, Times, Topic, load

PARTITIONS = 200
CONFIGS = {"segment.index.bytes": 65_536}
"""Index files take their full size at once, 10 MB each and two per partition."""

LIVE = "a record in each"
BEHIND = "catching up"
SWITCHED = {OFF: {}, ON: EVENT_TIME}

ROWS = 200_000
TRIGGERS = 20
SETTLING = 3


def measure(arena: Arena) -> list[Measurement]:
    return [*_live(arena), *_behind(arena)] if PENSTOCK in arena.sides else []


def _live(arena: Arena) -> list[Measurement]:
    topic = "bench-event-live"
    arena.kafka.create_topic(topic, PARTITIONS, configs=CONFIGS)
    entries = [Entry(PENSTOCK, {"subscribe": topic, **more}, case(LIVE, which)) for which, more in SWITCHED.items()]
    size = Size(warm_up=arena.sized(15, 2), settling=arena.sized(4, 1), counted=arena.sized(20, 4))
    with Trickle(arena, PARTITIONS, [topic]) as trickle:
        return measure_triggers(arena, PLANNING, entries, trickle, PARTITIONS, size, planning_time)


def _behind(arena: Arena) -> list[Measurement]:
    rows = arena.sized(ROWS, ROWS // 10)
    topic = load(
        arena.kafka,
        arena.rivals.distribution,
        "bench-event-behind",
        "none",
        rows,
        partitions=PARTITIONS,
        batch_size=BATCH_SIZE,
        say=arena.progress,
        times=Times(int(time.time() * 1000) - 2 * HOUR, span=HOUR),
        configs=CONFIGS,
    )
    measured = {which: Measurement(PLANNING, case(BEHIND, which), PENSTOCK, "ms") for which in SWITCHED}
    with Stream(PENSTOCK, arena) as stream:
        for which in SWITCHED:
            arena.progress(f"event time, planning: warming, {case(BEHIND, which)}")
            _triggers(stream, topic, which)
        for turn in range(arena.rounds):
            for which, one in measured.items():
                counted = _triggers(stream, topic, which)[SETTLING:]
                one.rounds.append(median(planning_time(ms) for ms in counted))
                names = sorted({name for ms in counted for name in ms})
                one.extra.append({name: median(ms.get(name, 0) for ms in counted) for name in names})
                arena.progress.note(
                    f"{PLANNING}: {one.case}, round {turn + 1} of {arena.rounds}: {one.rounds[-1]:.0f} ms "
                    f"(p50 of {len(counted)})"
                )
    arena.kafka.delete_topic(topic.name)
    return list(measured.values())


def _triggers(stream: Stream, topic: Topic, which: str) -> list[dict[str, Any]]:
    """Spark's times of the triggers in which all is read."""
    options = {"subscribe": topic.name, "startingOffsets": "earliest", **SWITCHED[which]}
    stream.start({**options, "maxOffsetsPerTrigger": str(topic.rows // TRIGGERS)})
    triggers = stream.stop()
    if (seen := sum(trigger["rows"] for trigger in triggers)) != topic.rows:
        raise WrongRead(f"{case(BEHIND, which)}: {seen} of {topic.rows} rows")
    return [trigger["ms"] for trigger in triggers]
