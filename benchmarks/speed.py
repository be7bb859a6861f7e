"""Rows per second of each reader.

All readers of a codec are started and warmed up before the first timed run, and the timed runs alternate: if the
machine slows down for a while, all readers slow down.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.environments import Rival
from benchmarks.measurement import warm
from benchmarks.processes import JavaConsumer, JavaTool, ReaderProcess
from benchmarks.progress import Progress
from benchmarks.topics import Topic
from penstock.testing import Distribution

PROGRAMS = Path(__file__).parent / "programs"
WARM_UPS = 2
"""The first run in a JVM is cold. With a tenth of the records the second one is not at full speed yet."""

SPARK_CORES = 2

CONFLUENT_SHARE = 6
"""confluent-kafka reads one record in six: at 0.15 M rows/s the whole topic would take 40 s, half of the benchmark."""

SPARK_PENSTOCK = "spark-penstock"
SPARK_JVM = "spark-jvm"
SPARK_CEILING = "spark-ceiling"
PYTHON_PENSTOCK = "python-penstock"
PYTHON_AHEAD = "python-penstock-ahead"
JAVA_CONSUMER = "java-consumer"
JAVA_WARM = "java-consumer-warm"
PYTHON_CONFLUENT = "python-confluent"
CONFLUENT_TUNED = "python-confluent-tuned"
WARM_AT_ONCE = (JAVA_CONSUMER, PYTHON_CONFLUENT, CONFLUENT_TUNED)
"""Readers that one more run would not make faster: each of its runs is a new JVM, or it has no JVM."""

SPARK = (SPARK_PENSTOCK, SPARK_JVM, SPARK_CEILING)
PLAIN = (PYTHON_PENSTOCK, PYTHON_AHEAD, JAVA_CONSUMER, JAVA_WARM, PYTHON_CONFLUENT, CONFLUENT_TUNED)
READERS = (*SPARK, *PLAIN)


class WrongRead(Exception):
    """A reader did not read the loaded records: its time is meaningless."""


@dataclass(slots=True)
class Result:
    reader: str
    codec: str
    rows: int
    runs: list[float] = field(default_factory=list)
    """Seconds per run."""
    extra: list[dict[str, float]] = field(default_factory=list)

    @property
    def rows_per_second(self) -> float:
        return self.rows / median(self.runs)

    def as_json(self) -> dict[str, Any]:
        return {
            "contestant": self.reader,
            "codec": self.codec,
            "rows": self.rows,
            "median_seconds": round(median(self.runs), 4),
            "rows_per_second": round(self.rows_per_second),
            "runs_seconds": [round(run, 4) for run in self.runs],
            "extra": self.extra,
        }

    @classmethod
    def from_json(cls, one: Mapping[str, Any]) -> Result:
        return cls(one["contestant"], one["codec"], one["rows"], one["runs_seconds"], one["extra"])


@dataclass(frozen=True, slots=True)
class Rivals:
    distribution: Distribution
    jvm_source: Rival | None
    confluent: Rival | None
    flink: tuple[Path, ...] | None
    """The jars of Flink and its Kafka connector."""
    kafka_python: Rival | None = None
    aiokafka: Rival | None = None
    avro_source: Rival | None = None
    sail: Rival | None = None
    search: tuple[Path, Path] | None = None
    """kcat and jq."""


def measure(
    topic: Topic,
    names: Sequence[str],
    bootstrap: str,
    rivals: Rivals,
    rounds: int,
    scratch: Path,
    progress: Progress,
    warm_seconds: float,
) -> list[Result]:
    """Run these readers on one topic, Spark readers and plain readers apart, so that no idle JVM runs beside them."""
    results: list[Result] = []
    for group in (SPARK, PLAIN):
        chosen = [name for name in group if name in names]
        if chosen:
            results += _measure_group(topic, chosen, bootstrap, rivals, rounds, scratch, progress, warm_seconds)
    return results


def _measure_group(
    topic: Topic,
    names: Sequence[str],
    bootstrap: str,
    rivals: Rivals,
    rounds: int,
    scratch: Path,
    progress: Progress,
    warm_seconds: float,
) -> list[Result]:
    with contextlib.ExitStack() as stack:
        running: dict[str, tuple[ReaderProcess | JavaTool, dict[str, Any]]] = {}
        for name in names:
            request = _request(name, topic, bootstrap, scratch)
            reader = _start(name, rivals)
            stack.enter_context(reader)
            progress(f"{topic.codec}: checking what {name} reads")
            _check(name, topic, request["rows"], reader.ask({**request, "verify": True}))
            running[name] = reader, request
        # After all checks: Spark ends Python workers that are idle for a minute, and to check a rival may take as long.
        for name, (reader, request) in running.items():
            if name not in WARM_AT_ONCE:
                progress(f"{topic.codec}: warming {name}")
                warm(partial(_seconds, reader, request), warm_seconds)
        results = {name: Result(name, topic.codec, running[name][1]["rows"]) for name in names}
        for turn in range(rounds):
            for name, (reader, request) in running.items():
                answer = reader.ask(request)
                result = results[name]
                result.runs.append(answer["seconds"])
                result.extra.append({key: round(value, 4) for key, value in answer.items() if key.endswith("_seconds")})
                speed = request["rows"] / answer["seconds"] / 1e6
                progress.note(f"{topic.codec}: {name}, run {turn + 1} of {rounds}: {speed:.2f} M rows/s")
        return list(results.values())


def _seconds(reader: ReaderProcess | JavaTool, request: dict[str, Any]) -> float:
    seconds: float = reader.ask(request)["seconds"]
    return seconds


def _start(name: str, rivals: Rivals) -> ReaderProcess | JavaTool:
    spark_read, cores = PROGRAMS / "spark_read.py", str(SPARK_CORES)
    match name:
        case "spark-penstock":
            return ReaderProcess(name, [sys.executable, spark_read, "penstock", cores])
        case "spark-ceiling":
            return ReaderProcess(name, [sys.executable, spark_read, "ceiling", cores])
        case "spark-jvm":
            assert rivals.jvm_source is not None
            return ReaderProcess(name, [rivals.jvm_source.python, spark_read, "kafka", cores, *rivals.jvm_source.jars])
        case "python-penstock" | "python-penstock-ahead":
            return ReaderProcess(name, [sys.executable, PROGRAMS / "plain_penstock.py"])
        case "java-consumer":
            return JavaTool(name, rivals.distribution)
        case "java-consumer-warm":
            kafka = rivals.distribution
            return JavaConsumer(name, [kafka.java, "-Xmx1g", "-cp", kafka.classpath(), PROGRAMS / "Consume.java"])
        case "python-confluent" | "python-confluent-tuned":
            assert rivals.confluent is not None
            return ReaderProcess(name, [rivals.confluent.python, PROGRAMS / "plain_confluent.py"])
        case _:
            raise ValueError(name)


def _request(name: str, topic: Topic, bootstrap: str, scratch: Path) -> dict[str, Any]:
    request = {
        "do": "read",
        "bootstrap": bootstrap,
        "topic": topic.name,
        "rows": topic.rows,
        "options": {"subscribe": topic.name, "startingOffsets": "earliest", "endingOffsets": "latest"},
    }
    if name == PYTHON_AHEAD:
        return {**request, "ahead": True}
    if name in (PYTHON_CONFLUENT, CONFLUENT_TUNED):
        return {**request, "rows": topic.rows // CONFLUENT_SHARE, "tuned": name == CONFLUENT_TUNED}
    if name == SPARK_CEILING:
        file = str(scratch / f"{topic.name}.arrow")
        with ReaderProcess("templates", [sys.executable, PROGRAMS / "plain_penstock.py"]) as penstock:
            shapes = penstock.ask({**request, "do": "templates", "file": file})["shapes"]
        return {**request, "options": {"file": file, "shapes": json.dumps(shapes)}}
    return request


def _check(name: str, topic: Topic, rows: int, answer: dict[str, Any]) -> None:
    if answer["rows"] != rows:
        raise WrongRead(f"{name} read {answer['rows']} of {rows} records of {topic.name}")
    if rows < topic.rows:
        return
    # The ceiling repeats a few batches, so its bytes differ slightly. Java's tool rounds to four digits of a MB.
    allowed = 0.01 * topic.bytes if name == SPARK_CEILING else 100 if name in (JAVA_CONSUMER, JAVA_WARM) else 0
    if abs(answer["bytes"] - topic.bytes) > allowed:
        raise WrongRead(f"{name} read {answer['bytes']} of {topic.bytes} bytes of {topic.name}")
