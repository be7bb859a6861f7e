"""Memory (in MB of 10^6 bytes) and CPU time of processes, from Linux. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")


def resident_mb(pid: int | str = "self") -> float:
    return _status(pid, "VmRSS")


def peak_mb(pid: int | str = "self") -> float:
    """The peak resident size. From /proc, not getrusage, which includes the parent's pages from before the exec."""
    return _status(pid, "VmHWM")


def processor_seconds(pid: int) -> float:
    """CPU time of a process so far, with its children that ended and were waited for."""
    return sum(int(ticks) for ticks in _stat(pid)[11:15]) / os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> list[int]:
    """All running processes below this one."""
    children: dict[int, list[int]] = {}
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            try:
                parent = int(_stat(int(folder.name))[1])
            except OSError:
                continue  # the process has just ended
            children.setdefault(parent, []).append(int(folder.name))
    found, to_visit = [], [pid]
    while to_visit:
        below = children.get(to_visit.pop(), [])
        found += below
        to_visit += below
    return found


def python_workers() -> list[int]:
    """The workers below this process that run tasks: Spark's daemon forks them, so they have its command line."""
    workers = {child for pid in spark_daemons() for child in descendants(pid)}
    return sorted(workers)


def spark_daemons() -> list[int]:
    below = descendants(os.getpid())
    daemons = [pid for pid in below if "pyspark.daemon" in command_line(pid)]
    forked = {child for pid in daemons for child in descendants(pid)}
    return [pid for pid in daemons if pid not in forked]


def command_line(pid: int) -> str:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _stat(pid: int) -> list[str]:
    """The fields of `stat` from the third on: the second, a name in parentheses, may contain anything."""
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _status(pid: int | str, name: str) -> float:
    for line in (PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0
