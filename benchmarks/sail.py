"""A batch on Sail, an engine for PySpark's API without a JVM, compared with the same on Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.environments import linked_packages
from benchmarks.figure import Figure
from benchmarks.measurement import Measurement
from benchmarks.processes import ReaderProcess
from benchmarks.run import BenchmarkRun
from benchmarks.speed import PROGRAMS, SPARK_CORES, WARM_UPS, WrongRead
from benchmarks.target import Target, compare
from benchmarks.topics import BATCH_SIZE, KEY_BYTES, Topic, load

FIGURE = "sail"
"""The name of the figure, and of its file of results."""

SAIL = "sail"
PENSTOCK = "penstock"
JVM = "jvm"
SIDES = (SAIL, PENSTOCK, JVM)

COLUMNS = "columns"
"""With `columns=value`. Sail asks the source for the columns of the query only, Spark for all of them."""

CODEC = "lz4"
PARTITIONS = 4
ROWS = 6_000_000
QUICK_ROWS = 300_000
REQUEST_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Entry:
    side: str
    case: str = ""
    options: Mapping[str, str] = field(default_factory=dict, hash=False)


ENTRIES = (Entry(SAIL), Entry(PENSTOCK), Entry(PENSTOCK, COLUMNS, {"columns": "value"}), Entry(JVM))

TARGETS = (
    Target("sum(length(value)): Penstock on Sail / Spark and its Kafka source", FIGURE, (SAIL, ""), (JVM, ""), 8.0),
)


def figures(measurements: Iterable[Measurement]) -> list[Figure]:
    return compare(TARGETS, measurements, CODEC)


def measure(bench: BenchmarkRun) -> list[Measurement]:
    topic = load(
        bench.kafka,
        bench.rivals.distribution,
        "bench-sail",
        CODEC,
        bench.sized(ROWS, QUICK_ROWS),
        partitions=PARTITIONS,
        batch_size=BATCH_SIZE,
        say=bench.progress,
    )
    entries = [entry for entry in ENTRIES if entry.side in bench.sides]
    measured = {entry: Measurement(FIGURE, entry.case, entry.side, "M rows/s") for entry in entries}
    with ExitStack() as stack:
        sparks = {side: stack.enter_context(_start(side, bench)) for side in bench.sides if side in (PENSTOCK, JVM)}
        for entry in entries:
            if entry.side != SAIL:
                _warm(sparks[entry.side], bench, entry, topic)
        for turn in range(bench.rounds):
            for entry, one in measured.items():
                seconds = (
                    _of_new_process(bench, entry, topic)
                    if entry.side == SAIL
                    else _sum(sparks[entry.side], bench, entry, topic)
                )
                speed = topic.rows / seconds / 1e6
                one.rounds.append(speed)
                case = f", {entry.case}" if entry.case else ""
                bench.progress.note(
                    f"sum on {entry.side}{case}, run {turn + 1} of {bench.rounds}: {speed:.2f} M rows/s"
                )
    bench.kafka.delete_topic(topic.name)
    return list(measured.values())


def _of_new_process(bench: BenchmarkRun, entry: Entry, topic: Topic) -> float:
    """Seconds of a warm run in a process of its own: Sail 0.7 has crashed in one that had been idle for two minutes."""
    with _start(entry.side, bench) as reader:
        _warm(reader, bench, entry, topic)
        return _sum(reader, bench, entry, topic)


def _warm(reader: ReaderProcess, bench: BenchmarkRun, entry: Entry, topic: Topic) -> None:
    for warm_up in range(WARM_UPS):
        bench.progress(f"sum on {entry.side}: warming, {warm_up + 1} of {WARM_UPS}")
        _sum(reader, bench, entry, topic)


def _start(side: str, bench: BenchmarkRun) -> ReaderProcess:
    program, cores = PROGRAMS / "sum_lengths.py", str(SPARK_CORES)
    if side == SAIL:
        assert bench.rivals.sail is not None
        environment = {"PYTHONPATH": str(linked_packages(bench.scratch))}
        return ReaderProcess(side, [bench.rivals.sail.python, program, "sail", "penstock"], environment)
    if side == PENSTOCK:
        return ReaderProcess(side, [sys.executable, program, cores, "penstock"])
    rival = bench.rivals.jvm_source
    assert rival is not None
    command: list[str | Path] = [rival.python, program, cores, "kafka", *rival.jars]
    return ReaderProcess(side, command)


def _sum(reader: ReaderProcess, bench: BenchmarkRun, entry: Entry, topic: Topic) -> float:
    """Seconds of a run that has counted all records and all bytes of their values."""
    options = {
        "kafka.bootstrap.servers": bench.kafka.bootstrap_servers,
        "subscribe": topic.name,
        "startingOffsets": "earliest",
        "endingOffsets": "latest",
        **entry.options,
    }
    answer = reader.ask({"options": options}, REQUEST_SECONDS)
    found, expected = (answer["rows"], answer["bytes"]), (topic.rows, topic.bytes - KEY_BYTES * topic.rows)
    if found != expected:
        raise WrongRead(f"{entry.side} read {found} records and bytes of values, not {expected}")
    return float(answer["seconds"])
