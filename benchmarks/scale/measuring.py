"""Runs the selected figures about growth.

Cost of planning is processor time of the planning process, not time that passed: the simulated cluster works in a
process of its own, and how long it takes for an answer is not that of a broker. What passed is in the results, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measurement import Measurement
from benchmarks.processes import ReaderProcess
from benchmarks.run import BenchmarkRun
from benchmarks.scale import broker
from benchmarks.scale.figures import (
    BROKER,
    CHANGES,
    GROUP,
    GROUP_PARTITIONS,
    IDLE,
    MEMBERS,
    MEMORY,
    PARTITIONS,
    PICKLED,
    PLANNED,
    PLANNING,
    RANGE_COUNTS,
    RANGE_STEPS,
    RANGES,
    case,
    processor,
)
from benchmarks.speed import PROGRAMS
from benchmarks.streaming.sides import PENSTOCK

ANSWER_SECONDS = 200.0


def measure(bench: BenchmarkRun, names: Sequence[str]) -> list[Measurement]:
    parts = {PLANNING: _planning, RANGES: _ranges, GROUP: _group, BROKER: broker.measure}
    return [one for name, part in parts.items() if name in names for one in part(bench)]


class _Rounds:
    """Measurements by case, one value per round."""

    def __init__(self, figure: str) -> None:
        self._figure = figure
        self._by_case: dict[str, Measurement] = {}

    def add(self, name: str, unit: str, value: float, extra: dict[str, Any] | None = None) -> None:
        one = self._by_case.setdefault(name, Measurement(self._figure, name, PENSTOCK, unit))
        one.rounds.append(value)
        if extra is not None:
            one.extra.append(extra)

    def measured(self) -> list[Measurement]:
        return list(self._by_case.values())


def _planning(bench: BenchmarkRun) -> Iterable[Measurement]:
    rounds = _Rounds(PLANNING)
    for turn in range(bench.rounds):
        for size, (topics, partitions) in PARTITIONS.items():
            if bench.quick and size > 10_000:
                continue
            bench.progress(f"{PLANNING}: {size:,} partitions, round {turn + 1} of {bench.rounds}")
            answer = _ask("scale_planning.py", topics=topics, partitions=partitions)
            for what in PLANNED:
                times = answer[what]
                rounds.add(case(what, size), "ms", times["processor_ms"], times)
            rounds.add(case(MEMORY, size), "MB", answer["memory_mb"], {"offset_log_bytes": answer["offset_log_bytes"]})
            shown = ", ".join(f"{what} {answer[what]['processor_ms']:.1f}" for what in PLANNED)
            bench.progress.note(f"{PLANNING}: {size:,} partitions, CPU ms: {shown}; {answer['memory_mb']:.0f} MB")
    return rounds.measured()


def _ranges(bench: BenchmarkRun) -> Iterable[Measurement]:
    rounds = _Rounds(RANGES)
    for turn in range(bench.rounds):
        for count in RANGE_COUNTS:
            bench.progress(f"{RANGES}: {count:,} ranges, round {turn + 1} of {bench.rounds}")
            answer = _ask("scale_planning.py", ranges=count)
            for what in RANGE_STEPS:
                rounds.add(case(what, count), "ms", answer[what]["processor_ms"], answer[what])
            rounds.add(case(PICKLED, count), "bytes per range", answer["pickled_bytes"])
    return rounds.measured()


def _group(bench: BenchmarkRun) -> Iterable[Measurement]:
    topic = "scale-group"
    bench.kafka.create_topic(topic, GROUP_PARTITIONS, configs={"segment.index.bytes": 65_536})
    rounds = _Rounds(GROUP)

    def measured(members: int) -> dict[str, Any]:
        servers = bench.kafka.bootstrap_servers
        return _ask("scale_group.py", bootstrap=servers, topic=topic, partitions=GROUP_PARTITIONS, members=members)

    bench.progress(f"{GROUP}: the broker creates the topic of groups' offsets, for the first group")
    measured(1)
    for turn in range(bench.rounds):
        for members in MEMBERS:
            bench.progress(f"{GROUP}: {members} members, round {turn + 1} of {bench.rounds}")
            answer = measured(members)
            for what in CHANGES:
                rounds.add(case(what, members), "s", answer[what]["seconds"])
                rounds.add(case(processor(what), members), "ms", answer[what]["processor_ms"])
            rounds.add(case(IDLE, members), "CPU ms per second and member", answer[IDLE]["processor_ms_per_second"])
            rounds.add(case(MEMORY, members), "MB per member", answer["memory_mb"])
            shown = ", ".join(f"{what} {answer[what]['seconds'] * 1000:.0f}" for what in CHANGES)
            bench.progress.note(f"{GROUP}: {members} members, ms: {shown}; {answer['memory_mb']:.2f} MB per member")
    bench.kafka.delete_topic(topic)
    return rounds.measured()


def _ask(program: str, **request: Any) -> dict[str, Any]:
    """The answer of a new process: its peak memory is that of this request."""
    command: list[str | Path] = [sys.executable, PROGRAMS / program]
    with ReaderProcess(program, command) as process:
        return process.ask(request, ANSWER_SECONDS)
