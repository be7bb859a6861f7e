"""Programs in processes of their own. Each has its own session, which ends completely with its test.

A session, not a process group: PySpark's daemon creates its own group, but stays in the session. A supervisor (that of
the embedded broker) leads the session, so that a killed test run leaves no process behind either.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from penstock.testing import _supervisor
from penstock.testing.node import LOOPBACK
from support import spark_jvm

DRIVER = Path(__file__).with_name("driver.py")
RUN_SECONDS = 150.0  # Spark starts in 5 s on two idle cores, and takes much longer on busy ones
_END_SECONDS = 60.0
_ORPHAN_GRACE_SECONDS = "5"


class Program:
    """A process and its children. Its output goes to `<folder>/<name>.log`. Used by one thread."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        folder: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        folder.mkdir(parents=True, exist_ok=True)
        self.log_path = folder / f"{name}.log"
        supervisor = [
            sys.executable,
            "-I",
            "-S",
            str(_supervisor.__file__),
            str(os.getpid()),
            _ORPHAN_GRACE_SECONDS,
            "",
        ]
        self._leader = subprocess.Popen(
            [*supervisor, str(self.log_path), *(str(word) for word in command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            cwd=folder,
            env=clean_environment() | dict(environment or {}),
        )
        assert self._leader.stdout is not None
        line = self._leader.stdout.readline()
        assert line.strip().isdigit(), f"{name} could not be started: {self.log()}"
        self.pid = int(line)
        """Process id of the program itself; its supervisor leads the session."""

    @property
    def running(self) -> bool:
        return self._leader.poll() is None

    def members(self) -> list[int]:
        """The processes of its session, the supervisor included."""
        return session_members(self._leader.pid)

    def log(self) -> str:
        return self.log_path.read_text("utf-8", errors="replace") if self.log_path.exists() else ""

    def await_line(self, text: str, seconds: float = RUN_SECONDS) -> None:
        """Wait until the program has printed this."""

        def printed() -> bool:
            found = text in self.log()
            assert found or self.running, f"{self.name} ended without {text!r}: {self.log()[-3000:]}"
            return found

        assert until(printed, seconds), f"{self.name} did not print {text!r} in {seconds:g} s: {self.log()[-3000:]}"

    def await_port(self, text: str, seconds: float = RUN_SECONDS) -> int:
        """The port that the program prints after this text, at the end of the line. A port that the program found is
        its own; one that a test finds free may be taken before the program starts."""
        self.await_line(text, seconds)
        line = re.compile(rf"{re.escape(text)}.*:(\d+)\s*\n")
        until(lambda: line.search(self.log()), seconds)
        found = line.search(self.log())
        assert found is not None, f"{self.name} did not print its port: {self.log()[-3000:]}"
        return int(found[1])

    def wait(self, seconds: float = RUN_SECONDS) -> int:
        """Wait for the end of the program, and return its exit status. Then its remaining processes are ended."""
        try:
            status = self._leader.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end in {seconds:g} s: {self.log()[-3000:]}") from None
        self.kill()
        return status

    def kill(self) -> None:
        """Send SIGKILL to the whole session at once. Returns when it is empty. May be called twice."""
        end = time.monotonic() + _END_SECONDS
        while members := self.members():
            assert time.monotonic() < end, f"{self.name}: still there after SIGKILL: {members}"
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._leader.poll()
            time.sleep(0.01)
        self._leader.wait()
        for pipe in (self._leader.stdin, self._leader.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class Driver(Program):
    """A Spark driver that runs `steps` (see driver.py) and answers each."""

    def __init__(
        self,
        steps: Sequence[Mapping[str, Any]],
        folder: Path,
        *,
        name: str = "driver",
        python: str | Path = sys.executable,
        master: str = "local[2]",
        remote: str | None = None,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._answers = folder / f"{name}.answers"
        self._answers.unlink(missing_ok=True)
        order = folder / f"{name}.order"
        order.write_text(
            json.dumps(
                {
                    "master": None if remote else master,
                    "remote": remote,
                    "settings": {"spark.local.dir": str(folder / "local")} | dict(settings or {}),
                    "answers": str(self._answers),
                    "steps": list(steps),
                }
            )
        )
        where = {"PYSPARK_PYTHON": str(python)} | dict(environment or {})
        super().__init__(name, [python, DRIVER, order], folder, where)

    def answers(self, seconds: float = RUN_SECONDS) -> list[Any]:
        """The answers of all steps, when all are done."""
        status = self.wait(seconds)
        assert status == 0, f"{self.name} ended with {status}: {self.log()[-4000:]}"
        return self.answered()

    def task_workers(self) -> list[int]:
        """The Python workers that run its tasks now."""
        return task_workers(self.members())

    def answered(self) -> list[Any]:
        """The answers of the steps that are done so far."""
        text = self._answers.read_text() if self._answers.exists() else ""
        whole, _, _ = text.rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]


def spark_class(name: str, arguments: Sequence[str | Path], folder: Path, memory: str = "256m") -> Program:
    """A process of Spark itself, started by the script of the pip package."""
    found = importlib.util.find_spec("pyspark")  # not imported: that is slow, and unit tests use this module, too
    assert found is not None
    assert found.origin is not None
    home = Path(found.origin).parent
    environment = {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_DAEMON_MEMORY": memory,
        # Only the master's own workers and drivers connect to it.
        "SPARK_DAEMON_JAVA_OPTS": f"{spark_jvm.OPTIONS} -Dspark.master.rest.enabled=false",
        "PYSPARK_PYTHON": sys.executable,
    }
    return Program(name, [home / "bin" / "spark-class", *arguments], folder, environment)


def clean_environment() -> dict[str, str]:
    """Our environment without variables that would point another Spark or Python at this one."""
    strange = ("SPARK_", "PYSPARK_", "PYTHON")
    ours = {name: value for name, value in os.environ.items() if not name.startswith(strange)}
    return ours | spark_jvm.ENVIRONMENT


def session_members(leader: int) -> list[int]:
    """The processes of a session, without zombies."""
    members = []
    for pid in _all_pids():
        try:
            if os.getsid(pid) == leader and not _dead(pid):
                members.append(pid)
        except (ProcessLookupError, PermissionError):
            continue
    return members


def task_workers(pids: Sequence[int]) -> list[int]:
    """The processes that run tasks: PySpark forks them from a daemon. Planners have another kind of process; if one
    dies, Spark restarts the query."""
    asked = ["ps", "-o", "pid=,ppid=,args=", "-p", ",".join(map(str, pids))]
    listed = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=30).stdout
    found = [line.split(maxsplit=2) for line in listed.splitlines()]
    forked = {int(pid): int(parent) for pid, parent, command in found if "pyspark.daemon pyspark.worker" in command}
    return [pid for pid, parent in forked.items() if parent in forked]


def until(condition: Callable[[], object], seconds: float, pause: float = 0.05) -> bool:
    """Wait for the condition. Returns False after the deadline."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True


def _all_pids() -> list[int]:
    if Path("/proc/self").exists():
        return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    listed = subprocess.run(["ps", "-A", "-o", "pid="], capture_output=True, text=True, check=True, timeout=30)
    return [int(word) for word in listed.stdout.split()]


def _dead(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "Z"
