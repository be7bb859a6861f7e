"""The sides of the stream figures, and the requests they answer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.processes import Process, ReaderFailed, ReaderProcess
from benchmarks.run import BenchmarkRun
from benchmarks.speed import PROGRAMS, SPARK_CORES

PENSTOCK = "penstock"
JVM = "jvm"
FLINK = "flink"
SIDES = (PENSTOCK, JVM, FLINK)

REQUEST_SECONDS = 120.0
"""Timeout of a request: the slowest, a cold stream that catches up on 6 M records, takes 20 s."""

REPLAY_SECONDS = 600.0
"""Timeout for a stream that counts 6 M records with a watermark, in dozens of triggers."""

_COMPILE_SECONDS = 120.0


def spark_sides(bench: BenchmarkRun) -> list[str]:
    return [side for side in bench.sides if side in (PENSTOCK, JVM)]


class Stream(ReaderProcess):
    """Spark with one stream: of all columns into the noop sink, files or a table, or of keys and values into the same
    side's Kafka sink.

    `sink` has the options of the Kafka sink, or `format` and `path`."""

    def __init__(
        self,
        side: str,
        bench: BenchmarkRun,
        settings: Mapping[str, str] | None = None,
        more_jars: Sequence[Path] = (),
    ) -> None:
        self.side = side
        self._bench = bench
        program, cores, words = PROGRAMS / "spark_stream.py", str(SPARK_CORES), json.dumps(dict(settings or {}))
        if side == PENSTOCK:
            command: list[str | Path] = [sys.executable, program, "penstock", cores, words]
        else:
            rival = bench.rivals.jvm_source
            assert rival is not None
            command = [rival.python, program, "kafka", cores, words, *rival.jars, *more_jars]
        super().__init__(f"stream-{side}", command)

    def start(
        self, options: Mapping[str, str], trigger: str | None = None, sink: Mapping[str, str] | None = None
    ) -> None:
        """Start a query at the latest offsets. Returns when it waits for data."""
        self._request("start", options={"startingOffsets": "latest", **options}, trigger=trigger, sink=sink)

    def settle(self) -> None:
        """Wait until it has read all records."""
        self._request("settle")

    def idle(self, seconds: float, warm_seconds: float) -> dict[str, Any]:
        return self._request("idle", seconds=seconds, warm_seconds=warm_seconds)

    def memory(self, *, collect: bool) -> dict[str, Any]:
        """Resident MB of all processes; with `collect`, also the driver's heap after a garbage collection."""
        return self._request("memory", collect=collect)

    def stop(self) -> list[dict[str, Any]]:
        """Stop the query. Returns its triggers that had rows, with Spark's durations in ms."""
        triggers: list[dict[str, Any]] = self._request("stop")["triggers"]
        return triggers

    def catch_up(
        self, options: Mapping[str, str], *, verify: bool, sink: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        return self._request("catch-up", options={"startingOffsets": "earliest", **options}, verify=verify, sink=sink)

    def replay(self, options: Mapping[str, str], window: str, delay: str) -> dict[str, Any]:
        """Count all records in windows, with Spark's watermark."""
        request = {"options": {"startingOffsets": "earliest", **options}, "window": window, "delay": delay}
        return self._request("replay", REPLAY_SECONDS, **request)

    def count_views(
        self,
        options: Mapping[str, str],
        *,
        from_json: str | None,
        views: str | None,
        ads: Sequence[tuple[str, str]],
        verify: bool,
    ) -> dict[str, Any]:
        """Count the views of each campaign. `from_json`: the schema by which Spark decodes values; None if the source
        does. `views`: Spark's filter; None if the source filters."""
        options = {"startingOffsets": "earliest", **options}
        return self._request("count-views", options=options, from_json=from_json, views=views, ads=ads, verify=verify)

    def _request(self, what: str, timeout: float = REQUEST_SECONDS, **details: Any) -> dict[str, Any]:
        request = {"do": what, "bootstrap": self._bench.kafka.bootstrap_servers, **details}
        if what in ("start", "catch-up", "replay", "count-views"):
            request["checkpoint"] = self._bench.checkpoint()
        return self.ask(request, timeout)


class FlinkJob(Process):
    """Flink's KafkaSource in one warm JVM, a bounded job per request."""

    def __init__(self, bench: BenchmarkRun) -> None:
        self._bootstrap = bench.kafka.bootstrap_servers
        assert bench.rivals.flink is not None
        java, classes = bench.rivals.distribution.java, bench.scratch / "flink-classes"
        classpath = ":".join(map(str, [classes, *bench.rivals.flink]))
        # Compiled into a folder: tasks load their functions by class name, which fails under `java Flink.java`.
        compile_command: list[str | Path] = [
            java,
            "-m",
            "jdk.compiler/com.sun.tools.javac.Main",
            "-d",
            classes,
            "-cp",
            classpath,
        ]
        subprocess.run([*compile_command, PROGRAMS / "Flink.java"], check=True, timeout=_COMPILE_SECONDS)
        super().__init__(FLINK, [java, "-Xmx2g", "-cp", classpath, "Flink", str(SPARK_CORES)])

    def catch_up(self, topic: str, *, verify: bool) -> dict[str, Any]:
        self.write_line(f"{self._bootstrap} {topic}{' verify' if verify else ''}")
        while (line := self.read_line(REQUEST_SECONDS)) is not None:
            match line.split():
                case ["ran", execute, job, rows, size]:
                    return {
                        "seconds": float(job),
                        "execute_seconds": float(execute),
                        "rows": int(rows),
                        "bytes": int(size),
                    }
        raise ReaderFailed(f"{self.name} ended without an answer")


class OnDemandProducer(Process):
    """A producer that sends a few records on demand, all in one produce request."""

    def __init__(self, bench: BenchmarkRun, partitions: int, topics: Sequence[str]) -> None:
        kafka = bench.rivals.distribution
        command: list[str | Path] = [
            kafka.java,
            "-Xmx256m",
            "-cp",
            kafka.classpath(),
            PROGRAMS / "OnDemandProducer.java",
        ]
        super().__init__("on-demand producer", [*command, bench.kafka.bootstrap_servers, str(partitions), *topics])

    def send(self, rows: int, times: tuple[int, int] | None = None) -> None:
        """`times`: the timestamp (ms) in the first partition, and the step to each next partition. Default: now."""
        self.write_line(" ".join(map(str, (rows, *(times or ())))))
        if self.read_line(REQUEST_SECONDS) != "sent":
            raise ReaderFailed(f"{self.name} ended")
