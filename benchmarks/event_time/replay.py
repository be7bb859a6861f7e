"""Replay of a skewed topic: counts records in windows, with Spark's watermark.

Every partition spans 24 hours, and the last partition begins 24 hours after the first. Spark's watermark follows the
newest record of all partitions, and Spark drops records that are behind it.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

from benchmarks.event_time.figures import HOUR, REPLAY
from benchmarks.measurement import Measurement
from benchmarks.run import BenchmarkRun
from benchmarks.speed import WrongRead
from benchmarks.streaming.sides import JVM, PENSTOCK, Stream, spark_sides
from benchmarks.topics import BATCH_SIZE, Times, Topic, load

ROWS = 6_000_000
QUICK_ROWS = 300_000
PARTITIONS = 8
SPAN = 24 * HOUR
APART = 24 * HOUR // (PARTITIONS - 1)
TRIGGERS = 12
"""Number of triggers that the limit per trigger leads to with Spark's source."""

DRIFT = "2h"
DELAY = "2 hours"
"""The drift alone, without out-of-orderness: the records of a partition are in order here."""
WINDOW = "10 minutes"
OPTIONS = {PENSTOCK: {"eventTime.maxDrift": DRIFT}, JVM: {}}

LOST = "records lost"
SECONDS = "time"

SETTINGS = {
    # One state store per core. The default, 200, would take most of the time on both sides.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}


def skewed(now: float) -> Times:
    """Timestamps that end an hour before now, because brokers reject timestamps in the future."""
    return Times(int(now * 1000) - HOUR - SPAN - 24 * HOUR, SPAN, APART)


def measure(bench: BenchmarkRun) -> list[Measurement]:
    rows = bench.sized(ROWS, QUICK_ROWS)
    topic = load(
        bench.kafka,
        bench.rivals.distribution,
        "bench-skewed",
        "none",
        rows,
        partitions=PARTITIONS,
        batch_size=BATCH_SIZE,
        say=bench.progress,
        times=skewed(time.time()),
    )
    sides = spark_sides(bench)
    lost = {side: Measurement(REPLAY, LOST, side, "records") for side in sides}
    seconds = {side: Measurement(REPLAY, SECONDS, side, "s") for side in sides}
    with ExitStack() as stack:
        streams = {side: stack.enter_context(Stream(side, bench, SETTINGS)) for side in sides}
        for side, stream in streams.items():
            bench.progress(f"replay: warming {side}")
            replay(stream, topic)
        for turn in range(bench.rounds):
            for side, stream in streams.items():
                answer = replay(stream, topic)
                triggers = answer["triggers"]
                lost[side].rounds.append(answer["rows"] - answer["counted"])
                lost[side].extra.append({"dropped": sum(trigger["dropped"] for trigger in triggers)})
                seconds[side].rounds.append(answer["seconds"])
                seconds[side].extra.append({"triggers": len(triggers)})
                bench.progress.note(
                    f"replay: {side}, run {turn + 1} of {bench.rounds}: {lost[side].rounds[-1]:,} of "
                    f"{topic.rows:,} records lost, {answer['seconds']:.2f} s, {len(triggers)} triggers"
                )
    bench.kafka.delete_topic(topic.name)
    return [*lost.values(), *seconds.values()]


def replay(stream: Stream, topic: Topic) -> dict[str, Any]:
    limit = -(-topic.rows // TRIGGERS)
    options = {"subscribe": topic.name, "maxOffsetsPerTrigger": str(limit), **OPTIONS[stream.side]}
    answer = stream.replay(options, WINDOW, DELAY)
    if answer["rows"] != topic.rows:
        raise WrongRead(f"{stream.name} read {answer['rows']} of {topic.rows} records of {topic.name}")
    return answer
