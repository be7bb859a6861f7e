"""Rows per second, contestant beside contestant.

All contestants of a codec are started and warmed before the first timed run, and the timed runs take turns: what slows
the machine down for a while slows all of them.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.environments import Rival
from benchmarks.processes import Contestant, JavaConsumer, JavaTool
from benchmarks.progress import Progress
from benchmarks.topics import Topic
from penstock.testing import Distribution

HERE = Path(__file__).parent / "contestants"
WARM_UPS = 2
"""A JVM's first run is cold, and with a tenth of the records its second is not yet at its best."""

SPARK_CORES = 2

CONFLUENT_SHARE = 6
"""confluent-kafka reads one record in so many: at 0.15 M rows/s the whole topic takes 40 s, and half a benchmark."""

SPARK_PENSTOCK = "spark-penstock"
SPARK_JVM = "spark-jvm"
SPARK_CEILING = "spark-ceiling"
PYTHON_PENSTOCK = "python-penstock"
PYTHON_AHEAD = "python-penstock-ahead"
JAVA_CONSUMER = "java-consumer"
JAVA_WARM = "java-consumer-warm"
PYTHON_CONFLUENT = "python-confluent"
CONFLUENT_TUNED = "python-confluent-tuned"

SPARK = (SPARK_PENSTOCK, SPARK_JVM, SPARK_CEILING)
PLAIN = (PYTHON_PENSTOCK, PYTHON_AHEAD, JAVA_CONSUMER, JAVA_WARM, PYTHON_CONFLUENT, CONFLUENT_TUNED)
CONTESTANTS = (*SPARK, *PLAIN)


class WrongRead(Exception):
    """A contestant did not read what was loaded: its time means nothing."""


@dataclass(slots=True)
class Result:
    contestant: str
    codec: str
    rows: int
    runs: list[float] = field(default_factory=list)
    """Seconds."""
    extra: list[dict[str, float]] = field(default_factory=list)

    @property
    def rows_per_second(self) -> float:
        return self.rows / median(self.runs)

    def as_json(self) -> dict[str, Any]:
        return {
            "contestant": self.contestant,
            "codec": self.codec,
            "rows": self.rows,
            "median_seconds": round(median(self.runs), 4),
            "rows_per_second": round(self.rows_per_second),
            "runs_seconds": [round(run, 4) for run in self.runs],
            "extra": self.extra,
        }


@dataclass(frozen=True, slots=True)
class Rivals:
    distribution: Distribution
    jvm_source: Rival | None
    confluent: Rival | None
    flink: tuple[Path, ...] | None
    """Its jars."""
    kafka_python: Rival | None = None
    aiokafka: Rival | None = None
    avro_source: Rival | None = None


def measure(
    topic: Topic,
    names: Sequence[str],
    bootstrap: str,
    rivals: Rivals,
    rounds: int,
    scratch: Path,
    progress: Progress,
) -> list[Result]:
    """Run these contestants on one topic. Spark's and the plain ones apart: no JVM of one idles beside the other."""
    results: list[Result] = []
    for group in (SPARK, PLAIN):
        chosen = [name for name in group if name in names]
        if chosen:
            results += _measure_group(topic, chosen, bootstrap, rivals, rounds, scratch, progress)
    return results


def _measure_group(
    topic: Topic,
    names: Sequence[str],
    bootstrap: str,
    rivals: Rivals,
    rounds: int,
    scratch: Path,
    progress: Progress,
) -> list[Result]:
    with contextlib.ExitStack() as stack:
        running: dict[str, tuple[Contestant | JavaTool, dict[str, Any]]] = {}
        for name in names:
            order = _order(name, topic, bootstrap, scratch)
            contestant = stack.enter_context(_start(name, rivals))
            for warm_up in range(WARM_UPS):
                progress(f"{topic.codec}: warming {name}, {warm_up + 1} of {WARM_UPS}")
                answer = contestant.ask({**order, "verify": warm_up == 0})
                if warm_up == 0:
                    _check(name, topic, order["rows"], answer)
            running[name] = contestant, order
        results = {name: Result(name, topic.codec, running[name][1]["rows"]) for name in names}
        for turn in range(rounds):
            for name, (contestant, order) in running.items():
                answer = contestant.ask(order)
                result = results[name]
                result.runs.append(answer["seconds"])
                result.extra.append({key: round(value, 4) for key, value in answer.items() if key.endswith("_seconds")})
                speed = order["rows"] / answer["seconds"] / 1e6
                progress.note(f"{topic.codec}: {name}, run {turn + 1} of {rounds}: {speed:.2f} M rows/s")
        return list(results.values())


def _start(name: str, rivals: Rivals) -> Contestant | JavaTool:
    spark_read, cores = HERE / "spark_read.py", str(SPARK_CORES)
    match name:
        case "spark-penstock":
            return Contestant(name, [sys.executable, spark_read, "penstock", cores])
        case "spark-ceiling":
            return Contestant(name, [sys.executable, spark_read, "ceiling", cores])
        case "spark-jvm":
            assert rivals.jvm_source is not None
            return Contestant(name, [rivals.jvm_source.python, spark_read, "kafka", cores, *rivals.jvm_source.jars])
        case "python-penstock" | "python-penstock-ahead":
            return Contestant(name, [sys.executable, HERE / "plain_penstock.py"])
        case "java-consumer":
            return JavaTool(name, rivals.distribution)
        case "java-consumer-warm":
            kafka = rivals.distribution
            return JavaConsumer(name, [kafka.java, "-Xmx1g", "-cp", kafka.classpath(), HERE / "Consume.java"])
        case "python-confluent" | "python-confluent-tuned":
            assert rivals.confluent is not None
            return Contestant(name, [rivals.confluent.python, HERE / "plain_confluent.py"])
        case _:
            raise ValueError(name)


def _order(name: str, topic: Topic, bootstrap: str, scratch: Path) -> dict[str, Any]:
    order = {
        "do": "read",
        "bootstrap": bootstrap,
        "topic": topic.name,
        "rows": topic.rows,
        "options": {"subscribe": topic.name, "startingOffsets": "earliest", "endingOffsets": "latest"},
    }
    if name == PYTHON_AHEAD:
        return {**order, "ahead": True}
    if name in (PYTHON_CONFLUENT, CONFLUENT_TUNED):
        return {**order, "rows": topic.rows // CONFLUENT_SHARE, "tuned": name == CONFLUENT_TUNED}
    if name == SPARK_CEILING:
        file = str(scratch / f"{topic.name}.arrow")
        with Contestant("templates", [sys.executable, HERE / "plain_penstock.py"]) as penstock:
            shapes = penstock.ask({**order, "do": "templates", "file": file})["shapes"]
        return {**order, "options": {"file": file, "shapes": json.dumps(shapes)}}
    return order


def _check(name: str, topic: Topic, rows: int, answer: dict[str, Any]) -> None:
    if answer["rows"] != rows:
        raise WrongRead(f"{name} read {answer['rows']} of {rows} records of {topic.name}")
    if rows < topic.rows:
        return
    # The ceiling repeats a few batches, so its bytes differ by a hair; Java's tool rounds to four digits of a MB.
    allowed = 0.01 * topic.bytes if name == SPARK_CEILING else 100 if name in (JAVA_CONSUMER, JAVA_WARM) else 0
    if abs(answer["bytes"] - topic.bytes) > allowed:
        raise WrongRead(f"{name} read {answer['bytes']} of {topic.bytes} bytes of {topic.name}")
