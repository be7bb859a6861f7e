"""The replay of a skewed topic: records counted in windows, behind a watermark of Spark's own.

Every partition holds a day, and the last one's begins 24 hours after the first one's. Spark's watermark follows the
newest record of all partitions; whatever lies behind it when it is read is dropped.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

from benchmarks.arena import Arena
from benchmarks.event_time.figures import HOUR, REPLAY
from benchmarks.measurement import Measurement
from benchmarks.speed import WrongRead
from benchmarks.streaming.sides import JVM, PENSTOCK, Stream, spark_sides
from benchmarks.topics import BATCH_SIZE, Times, Topic, load

ROWS = 6_000_000
QUICK_ROWS = 300_000
PARTITIONS = 8
SPAN = 24 * HOUR
APART = 24 * HOUR // (PARTITIONS - 1)
TRIGGERS = 12
"""The limit per trigger lets Spark's source take as many."""

DRIFT = "2h"
DELAY = "2 hours"
"""The drift, and nothing for out-of-orderness: records of a partition are in order here."""
WINDOW = "10 minutes"
OPTIONS = {PENSTOCK: {"eventTime.maxDrift": DRIFT}, JVM: {}}

LOST = "records lost"
SECONDS = "time"

SETTINGS = {
    # As many stores for the state as there are cores: 200, the default, would take most of the time on both sides.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}


def skewed(now: float) -> Times:
    """A topic that ends an hour before now: brokers refuse timestamps that lie ahead."""
    return Times(int(now * 1000) - HOUR - SPAN - 24 * HOUR, SPAN, APART)


def measure(arena: Arena) -> list[Measurement]:
    rows = arena.sized(ROWS, QUICK_ROWS)
    topic = load(
        arena.kafka,
        arena.rivals.distribution,
        "bench-skewed",
        "none",
        rows,
        partitions=PARTITIONS,
        batch_size=BATCH_SIZE,
        say=arena.progress,
        times=skewed(time.time()),
    )
    sides = spark_sides(arena)
    lost = {side: Measurement(REPLAY, LOST, side, "records") for side in sides}
    seconds = {side: Measurement(REPLAY, SECONDS, side, "s") for side in sides}
    with ExitStack() as stack:
        streams = {side: stack.enter_context(Stream(side, arena, SETTINGS)) for side in sides}
        for side, stream in streams.items():
            arena.progress(f"replay: warming {side}")
            replay(stream, topic)
        for turn in range(arena.rounds):
            for side, stream in streams.items():
                answer = replay(stream, topic)
                triggers = answer["triggers"]
                lost[side].rounds.append(answer["rows"] - answer["counted"])
                lost[side].extra.append({"dropped": sum(trigger["dropped"] for trigger in triggers)})
                seconds[side].rounds.append(answer["seconds"])
                seconds[side].extra.append({"triggers": len(triggers)})
                arena.progress.note(
                    f"replay: {side}, run {turn + 1} of {arena.rounds}: {lost[side].rounds[-1]:,} of "
                    f"{topic.rows:,} records lost, {answer['seconds']:.2f} s, {len(triggers)} triggers"
                )
    arena.kafka.delete_topic(topic.name)
    return [*lost.values(), *seconds.values()]


def replay(stream: Stream, topic: Topic) -> dict[str, Any]:
    limit = -(-topic.rows // TRIGGERS)
    options = {"subscribe": topic.name, "maxOffsetsPerTrigger": str(limit), **OPTIONS[stream.side]}
    answer = stream.replay(options, WINDOW, DELAY)
    if answer["rows"] != topic.rows:
        raise WrongRead(f"{stream.name} read {answer['rows']} of {topic.rows} records of {topic.name}")
    return answer
