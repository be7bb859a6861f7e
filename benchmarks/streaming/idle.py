"""CPU time of a trigger without new data, of Spark's driver and its Python processes."""

from __future__ import annotations

import sys
from contextlib import ExitStack

from benchmarks.measurement import Measurement
from benchmarks.run import BenchmarkRun
from benchmarks.speed import WrongRead
from benchmarks.streaming.measurement import IDLE
from benchmarks.streaming.sides import Stream, spark_sides

PARTITIONS = 4

EVERY_100_MS = "every 100 ms"
DEFAULT = "default trigger"
CASES = {EVERY_100_MS: "100 milliseconds", DEFAULT: None}

SETTINGS = {
    # One progress event per idle trigger, to count triggers. It costs both sides some microseconds.
    "spark.sql.streaming.noDataProgressEventInterval": "0",
}


def measure(bench: BenchmarkRun) -> list[Measurement]:
    if sys.platform != "linux":
        bench.progress.note("idle: skipped, because CPU time is read from /proc, which this system does not have")
        return []
    topic = "bench-idle"
    bench.kafka.create_topic(topic, PARTITIONS)
    sides = spark_sides(bench)
    measured = {(side, case): Measurement(IDLE, case, side, "ms CPU") for case in CASES for side in sides}
    warm_up, settling, seconds = bench.sized(12, 1), bench.sized(2, 1), bench.sized(6, 2)
    with ExitStack() as stack:
        streams = {side: stack.enter_context(Stream(side, bench, SETTINGS)) for side in sides}
        for side, stream in streams.items():
            bench.progress(f"idle: warming {side} for {warm_up} s")
            _idle(stream, topic, None, seconds=warm_up, settling=0)
        for turn in range(bench.rounds):
            for (side, case), one in measured.items():
                bench.progress(f"idle: {side}, {case}, round {turn + 1} of {bench.rounds}")
                answer = _idle(streams[side], topic, CASES[case], seconds=seconds, settling=settling)
                if not answer["triggers"]:
                    raise WrongRead(f"{streams[side].name} had no trigger within {seconds} s")
                value = answer["processor_seconds"] / answer["triggers"] * 1000
                one.rounds.append(value)
                one.extra.append({key: round(number, 3) for key, number in answer.items()})
                bench.progress.note(
                    f"idle: {side}, {case}, round {turn + 1} of {bench.rounds}: {value:.2f} ms of CPU per trigger, "
                    f"{answer['triggers'] / answer['seconds']:.1f} triggers per second"
                )
    return list(measured.values())


def _idle(stream: Stream, topic: str, trigger: str | None, *, seconds: float, settling: float) -> dict[str, float]:
    stream.start({"subscribe": topic}, trigger)
    answer = stream.idle(seconds, settling)
    stream.stop()
    return answer
