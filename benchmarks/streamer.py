"""The Streamer into a Delta Lake table, compared with Spark's Kafka source into Parquet and, if its jars resolve, into
Delta Lake: a whole topic, all columns, on as many threads as Spark has cores.

Both sides end when everything is stored and the offsets are committed.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from benchmarks.environments import EnvironmentMissing, delta_jars
from benchmarks.figure import Figure
from benchmarks.measurement import Measurement
from benchmarks.processes import ReaderProcess
from benchmarks.run import BenchmarkRun
from benchmarks.speed import PROGRAMS, SPARK_CORES, WARM_UPS, WrongRead
from benchmarks.streaming.sides import JVM, PENSTOCK, Stream
from benchmarks.target import Target, compare
from benchmarks.topics import BATCH_SIZE, Topic, load

STREAMER_DELTA = "streamer-delta"
"""The name of the figure, and of its file of results."""

SIDES = (PENSTOCK, JVM)
DELTA, PARQUET = "Delta", "Parquet"
CODEC = "lz4"
ROWS = 6_000_000
QUICK_ROWS = 300_000
PARTITIONS = 4
RUN_SECONDS = 150.0

DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@dataclass(frozen=True, slots=True)
class Entry:
    side: str
    case: str


ENTRIES = (Entry(PENSTOCK, DELTA), Entry(JVM, PARQUET), Entry(JVM, DELTA))

TARGETS = (
    Target(
        "a topic into a table: Streamer into Delta / Spark's source into Parquet",
        STREAMER_DELTA, (PENSTOCK, DELTA), (JVM, PARQUET), at_least=2.0,
    ),
    Target("the same / Spark's source into Delta", STREAMER_DELTA, (PENSTOCK, DELTA), (JVM, DELTA), at_least=2.0),
)  # fmt: skip


def figures(measurements: Iterable[Measurement]) -> list[Figure]:
    return compare(TARGETS, measurements, CODEC)


def measure(bench: BenchmarkRun) -> list[Measurement]:
    entries = [entry for entry in ENTRIES if entry.side in bench.sides]
    topic = load(
        bench.kafka,
        bench.rivals.distribution,
        "bench-streamer",
        CODEC,
        bench.sized(ROWS, QUICK_ROWS),
        partitions=PARTITIONS,
        batch_size=BATCH_SIZE,
        say=bench.progress,
    )
    measured = {}
    with ExitStack() as stack:
        writers: dict[Entry, ReaderProcess] = {}
        for entry in entries:
            try:
                writers[entry] = stack.enter_context(_start(entry, bench))
            except EnvironmentMissing as error:
                bench.progress.note(f"streamer: without {entry.side} into {entry.case}: {error}")
                continue
            measured[entry] = Measurement(STREAMER_DELTA, entry.case, entry.side, "M rows/s")
            for warm_up in range(WARM_UPS):
                bench.progress(f"streamer: warming {entry.side} into {entry.case}, {warm_up + 1} of {WARM_UPS}")
                _run(writers[entry], entry, bench, topic)
        for turn in range(bench.rounds):
            for entry, one in measured.items():
                answer = _run(writers[entry], entry, bench, topic)
                speed = topic.rows / answer["seconds"] / 1e6
                one.rounds.append(speed)
                one.extra.append(answer)
                bench.progress.note(
                    f"streamer: {entry.side} into {entry.case}, run {turn + 1} of {bench.rounds}: {speed:.2f} M rows/s"
                )
    bench.kafka.delete_topic(topic.name)
    return list(measured.values())


def _start(entry: Entry, bench: BenchmarkRun) -> ReaderProcess:
    if entry.side == PENSTOCK:
        return ReaderProcess("streamer", [sys.executable, PROGRAMS / "streamer_table.py"])
    if entry.case == PARQUET:
        return Stream(JVM, bench)
    return Stream(JVM, bench, DELTA_SETTINGS, delta_jars(bench.progress))


def _run(writer: ReaderProcess, entry: Entry, bench: BenchmarkRun, topic: Topic) -> dict[str, Any]:
    """Write the whole topic into a new table. Its rows are counted afterwards, and it is removed."""
    folder = bench.checkpoint() + "-table"
    if isinstance(writer, Stream):
        sink = {"format": entry.case.lower(), "path": folder}
        answer = writer.catch_up({"subscribe": topic.name}, verify=False, sink=sink)
    else:
        request = {"bootstrap": bench.kafka.bootstrap_servers, "topic": topic.name, "folder": folder}
        answer = writer.ask(request | {"threads": SPARK_CORES}, RUN_SECONDS)
    shutil.rmtree(folder)
    if answer["rows"] != topic.rows:
        raise WrongRead(f"{entry.side} into {entry.case} wrote {answer['rows']} of {topic.rows} records")
    return answer
