"""A ninth member joins a group of eight that shares 64 partitions: do the others go on reading?

A producer writes to all partitions at a steady rate. The eight members note when each record arrives, first in a window
in which nothing happens, then in one as long in which the ninth member joins and gets its share. The longest time
without records is taken over the partitions that stay with their member.

Such a partition waits for its next record also while nothing happens, and now and then for the machine. So the time
counts by which the longest wait with a join is longer than the longest wait without one, in any round of the same case:
0 if the join cost nothing.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from benchmarks.consumer.readers import JOIN, PENSTOCK, SteadyProducer, ask, start_joining
from benchmarks.measurement import Measurement
from benchmarks.processes import ReaderProcess
from benchmarks.run import BenchmarkRun
from benchmarks.speed import WrongRead

MEMBERS = 8
PARTITIONS = 64
PER_SECOND = 25 * PARTITIONS
WINDOW = 20
"""Seconds. Measured: the slowest case gives the new member its share within two of the brokers' heartbeats of 5 s."""
QUICK_WINDOW = 15
MORE_ROUNDS = 2

CONSUMER, COOPERATIVE, EAGER = "consumer", "cooperative-sticky", "range"
CASES = {
    CONSUMER: {"group.protocol": "consumer"},
    COOPERATIVE: {"partition.assignment.strategy": "cooperative-sticky"},
    EAGER: {"partition.assignment.strategy": "range"},
}
"""The third one stops all partitions, for comparison. It has no target."""


def measure(bench: BenchmarkRun) -> list[Measurement]:
    if PENSTOCK not in bench.sides:
        return []
    topic = "bench-join"
    bench.kafka.create_topic(topic, PARTITIONS)
    rounds = bench.rounds + bench.sized(MORE_ROUNDS, 0)
    answers: dict[str, list[dict[str, Any]]] = {case: [] for case in CASES}
    with ExitStack() as stack:
        stack.enter_context(SteadyProducer(bench, topic, PARTITIONS, PER_SECOND))
        reader = stack.enter_context(start_joining())
        for turn in range(rounds):
            for case in CASES if turn % 2 == 0 else reversed(CASES):
                bench.progress(f"{JOIN}: {case}, round {turn + 1} of {rounds}")
                answer = _join(bench, reader, topic, case)
                answers[case].append(answer)
                bench.progress.note(
                    f"{JOIN}: {case}, round {turn + 1} of {rounds}: {answer['stayed']} partitions stayed, longest wait "
                    f"{answer['quiet_ms']:.0f} ms, with the join {answer['joining_ms']:.0f} ms"
                )
    bench.kafka.delete_topic(topic)
    return [_measurement(case, found) for case, found in answers.items()]


def _join(bench: BenchmarkRun, reader: ReaderProcess, topic: str, case: str) -> dict[str, Any]:
    answer = ask(
        reader,
        bench,
        "join",
        topic,
        reset="latest",
        members=MEMBERS,
        partitions=PARTITIONS,
        window=bench.sized(WINDOW, QUICK_WINDOW),
        config=CASES[case],
    )
    fair = PARTITIONS // (MEMBERS + 1)
    if answer["moved"] < fair or answer["stayed"] + answer["moved"] > PARTITIONS:
        raise WrongRead(f"{JOIN}, {case}: the new member got {answer['moved']} partitions, {answer['stayed']} stayed")
    if answer["skipped"]:
        raise WrongRead(f"{JOIN}, {case}: {answer['skipped']} records were not delivered exactly once, in order")
    return answer


def _measurement(case: str, answers: list[dict[str, Any]]) -> Measurement:
    quiet = max(answer["quiet_ms"] for answer in answers)
    stopped = [max(0.0, answer["joining_ms"] - quiet) for answer in answers]
    return Measurement(JOIN, case, PENSTOCK, "ms", stopped, answers)
