"""A simulated cluster in a process of its own: its work is not that of the measured program."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"


class MonitoredCluster:
    """Topics, partitions and groups without records. Any thread may call it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self._lock = threading.Lock()
        self.bootstrap = self._out.readline().strip()

    def advance(self) -> Counter[str]:
        """Ten records in each partition, which its groups commit. Returns the requests so far, by name."""
        with self._lock:
            self._in.write("advance\n")
            self._in.flush()
            return Counter(ast.literal_eval(self._out.readline().split(" ", 1)[1]))


@contextmanager
def monitored_cluster(topics: int, partitions: int, groups: int) -> Iterator[MonitoredCluster]:
    command = [sys.executable, "-m", "support.simulated_cluster", *map(str, (topics, partitions, groups))]
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield MonitoredCluster(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()  # ends it
