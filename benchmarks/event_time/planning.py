"""Planning time that event time adds to a trigger over 200 partitions, in three cases: a live topic with a new record
in each partition, the same where most partitions are ahead of the slowest and wait, and catching up under a limit.

The second is the most expensive. At every trigger the planner asks the brokers for the offset of a time and, because
partitions are held, for the newest timestamps of all logs, which have all grown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import count
from statistics import median
from typing import Any

from benchmarks.event_time.figures import EVENT_TIME, HOUR, OFF, ON, PLANNING, case
from benchmarks.measurement import Measurement
from benchmarks.run import BenchmarkRun
from benchmarks.speed import WrongRead
from benchmarks.streaming.sides import PENSTOCK, OnDemandProducer, Stream
from benchmarks.streaming.triggers import planning_time
from benchmarks.topics import BATCH_SIZE, Times, Topic, load

PARTITIONS = 200
CONFIGS = {"segment.index.bytes": 65_536}
"""Index files are allocated in full at once, 10 MB each and two per partition."""

LIVE = "a record in each"
HELD = "most held back"
BEHIND = "catching up"
SWITCHED: dict[str, Mapping[str, str]] = {OFF: {}, ON: EVENT_TIME}

LIVE_TRIGGER = "400 milliseconds"
"""Trigger of the live topic. A stream without an interval often finds only some of the 200 records, because the broker
takes time to store them; those triggers do not count, and would be most of them."""

APART = 12_000
"""Milliseconds of event time between neighbouring partitions: the last is 40 minutes ahead of the first. With a drift
of 15 minutes, 124 of 200 wait at every trigger."""
STEP = 5 * 60_000
"""Milliseconds of event time between two records of a partition."""
DRIFT = 15 * 60_000
"""The drift in EVENT_TIME."""
WAITING = (PARTITIONS * APART - DRIFT) // STEP
"""Records of the last partition that wait. As many triggers have fewer rows than partitions at first."""

ROWS = 240_000
TRIGGERS = 12
SETTLING = 3


def measure(bench: BenchmarkRun) -> list[Measurement]:
    return [*_live(bench), *_held(bench), *_behind(bench)] if PENSTOCK in bench.sides else []


def _live(bench: BenchmarkRun) -> list[Measurement]:
    topic = "bench-event-live"
    bench.kafka.create_topic(topic, PARTITIONS, configs=CONFIGS)
    wanted = SETTLING + bench.sized(12, 4)
    with OnDemandProducer(bench, PARTITIONS, [topic]) as producer:

        def triggers(stream: Stream, options: Mapping[str, str]) -> list[dict[str, Any]]:
            stream.start({"subscribe": topic, **options}, LIVE_TRIGGER)
            for _ in range(wanted):
                producer.send(PARTITIONS)
                stream.settle()
            found = stream.stop()
            if (seen := sum(trigger["rows"] for trigger in found)) != PARTITIONS * wanted:
                raise WrongRead(f"{stream.name} read {seen} of {PARTITIONS * wanted} rows")
            return [trigger for trigger in found if trigger["rows"] == PARTITIONS]

        return _measure(bench, LIVE, triggers)


def _held(bench: BenchmarkRun) -> list[Measurement]:
    topic = "bench-event-held"
    bench.kafka.create_topic(topic, PARTITIONS, configs=CONFIGS)
    wanted = WAITING + SETTLING + bench.sized(12, 4)
    # Event time continues from query to query, and brokers reject timestamps in the future.
    queries = (1 + bench.rounds) * len(SWITCHED)
    times = count(int(time.time() * 1000) - HOUR - PARTITIONS * APART - queries * wanted * STEP, STEP)
    with OnDemandProducer(bench, PARTITIONS, [topic]) as producer:

        def triggers(stream: Stream, options: Mapping[str, str]) -> list[dict[str, Any]]:
            stream.start({"subscribe": topic, **options}, LIVE_TRIGGER)
            for _ in range(wanted):
                producer.send(PARTITIONS, (next(times), APART))
                stream.settle()
            found = stream.stop()
            rows = sum(_readable(partition, wanted) if options else wanted for partition in range(PARTITIONS))
            if (seen := sum(trigger["rows"] for trigger in found)) != rows:
                raise WrongRead(f"{stream.name} read {seen} rows and not {rows} of {PARTITIONS * wanted}")
            return [trigger for trigger in found if trigger["rows"] == PARTITIONS]

        return _measure(bench, HELD, triggers)


def _readable(partition: int, sent: int) -> int:
    """The number of records of a partition that are not too far ahead of the first partition."""
    ahead = max(0, partition * APART - DRIFT)
    return max(0, sent + -ahead // STEP)


def _behind(bench: BenchmarkRun) -> list[Measurement]:
    topic = _load(bench)

    def triggers(stream: Stream, options: Mapping[str, str]) -> list[dict[str, Any]]:
        options = {"subscribe": topic.name, "startingOffsets": "earliest", **options}
        stream.start({**options, "maxOffsetsPerTrigger": str(topic.rows // TRIGGERS)})
        found = stream.stop()
        if (seen := sum(trigger["rows"] for trigger in found)) != topic.rows:
            raise WrongRead(f"{stream.name} read {seen} of {topic.rows} rows")
        return found

    measured = _measure(bench, BEHIND, triggers)
    bench.kafka.delete_topic(topic.name)
    return measured


def _load(bench: BenchmarkRun) -> Topic:
    return load(
        bench.kafka,
        bench.rivals.distribution,
        "bench-event-behind",
        "none",
        bench.sized(ROWS, ROWS // 10),
        partitions=PARTITIONS,
        batch_size=BATCH_SIZE,
        say=bench.progress,
        times=Times(int(time.time() * 1000) - 2 * HOUR, span=HOUR),
        configs=CONFIGS,
    )


def _measure(
    bench: BenchmarkRun, what: str, triggers: Callable[[Stream, Mapping[str, str]], list[dict[str, Any]]]
) -> list[Measurement]:
    """`triggers` runs a query and returns its triggers that count, with Spark's durations."""
    measured = {which: Measurement(PLANNING, case(what, which), PENSTOCK, "ms") for which in SWITCHED}
    with Stream(PENSTOCK, bench) as stream:
        for which, options in SWITCHED.items():
            bench.progress(f"{PLANNING}: warming, {case(what, which)}")
            triggers(stream, options)
        for turn in range(bench.rounds):
            for which, one in measured.items():
                bench.progress(f"{PLANNING}: {one.case}, round {turn + 1} of {bench.rounds}")
                counted = [trigger["ms"] for trigger in triggers(stream, SWITCHED[which])][SETTLING:]
                if not counted:
                    raise WrongRead(f"{one.case}: no trigger found all rows at once")
                one.rounds.append(median(planning_time(ms) for ms in counted))
                names = sorted({name for ms in counted for name in ms})
                one.extra.append({name: median(ms.get(name, 0) for ms in counted) for name in names})
                bench.progress.note(
                    f"{PLANNING}: {one.case}, round {turn + 1} of {bench.rounds}: {one.rounds[-1]:.0f} ms "
                    f"(p50 of {len(counted)})"
                )
    return list(measured.values())
