"""Crashes a Spark driver at a chosen call of the product. Python imports this module by itself when it starts, if its
folder is on PYTHONPATH: in the driver, in the processes that plan and commit, and in the workers.

PENSTOCK_CRASHES has one line for each crash:

    <action> <before|after> <count> <module> <function>

`count`: the calls of that function in all processes together until it happens. `+2` counts from the end of the first
commit on: the first batch may be a replay, which needs fewer calls. Calls run one at a time: after the second of four
parallel requests, the other two are not sent. `action`:

kill    sends SIGKILL to all processes of the session, as in a power cut
fail    raises a BrokerUnavailable

PENSTOCK_CRASH_FOLDER gets a file for each crash: a byte for each counted call, and an `!` when it happens.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

ONE_AT_A_TIME = threading.RLock()
COMMITTED = "committed"


class Crash(NamedTuple):
    action: str
    when: str
    count: str
    module: str
    function: str
    log: Path

    def happen(self) -> None:
        with self.log.open("a") as file:
            file.write("!")
        if self.action == "kill":
            kill_session()
        from penstock.errors import BrokerUnavailable

        raise BrokerUnavailable("a failure on purpose")

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            with ONE_AT_A_TIME:
                now = self._is_due()
                if now and self.when == "before":
                    self.happen()
                result = function(*args, **options)
                if now and self.when == "after":
                    self.happen()
                return result

        return call

    def _is_due(self) -> bool:
        if self.count.startswith("+") and not self.log.with_name(COMMITTED).exists():
            return False
        with self.log.open("a") as file:
            file.write(".")
        return self.log.stat().st_size == int(self.count)

    def install(self, module: ModuleType) -> None:
        *owners, name = self.function.split(".")
        owner: Any = module
        for each in owners:
            owner = getattr(owner, each)
        setattr(owner, name, self.wrap(getattr(owner, name)))


class FirstCommit(Crash):
    """Not a crash: notes that a commit has returned."""

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            result = function(*args, **options)
            self.log.touch()
            return result

        return call


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules to change as the other finders do, and changes them after they are loaded."""

    def __init__(self, crashes: Sequence[Crash]) -> None:
        self._crashes = crashes
        self._modules = {crash.module for crash in crashes}

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in self._modules:
            return None
        self._modules.remove(name)  # so that the call below reaches the other finders
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        load = spec.loader.exec_module

        def load_and_change(module: ModuleType) -> None:
            load(module)
            for crash in self._crashes:
                if crash.module == name:
                    crash.install(module)

        spec.loader.exec_module = load_and_change  # type: ignore[method-assign]
        return spec


def kill_session() -> None:
    """The JVM first: nothing in it may react to the end of the others."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,comm="], capture_output=True, text=True, check=True).stdout
    found = [line.split(None, 1) for line in listed.splitlines()]
    ours = [(int(pid), command) for pid, command in found if session(int(pid)) == os.getsid(0)]
    ours.sort(key=lambda process: (process[0] == os.getpid(), "java" not in process[1]))
    for pid, _ in ours:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def planned() -> list[Crash]:
    folder = Path(os.environ["PENSTOCK_CRASH_FOLDER"])
    folder.mkdir(parents=True, exist_ok=True)
    crashes = []
    for number, line in enumerate(os.environ["PENSTOCK_CRASHES"].splitlines()):
        action, when, count, module, function = line.split()
        crashes.append(Crash(action, when, count, module, function, folder / f"crash-{number}"))
    noted = FirstCommit("note", "after", "1", "penstock.writer.commit", "Committer.commit", folder / COMMITTED)
    return [*crashes, noted]


if "PENSTOCK_CRASHES" in os.environ:
    sys.meta_path.insert(0, Finder(planned()))
