"""Rows per second of a group under both group protocols: Arrow batches from four streams of one member.

Both readers run the same program, each in its own process, and take turns; every other round begins with the other one.
"""

from __future__ import annotations

from contextlib import ExitStack

from benchmarks.consumer.readers import PENSTOCK, PROTOCOLS, ask, start
from benchmarks.consumer.throughput import batches_topic, check_counts
from benchmarks.measurement import Measurement
from benchmarks.run import BenchmarkRun
from benchmarks.speed import WARM_UPS

CLASSIC, CONSUMER = "classic", "consumer"
CASES = (CLASSIC, CONSUMER)

MORE_ROUNDS = 28
"""Additional rounds: the target is a difference of three percent, a round takes 0.3 s, and rounds differ by a tenth."""


def measure(bench: BenchmarkRun) -> list[Measurement]:
    if PENSTOCK not in bench.sides:
        return []
    topic = batches_topic(bench)
    measured = {case: Measurement(PROTOCOLS, case, PENSTOCK, "M rows/s") for case in CASES}
    rounds = bench.rounds + bench.sized(MORE_ROUNDS, 0)
    with ExitStack() as stack:
        readers = {case: start(PENSTOCK, bench, stack) for case in CASES}

        def read(case: str) -> dict[str, float]:
            answer = ask(readers[case], bench, "batches", topic.name, rows=topic.rows, protocol=case)
            check_counts(f"{PENSTOCK}, {case}", answer, topic, topic.rows)
            return answer

        for case in CASES:
            for warm_up in range(WARM_UPS):
                bench.progress(f"{PROTOCOLS}: warming {case}, {warm_up + 1} of {WARM_UPS}")
                read(case)
        for turn in range(rounds):
            for case in CASES if turn % 2 == 0 else reversed(CASES):
                bench.progress(f"{PROTOCOLS}: {case}, round {turn + 1} of {rounds}")
                answer = read(case)
                speed = answer["rows"] / answer["seconds"] / 1e6
                measured[case].rounds.append(speed)
                measured[case].extra.append({key: round(value, 4) for key, value in answer.items()})
                bench.progress.note(f"{PROTOCOLS}: {case}, round {turn + 1} of {rounds}: {speed:.2f} M rows/s")
    bench.kafka.delete_topic(topic.name)
    return list(measured.values())
