"""Reader processes: started, sent requests, and ended with the runner.

Each runs in its own session, so that Ctrl-C reaches only the runner, which then ends them one by one. Each reads its
requests from a pipe, so it ends by itself if the runner is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.programs.serving import PREFIX
from penstock.testing import Distribution

ANSWER_SECONDS = 900.0
_STOP_SECONDS = 10.0


class ReaderFailed(Exception):
    """A reader ended or did not answer in time. The message holds the end of its standard error."""


class Process:
    """A child process that reads and writes lines. Used by one thread."""

    def __init__(self, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
        """`environment`: variables beside those of the runner."""
        self.name = name
        # A SPARK_HOME of the runner would override the PySpark of every environment.
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `close`)
        self._child = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
            env={**inherited, **(environment or {})},
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read_output, name=f"read-{name}", daemon=True).start()

    def _read_output(self) -> None:
        """Runs in its own thread until the child closes its output."""
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def write_line(self, line: str) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(line + "\n")
            self._child.stdin.flush()
        except OSError:
            raise ReaderFailed(f"{self.name} ended: {self._stderr_tail()}") from None

    def read_line(self, seconds: float = ANSWER_SECONDS) -> str | None:
        """The next line of its output; None if it ended with exit code 0."""
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise ReaderFailed(f"{self.name} printed nothing for {seconds:g} s") from None
        if line is not None:
            return line.rstrip("\n")
        if self._child.wait() != 0:
            raise ReaderFailed(f"{self.name} ended with {self._child.returncode}: {self._stderr_tail()}")
        return None

    def _stderr_tail(self, characters: int = 2000) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(1)
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - characters))
        return self._errors.read().decode(errors="replace").strip() or "(its standard error is empty)"

    def close(self) -> None:
        """End it and all processes it started. May be called twice."""
        if self._child.stdin is not None and not self._child.stdin.closed:
            with contextlib.suppress(OSError):
                self._child.stdin.close()
        try:
            self._child.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(_STOP_SECONDS)
        self._signal(signal.SIGKILL)
        self._child.wait()
        self._errors.close()

    def kill(self) -> None:
        """End it at once, without waiting for the current request."""
        self._signal(signal.SIGTERM)
        end = time.monotonic() + 3.0
        while self._child.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        self._signal(signal.SIGKILL)
        self.close()

    def _signal(self, number: signal.Signals) -> None:
        """Signal the whole process group, which the child leads."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.kill()


class ReaderProcess(Process):
    """A child that answers requests by the protocol of `benchmarks.programs`."""

    def ask(self, request: dict[str, Any], seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
        self.write_line(json.dumps(request))
        return self.answer(seconds)

    def answer(self, seconds: float) -> dict[str, Any]:
        """The answer to the request that was written last."""
        while (line := self.read_line(seconds)) is not None:
            if line.startswith(PREFIX):
                answer: dict[str, Any] = json.loads(line.removeprefix(PREFIX))
                return answer
        raise ReaderFailed(f"{self.name} ended without an answer")


class JavaConsumer(ReaderProcess):
    """Kafka's ConsumerPerformance in one warm JVM, with the same requests and answers."""

    def ask(self, request: dict[str, Any], seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
        self.write_line(f"{request['bootstrap']} {request['topic']} {request['rows']}")
        while (line := self.read_line(seconds)) is not None:
            answer = performance_figures(line)
            if answer is not None:
                return answer
            if "WARNING" in line and "Exiting before consuming" in line:
                raise ReaderFailed(f"{self.name}: {line}")
        raise ReaderFailed(f"{self.name} ended without an answer")


class JavaTool:
    """Kafka's ConsumerPerformance as shipped: a new process per run, as kafka-consumer-perf-test starts it."""

    def __init__(self, name: str, distribution: Distribution) -> None:
        self.name = name
        self._distribution = distribution

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass  # every run ends by itself

    def ask(self, request: dict[str, Any], seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
        ran = self._distribution.run_tool(
            "org.apache.kafka.tools.ConsumerPerformance",
            *("--bootstrap-server", request["bootstrap"], "--topic", request["topic"]),
            *("--num-records", str(request["rows"]), "--group", f"bench-{uuid.uuid4()}", "--hide-header"),
            seconds=seconds,
            jvm_options=("-Xmx512m",),  # as in kafka-consumer-perf-test.sh
        )
        for line in ran.stdout.splitlines():
            answer = performance_figures(line)
            if answer is not None:
                return answer
        raise ReaderFailed(f"{self.name}: {ran.stdout[-500:]}{ran.stderr[-500:]}")


def performance_figures(line: str) -> dict[str, Any] | None:
    """Parse the figures of ConsumerPerformance: its fetch time without joining the group, and the bytes it read."""
    # start, end, MB, MB/s, records, records/s, rebalance ms, fetch ms, fetch MB/s, fetch records/s
    fields = line.split(", ")
    if len(fields) != 10:
        return None
    return {
        "seconds": float(fields[7]) / 1000,
        "rows": int(fields[4]),
        "bytes": round(float(fields[2]) * (1 << 20)),
        "rebalance_seconds": float(fields[6]) / 1000,
    }
