"""Spark as a process that writes batches: on the project's PySpark, or on that of Spark's JVM sink."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.environments import linked_packages
from benchmarks.processes import ReaderProcess
from benchmarks.run import BenchmarkRun
from benchmarks.speed import PROGRAMS, SPARK_CORES
from benchmarks.streaming.sides import JVM, PENSTOCK
from benchmarks.writing.figures import PARTITIONS, SAME_SPARK

REQUEST_SECONDS = 300.0
"""Timeout of a request: the slowest takes 30 s, and more on a busy machine."""


@dataclass(frozen=True, slots=True)
class Job:
    """A batch write of generated rows."""

    format: str
    columns: Sequence[str]
    rows: int
    options: Mapping[str, str]
    tasks: int = PARTITIONS


class SparkWriter(ReaderProcess):
    """One Spark session that writes batches. Used by one thread."""

    def __init__(self, side: str, bench: BenchmarkRun, cores: int = SPARK_CORES) -> None:
        self.side = side
        self._bootstrap = bench.kafka.bootstrap_servers
        program, rival = PROGRAMS / "spark_write.py", bench.rivals.jvm_source
        if side == PENSTOCK:
            super().__init__(f"write-{side}", [sys.executable, program, str(cores)])
            return
        assert rival is not None
        match side:
            case "jvm":
                super().__init__(f"write-{side}", [rival.python, program, str(cores), *rival.jars])
            case "penstock-same-spark":
                environment = {"PYTHONPATH": str(linked_packages(bench.scratch))}
                super().__init__(f"write-{side}", [rival.python, program, str(cores)], environment)
            case _:
                raise ValueError(side)

    def write(self, job: Job, topic: str | None) -> float:
        """Seconds. Without a topic, for formats that write nothing."""
        seconds: float = self.ask(self._request("write", job, topic), REQUEST_SECONDS)["seconds"]
        return seconds

    def memory(self, job: Job, topic: str) -> dict[str, Any]:
        return self.ask(self._request("memory", job, topic), REQUEST_SECONDS)

    def sums(self, job: Job, *sums: str) -> list[int]:
        """The number of rows that a job writes, and these sums over them."""
        answer = self.ask({**self._request("sum", job, None), "sums": sums}, REQUEST_SECONDS)
        found: list[int] = answer["sums"]
        return found

    def _request(self, what: str, job: Job, topic: str | None) -> dict[str, Any]:
        options = dict(job.options)
        if topic is not None:
            options |= {"kafka.bootstrap.servers": self._bootstrap, "topic": topic}
        return {
            "do": what,
            "format": job.format,
            "columns": list(job.columns),
            "rows": job.rows,
            "tasks": job.tasks,
            "options": options,
        }


def needs_jvm_sink(side: str) -> bool:
    return side in (JVM, SAME_SPARK)
