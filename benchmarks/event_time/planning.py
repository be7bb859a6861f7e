"""What event time adds to the planning of a trigger over 200 partitions: of a live topic that has a new record in each,
of the same where most partitions are ahead of the slowest and wait, and of one that is caught up on under a limit.

The dearest is the second: at every trigger brokers are asked for the offset of a time, and, as somebody is held back by
it, for the newest timestamps of all logs, which all have grown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import count
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
HELD = "most held back"
BEHIND = "catching up"
SWITCHED: dict[str, Mapping[str, str]] = {OFF: {}, ON: EVENT_TIME}

LIVE_TRIGGER = "400 milliseconds"
"""Of the live topic. A stream that looks all the time often finds only some of 200 records, which take their time to be
stored; those triggers do not count, and would be most of them."""

APART = 12_000
"""Milliseconds of event time from a partition to the next one: the last is 40 minutes ahead of the first. With a drift
of 15 minutes 124 of 200 wait at every trigger."""
STEP = 5 * 60_000
"""By how much event time has gone on in each partition with the next record."""
DRIFT = 15 * 60_000
"""That of EVENT_TIME."""
WAITING = (PARTITIONS * APART - DRIFT) // STEP
"""So many records of the last partition wait, and as many triggers have fewer rows than partitions at first."""

ROWS = 240_000
TRIGGERS = 12
SETTLING = 3


def measure(arena: Arena) -> list[Measurement]:
    return [*_live(arena), *_held(arena), *_behind(arena)] if PENSTOCK in arena.sides else []


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


def _held(arena: Arena) -> list[Measurement]:
    topic = "bench-event-held"
    arena.kafka.create_topic(topic, PARTITIONS, configs=CONFIGS)
    wanted = WAITING + SETTLING + arena.sized(12, 4)
    # Event time goes on from query to query, and brokers refuse timestamps that lie ahead.
    queries = (1 + arena.rounds) * len(SWITCHED)
    times = count(int(time.time() * 1000) - HOUR - PARTITIONS * APART - queries * wanted * STEP, STEP)
    with Trickle(arena, PARTITIONS, [topic]) as trickle:

        def triggers(stream: Stream, options: Mapping[str, str]) -> list[dict[str, Any]]:
            stream.start({"subscribe": topic, **options}, LIVE_TRIGGER)
            for _ in range(wanted):
                trickle.send(PARTITIONS, (next(times), APART))
                stream.settle()
            found = stream.stop()
            rows = sum(_readable(partition, wanted) if options else wanted for partition in range(PARTITIONS))
            if (seen := sum(trigger["rows"] for trigger in found)) != rows:
                raise WrongRead(f"{stream.name} read {seen} rows and not {rows} of {PARTITIONS * wanted}")
            return [trigger for trigger in found if trigger["rows"] == PARTITIONS]

        return _measure(arena, HELD, triggers)


def _readable(partition: int, sent: int) -> int:
    """How many of the records that were sent to a partition are not too far ahead of the first one's."""
    ahead = max(0, partition * APART - DRIFT)
    return max(0, sent + -ahead // STEP)


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
