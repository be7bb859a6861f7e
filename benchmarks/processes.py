"""Contestants as processes: started, asked, and gone when we are.

Each runs in a session of its own, so that Ctrl-C reaches the runner alone and it can end them in order; and each reads
its orders from a pipe, so that it ends by itself when the runner was killed.
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
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.contestants.answering import PREFIX
from penstock.testing import Distribution

ANSWER_SECONDS = 900.0
_STOP_SECONDS = 10.0


class ContestantFailed(Exception):
    """A contestant ended or fell silent; with the end of what it printed."""


class Process:
    """A child that is told lines and prints lines. Used by one thread."""

    def __init__(self, name: str, command: Sequence[str | Path]) -> None:
        self.name = name
        # A SPARK_HOME around us would be taken for the PySpark of every environment.
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `close`)
        self._child = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
            env=environment,
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name=f"listen-{name}", daemon=True).start()

    def _listen(self) -> None:
        """Runs in a thread of its own until the child closes its output."""
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def tell(self, line: str) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(line + "\n")
            self._child.stdin.flush()
        except OSError:
            raise ContestantFailed(f"{self.name} ended: {self._last_words()}") from None

    def hear(self, seconds: float = ANSWER_SECONDS) -> str | None:
        """The next line it prints; None when it has ended well."""
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise ContestantFailed(f"{self.name} said nothing for {seconds:g} s") from None
        if line is not None:
            return line.rstrip("\n")
        if self._child.wait() != 0:
            raise ContestantFailed(f"{self.name} ended with {self._child.returncode}: {self._last_words()}")
        return None

    def _last_words(self, characters: int = 2000) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(1)
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - characters))
        return self._errors.read().decode(errors="replace").strip() or "(it printed no error)"

    def close(self) -> None:
        """End it and everything it has started. May be called twice."""
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
        """End it at once, without waiting for the order it works on."""
        self._signal(signal.SIGTERM)
        end = time.monotonic() + 3.0
        while self._child.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        self._signal(signal.SIGKILL)
        self.close()

    def _signal(self, number: signal.Signals) -> None:
        """To the whole group: the child leads one, and nothing else is in it."""
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


class Contestant(Process):
    """A child that answers orders as `contestants.answering` has it."""

    def ask(self, order: dict[str, Any], seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
        self.tell(json.dumps(order))
        while (line := self.hear(seconds)) is not None:
            if line.startswith(PREFIX):
                answer: dict[str, Any] = json.loads(line.removeprefix(PREFIX))
                return answer
        raise ContestantFailed(f"{self.name} ended without an answer")


class JavaConsumer(Contestant):
    """Kafka's ConsumerPerformance in one warm JVM, in the words of the others."""

    def ask(self, order: dict[str, Any], seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
        self.tell(f"{order['bootstrap']} {order['topic']} {order['rows']}")
        while (line := self.hear(seconds)) is not None:
            answer = performance_figures(line)
            if answer is not None:
                return answer
            if "WARNING" in line and "Exiting before consuming" in line:
                raise ContestantFailed(f"{self.name}: {line}")
        raise ContestantFailed(f"{self.name} ended without an answer")


class JavaTool:
    """Kafka's ConsumerPerformance as it is shipped: a process for every run, as kafka-consumer-perf-test starts it."""

    def __init__(self, name: str, distribution: Distribution) -> None:
        self.name = name
        self._distribution = distribution

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass  # every run has ended by itself

    def ask(self, order: dict[str, Any], seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
        ran = self._distribution.run_tool(
            "org.apache.kafka.tools.ConsumerPerformance",
            *("--bootstrap-server", order["bootstrap"], "--topic", order["topic"]),
            *("--num-records", str(order["rows"]), "--group", f"bench-{uuid.uuid4()}", "--hide-header"),
            seconds=seconds,
            jvm_options=("-Xmx512m",),  # what kafka-consumer-perf-test.sh gives it
        )
        for line in ran.stdout.splitlines():
            answer = performance_figures(line)
            if answer is not None:
                return answer
        raise ContestantFailed(f"{self.name}: {ran.stdout[-500:]}{ran.stderr[-500:]}")


def performance_figures(line: str) -> dict[str, Any] | None:
    """ConsumerPerformance's line of figures: its own time without joining the group, and the bytes it took up."""
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
