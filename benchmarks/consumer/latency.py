"""How long a record is under way: from a producer's `send` to the reader's loop, on one machine and one clock.

The producer sends all the while, and the readers take turns: each joins a new group at the latest record, reads for a
while that does not count, and then for a while that does.
"""

from __future__ import annotations

from contextlib import ExitStack

from benchmarks.arena import Arena
from benchmarks.consumer.readers import CONFLUENT, LATENCY, PENSTOCK, Pulse, ask, start
from benchmarks.measurement import Measurement
from benchmarks.speed import WrongRead

PARTITIONS = 4
PER_SECOND = 1000
SECONDS = 20
WARM_UP = 3
QUICK_SECONDS = 3
QUICK_WARM_UP = 1
SIDES = (PENSTOCK, CONFLUENT)
"""Both with their defaults: what confluent-kafka is tuned by elsewhere is for full queues, and here they are empty."""

MORE_ROUNDS = 2
"""Than of the other figures: a tail differs more from round to round than a median does."""

FIRST_WARM_UP = 10
"""Of each reader, before the first round. Measured: the broker and the producer, two JVMs, send with tails of 50 to
200 ms for their first 12 s."""

P50 = "p50"
P99 = "p99"


def measure(arena: Arena) -> list[Measurement]:
    sides = [side for side in SIDES if side in arena.sides]
    if not sides:
        return []
    topic = "bench-latency"
    arena.kafka.create_topic(topic, PARTITIONS)
    measured = {(side, case): Measurement(LATENCY, case, side, "ms") for case in (P99, P50) for side in sides}
    seconds, warm_up = arena.sized(SECONDS, QUICK_SECONDS), arena.sized(WARM_UP, QUICK_WARM_UP)
    first_warm_up = arena.sized(FIRST_WARM_UP, QUICK_WARM_UP)
    rounds = arena.rounds + arena.sized(MORE_ROUNDS, 0)
    with ExitStack() as stack:
        stack.enter_context(Pulse(arena, topic, PARTITIONS, PER_SECOND))
        readers = {side: stack.enter_context(start(side, arena)) for side in sides}
        for side, reader in readers.items():
            arena.progress(f"{LATENCY}: warming {side} for {first_warm_up} s")
            ask(reader, arena, "latency", topic, reset="latest", warm_up=0, seconds=first_warm_up)
        for turn in range(rounds):
            # Forth and back: what gets better or worse all the while does so for both.
            for side in sides if turn % 2 == 0 else reversed(sides):
                arena.progress(f"{LATENCY}: {side}, round {turn + 1} of {rounds}")
                answer = ask(readers[side], arena, "latency", topic, reset="latest", warm_up=warm_up, seconds=seconds)
                # A producer that fell behind sends the rest at once: there may be a few more, or less.
                if not 0.95 < answer["records"] / (seconds * PER_SECOND) < 1.05:
                    raise WrongRead(f"{side} took {answer['records']} records in {seconds} s of {PER_SECOND} a second")
                for case in (P50, P99):
                    measured[side, case].rounds.append(answer[case])
                    measured[side, case].extra.append(answer)
                arena.progress.note(
                    f"{LATENCY}: {side}, round {turn + 1} of {rounds}: p50 {answer[P50]:.2f} ms, "
                    f"p99 {answer[P99]:.2f} ms"
                )
    arena.kafka.delete_topic(topic)
    return list(measured.values())
