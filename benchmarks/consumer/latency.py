"""Latency of a record: from the producer's `send` to the reader's loop, on one machine and one clock.

The producer sends all the time, and the readers alternate: each joins a new group at the latest offset, reads for some
seconds that do not count, and then for the seconds that count.
"""

from __future__ import annotations

from contextlib import ExitStack

from benchmarks.consumer.readers import CONFLUENT, LATENCY, PENSTOCK, SteadyProducer, ask, start
from benchmarks.measurement import Measurement
from benchmarks.run import BenchmarkRun
from benchmarks.speed import WrongRead

PARTITIONS = 4
PER_SECOND = 1000
SECONDS = 20
WARM_UP = 3
QUICK_SECONDS = 3
QUICK_WARM_UP = 1
SIDES = (PENSTOCK, CONFLUENT)
"""Both with their defaults: confluent-kafka's tuning in the other figures is for full queues; here they are empty."""

MORE_ROUNDS = 2
"""Additional rounds: a p99 varies more from round to round than a median."""

FIRST_WARM_UP = 10
"""Seconds of each reader before the first round. Measured: broker and producer, two JVMs, have a p99 of 50 to 200 ms in
their first 12 s."""

P50 = "p50"
P99 = "p99"


def measure(bench: BenchmarkRun) -> list[Measurement]:
    sides = [side for side in SIDES if side in bench.sides]
    if not sides:
        return []
    topic = "bench-latency"
    bench.kafka.create_topic(topic, PARTITIONS)
    measured = {(side, case): Measurement(LATENCY, case, side, "ms") for case in (P99, P50) for side in sides}
    seconds, warm_up = bench.sized(SECONDS, QUICK_SECONDS), bench.sized(WARM_UP, QUICK_WARM_UP)
    first_warm_up = bench.sized(FIRST_WARM_UP, QUICK_WARM_UP)
    rounds = bench.rounds + bench.sized(MORE_ROUNDS, 0)
    with ExitStack() as stack:
        stack.enter_context(SteadyProducer(bench, topic, PARTITIONS, PER_SECOND))
        readers = {side: start(side, bench, stack) for side in sides}
        for side, reader in readers.items():
            bench.progress(f"{LATENCY}: warming {side} for {first_warm_up} s")
            ask(reader, bench, "latency", topic, reset="latest", warm_up=0, seconds=first_warm_up)
        for turn in range(rounds):
            # The order alternates, so that a trend affects both sides equally.
            for side in sides if turn % 2 == 0 else reversed(sides):
                bench.progress(f"{LATENCY}: {side}, round {turn + 1} of {rounds}")
                answer = ask(readers[side], bench, "latency", topic, reset="latest", warm_up=warm_up, seconds=seconds)
                # A producer that fell behind catches up at once, so there may be a few records more or less.
                if not 0.95 < answer["records"] / (seconds * PER_SECOND) < 1.05:
                    raise WrongRead(f"{side} read {answer['records']} records in {seconds} s at {PER_SECOND}/s")
                for case in (P50, P99):
                    measured[side, case].rounds.append(answer[case])
                    measured[side, case].extra.append(answer)
                bench.progress.note(
                    f"{LATENCY}: {side}, round {turn + 1} of {rounds}: p50 {answer[P50]:.2f} ms, "
                    f"p99 {answer[P99]:.2f} ms"
                )
    bench.kafka.delete_topic(topic)
    return list(measured.values())
