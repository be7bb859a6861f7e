"""Cost of event time where no partition waits: catching up on a topic without skew, with event time on and off."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.event_time.figures import CATCH_UP, EVENT_TIME, HOUR, OFF, ON, case
from benchmarks.measurement import Measurement
from benchmarks.run import BenchmarkRun
from benchmarks.speed import WARM_UPS, WrongRead
from benchmarks.streaming.catch_up import ALL_AT_ONCE, LIMITED, TRIGGERS
from benchmarks.streaming.sides import PENSTOCK, Stream
from benchmarks.topics import BATCH_SIZE, Times, Topic, load

ROWS = 6_000_000
QUICK_ROWS = 300_000
PARTITIONS = 4

MORE_ROUNDS = 4
"""Additional rounds, because a difference of a tenth is judged."""


@dataclass(frozen=True, slots=True)
class Entry:
    case: str
    options: Mapping[str, str] = field(default_factory=dict)


def measure(bench: BenchmarkRun) -> list[Measurement]:
    if PENSTOCK not in bench.sides:
        return []
    rows = bench.sized(ROWS, QUICK_ROWS)
    times = Times(int(time.time() * 1000) - 2 * HOUR, span=HOUR)
    topic = load(
        bench.kafka,
        bench.rivals.distribution,
        "bench-even",
        "none",
        rows,
        partitions=PARTITIONS,
        batch_size=BATCH_SIZE,
        say=bench.progress,
        times=times,
    )
    limit = {"maxOffsetsPerTrigger": str(rows // TRIGGERS)}
    entries = [
        Entry(case(LIMITED, OFF), limit),
        Entry(case(LIMITED, ON), {**limit, **EVENT_TIME}),
        Entry(case(ALL_AT_ONCE, OFF)),
        Entry(case(ALL_AT_ONCE, ON), EVENT_TIME),
    ]
    measured = [Measurement(CATCH_UP, entry.case, PENSTOCK, "M rows/s") for entry in entries]
    rounds = bench.rounds + (0 if bench.quick else MORE_ROUNDS)
    with Stream(PENSTOCK, bench) as stream:
        for warm_up in range(WARM_UPS):
            for entry in entries:
                bench.progress(f"event time: warming, {entry.case}, {warm_up + 1} of {WARM_UPS}")
                _catch_up(stream, entry, topic, verify=warm_up == 0)
        for turn in range(rounds):
            # The order alternates, so that a trend affects all cases equally.
            order = list(zip(entries, measured, strict=True))
            for entry, one in order if turn % 2 == 0 else reversed(order):
                seconds, triggers = _catch_up(stream, entry, topic, verify=False)
                one.rounds.append(rows / seconds / 1e6)
                one.extra.append({"seconds": round(seconds, 3), "triggers": triggers})
                bench.progress.note(f"event time: {entry.case}, run {turn + 1} of {rounds}: {seconds:.2f} s")
    bench.kafka.delete_topic(topic.name)
    return measured


def _catch_up(stream: Stream, entry: Entry, topic: Topic, *, verify: bool) -> tuple[float, int]:
    answer = stream.catch_up({"subscribe": topic.name, **entry.options}, verify=verify)
    read = (answer["rows"], answer.get("bytes", topic.bytes))
    if read != (topic.rows, topic.bytes):
        raise WrongRead(f"{entry.case}: {read} records and bytes of {topic.name}, which has {topic.rows} records")
    return answer["seconds"], answer["triggers"]
