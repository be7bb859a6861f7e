"""Rows per second of an Arrow table into Kafka, in one thread and without Spark, beside other producers."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from benchmarks.consumer.readers import CONFLUENT_TUNED, JAVA
from benchmarks.measurement import Measurement
from benchmarks.processes import ReaderFailed, ReaderProcess
from benchmarks.programs.written_rows import rows_table
from benchmarks.run import BenchmarkRun
from benchmarks.speed import PROGRAMS
from benchmarks.streaming.sides import PENSTOCK
from benchmarks.writing.figures import CODEC, COMPRESSED, CONFLUENT_MANY, CONVERTED, KEYS, PARTITIONS, PLAIN, VALUES
from benchmarks.writing.output_topics import check, output_topic

ROWS = 4_000_000
QUICK_ROWS = 200_000
CONFLUENT_SHARE = 4
"""confluent-kafka writes a quarter of the rows: all of them would take most of the figure's time."""

DISTINCT = 50_021
"""Values in the file of ProducerPerformance, which sends one of them at random for each record."""

TOOL_SECONDS = 300.0

CONFLUENT = {
    "compression.type": CODEC,
    "acks": "all",
    "linger.ms": 50,
    "batch.size": 1 << 20,
    "batch.num.messages": 100_000,
    # Long queues: the loop should not wait for them.
    "queue.buffering.max.messages": 10_000_000,
    "queue.buffering.max.kbytes": 2 << 20,
    "delivery.report.only.error": True,
}
PRODUCER_PERFORMANCE = {
    "compression.type": CODEC,
    "acks": "all",
    "linger.ms": 50,
    "batch.size": 256 << 10,
    "buffer.memory": 128 << 20,
}


@dataclass(frozen=True, slots=True)
class Entry:
    side: str
    case: str
    rows: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"{PLAIN}: {self.side}, {self.case}"


def measure(bench: BenchmarkRun) -> list[Measurement]:
    rows = bench.sized(ROWS, QUICK_ROWS)
    possible = [
        Entry(PENSTOCK, KEYS, rows, COMPRESSED),
        Entry(CONFLUENT_TUNED, KEYS, rows // CONFLUENT_SHARE, CONFLUENT),
        Entry(CONFLUENT_MANY, KEYS, rows // CONFLUENT_SHARE, CONFLUENT),
        Entry(PENSTOCK, VALUES, rows, COMPRESSED),
        Entry(JAVA, VALUES, rows, PRODUCER_PERFORMANCE),
    ]
    entries = [entry for entry in possible if entry.side in bench.sides]
    measured = [Measurement(PLAIN, entry.case, entry.side, "M rows/s") for entry in entries]
    with ExitStack() as stack:
        writers: dict[str, ReaderProcess | ProducerPerformance] = {}
        for entry in entries:
            if entry.side not in writers:
                writers[entry.side] = writer = _start(entry.side, bench)
                stack.enter_context(writer)
            bench.progress(f"{entry.label}: warming")
            _write(bench, writers[entry.side], entry, verify=True)
        for turn in range(bench.rounds):
            for entry, one in zip(entries, measured, strict=True):
                answer = _write(bench, writers[entry.side], entry, verify=False)
                speed = entry.rows / answer["seconds"] / 1e6
                one.rounds.append(speed)
                one.extra.append({key: round(value, 4) for key, value in answer.items()})
                bench.progress.note(f"{entry.label}, run {turn + 1} of {bench.rounds}: {speed:.2f} M rows/s")
    return [*measured, *(_converted(entry, one) for entry, one in zip(entries, measured, strict=True) if _objects(one))]


def _objects(one: Measurement) -> bool:
    """Whether the side writes Python objects."""
    return "convert_seconds" in one.extra[0]


def _converted(entry: Entry, one: Measurement) -> Measurement:
    rounds = [entry.rows / (extra["seconds"] + extra["convert_seconds"]) / 1e6 for extra in one.extra]
    return Measurement(PLAIN, CONVERTED, entry.side, one.unit, rounds)


class ProducerPerformance:
    """Kafka's ProducerPerformance: a new process per run, which warms itself with records that do not count."""

    def __init__(self, bench: BenchmarkRun) -> None:
        self._distribution = bench.rivals.distribution
        self._values = bench.scratch / "values"
        write_values(self._values)

    def __enter__(self) -> ProducerPerformance:
        return self

    def __exit__(self, *_: object) -> None:
        pass  # every run ends by itself

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        rows = request["rows"]
        ran = self._distribution.run_tool(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--bootstrap-server", request["bootstrap"], "--topic", request["topic"], "--throughput", "-1"),
            *("--num-records", str(2 * rows), "--warmup-records", str(rows), "--payload-file", str(self._values)),
            *("--command-property", *(f"{key}={value}" for key, value in request["settings"].items())),
            seconds=TOOL_SECONDS,
            jvm_options=("-Xmx512m",),  # as in kafka-producer-perf-test.sh
        )
        figures = re.findall(r"^(\d+) (?:steady state )?records sent, ([0-9.]+) records/sec", ran.stdout, re.M)
        if ran.returncode != 0 or not figures:
            raise ReaderFailed(f"ProducerPerformance: {ran.stdout[-500:]}{ran.stderr[-500:]}")
        counted, speed = figures[-1]
        return {"seconds": rows / float(speed), "counted": int(counted)}


def write_values(path: Path) -> None:
    """A file with one value per line."""
    values = rows_table(DISTINCT)["value"].to_pylist()
    path.write_bytes(b"\n".join(values) + b"\n")


def _start(side: str, bench: BenchmarkRun) -> ReaderProcess | ProducerPerformance:
    if side == JAVA:
        return ProducerPerformance(bench)
    if side == PENSTOCK:
        return ReaderProcess(f"{PLAIN}-{side}", [sys.executable, PROGRAMS / "write_penstock.py"])
    assert bench.rivals.confluent is not None
    return ReaderProcess(f"{PLAIN}-{side}", [bench.rivals.confluent.python, PROGRAMS / "write_confluent.py"])


def _write(
    bench: BenchmarkRun, writer: ReaderProcess | ProducerPerformance, entry: Entry, *, verify: bool
) -> dict[str, Any]:
    with output_topic(bench, PARTITIONS) as topic:
        answer = writer.ask(
            {
                "bootstrap": bench.kafka.bootstrap_servers,
                "topic": topic,
                "rows": entry.rows,
                "keys": entry.case == KEYS,
                "many": entry.side == CONFLUENT_MANY,
                "settings": dict(entry.settings),
            }
        )
        if verify:
            _check(bench, entry, topic)
    return answer


def _check(bench: BenchmarkRun, entry: Entry, topic: str) -> None:
    if entry.side == JAVA:  # chooses its values at random, and has written as many to warm up
        check(bench, entry.label, topic, 2 * entry.rows)
        return
    table = rows_table(entry.rows)
    columns = ("key", "value") if entry.case == KEYS else ("value",)
    size = sum(pc.sum(pc.binary_length(table[name])).as_py() for name in columns)
    check(bench, entry.label, topic, entry.rows, size)
