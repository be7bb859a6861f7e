"""What event time adds to the planning of a trigger over 200 partitions: of a live topic that has a new record in each,
and of one that is caught up on under a limit, where brokers are asked for times at every trigger."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from benchmarks.arena import Arena
from benchmarks.event_time.figures import EVENT_TIME, HOUR, OFF, ON, PLANNING, case
from benchmarks.measurement import Measurement
from benchmarks.speed import WrongRead
from benchmarks.streaming.sides import PENSTOCK, Stream, Trickle
from benchmarks.streaming.triggers import planning_time
from benchmarks.topics import BATCH_SIZE, Times, Topic, load

PARTITIONS = 200
CONFIGS = {"segment.index.bytes": 65_536}
"""Index files take their full size at once, 10 MB each and two per partition."""

LIVE = "a record in each"
BEHIND = "catching up"
SWITCHED: dict[str, Mapping[str, str]] = {OFF: {}, ON: EVENT_TIME}

LIVE_TRIGGER = "400 milliseconds"
"""Of the live topic. A stream that looks all the time often finds only some of 200 records, which take their time to be
stored; those triggers do not count, and would be most of them."""

ROWS = 240_000
TRIGGERS = 12
SETTLING = 3


def measure(arena: Arena) -> list[Measurement]:
    return [*_live(arena), *_behind(arena)] if PENSTOCK in arena.sides else []


def _live(arena: Arena) -> list[Measurement]:
    topic = "bench-event-live"
    arena.kafka.create_topic(topic, PARTITIONS, configs=CONFIGS)
    wanted = SETTLING + arena.sized(12, 4)
    with Trickle(arena, PARTITIONS, [topic]) as trickle:

        def triggers(stream: Stream, options: Mapping[str, str]) -> list[dict[str, Any]]:
            stream.start({"subscribe": topic, **options}, LIVE_TRIGGER)
            for _ in range(wanted):
                trickle.send(PARTITIONS)
                stream.settle()
            found = stream.stop()
            if (seen := sum(trigger["rows"] for trigger in found)) != PARTITIONS * wanted:
                raise WrongRead(f"{stream.name} read {seen} of {PARTITIONS * wanted} rows")
            return [trigger for trigger in found if trigger["rows"] == PARTITIONS]

        return _measure(arena, LIVE, triggers)


def _behind(arena: Arena) -> list[Measurement]:
    topic = _load(arena)

    def triggers(stream: Stream, options: Mapping[str, str]) -> list[dict[str, Any]]:
        options = {"subscribe": topic.name, "startingOffsets": "earliest", **options}
        stream.start({**options, "maxOffsetsPerTrigger": str(topic.rows // TRIGGERS)})
        found = stream.stop()
        if (seen := sum(trigger["rows"] for trigger in found)) != topic.rows:
            raise WrongRead(f"{stream.name} read {seen} of {topic.rows} rows")
        return found

    measured = _measure(arena, BEHIND, triggers)
    arena.kafka.delete_topic(topic.name)
    return measured


def _load(arena: Arena) -> Topic:
    return load(
        arena.kafka,
        arena.rivals.distribution,
        "bench-event-behind",
        "none",
        arena.sized(ROWS, ROWS // 10),
        partitions=PARTITIONS,
        batch_size=BATCH_SIZE,
        say=arena.progress,
        times=Times(int(time.time() * 1000) - 2 * HOUR, span=HOUR),
        configs=CONFIGS,
    )


def _measure(
    arena: Arena, what: str, triggers: Callable[[Stream, Mapping[str, str]], list[dict[str, Any]]]
) -> list[Measurement]:
    """`triggers` runs a query; its triggers that count, with Spark's times."""
    measured = {which: Measurement(PLANNING, case(what, which), PENSTOCK, "ms") for which in SWITCHED}
    with Stream(PENSTOCK, arena) as stream:
        for which, options in SWITCHED.items():
            arena.progress(f"{PLANNING}: warming, {case(what, which)}")
            triggers(stream, options)
        for turn in range(arena.rounds):
            for which, one in measured.items():
                arena.progress(f"{PLANNING}: {one.case}, round {turn + 1} of {arena.rounds}")
                counted = [trigger["ms"] for trigger in triggers(stream, SWITCHED[which])][SETTLING:]
                if not counted:
                    raise WrongRead(f"{one.case}: no trigger found all rows at once")
                one.rounds.append(median(planning_time(ms) for ms in counted))
                names = sorted({name for ms in counted for name in ms})
                one.extra.append({name: median(ms.get(name, 0) for ms in counted) for name in names})
                arena.progress.note(
                    f"{PLANNING}: {one.case}, round {turn + 1} of {arena.rounds}: {one.rounds[-1]:.0f} ms "
                    f"(p50 of {len(counted)})"
                )
    return list(measured.values())
