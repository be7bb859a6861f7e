"""Memory of processes as Linux counts it, in MB of 10^6 bytes. Standard library only."""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc")


def resident_mb(pid: int | str = "self") -> float:
    return _status(pid, "VmRSS")


def peak_mb(pid: int | str = "self") -> float:
    """The most that was ever resident. From /proc and not getrusage: that one counts the parent's pages from before
    the exec."""
    return _status(pid, "VmHWM")


def descendants(pid: int) -> list[int]:
    """All living processes below this one."""
    children: dict[int, list[int]] = {}
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            try:
                # The name in parentheses may hold anything; the parent is the second field after it.
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    found, to_visit = [], [pid]
    while to_visit:
        below = children.get(to_visit.pop(), [])
        found += below
        to_visit += below
    return found


def command_line(pid: int) -> str:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _status(pid: int | str, name: str) -> float:
    for line in (PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0
