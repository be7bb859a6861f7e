"""Progress and summary of commands that write to a topic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from penstock.cli import table
from penstock.cli.output import counted, number_or_dash
from penstock.progress import Progress

if TYPE_CHECKING:
    from penstock.arrow.write_result import WriteResult

PAUSE = 0.2


class Transfer:
    """Counts records, and shows their number on standard error."""

    def __init__(self) -> None:
        self.rows = 0
        self._began = self._due = time.monotonic()
        self._progress = Progress()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def count(self, rows: int, share: float | None = None) -> None:
        """`share`: how much of the input has been read, from 0 to 1."""
        self.rows += rows
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + PAUSE
        done = "" if share is None else f", {min(share, 1):.0%}"
        rate = self.rows / max(now - self._began, 0.001)
        self._progress.show(f"{self.rows:,} records{done}, {rate:,.0f} per second")

    def __enter__(self) -> Self:
        self._progress.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._progress.__exit__(*error)


def summary(result: WriteResult, topic: str, seconds: float) -> str:
    """One line: records, bytes and time."""
    return f"{counted(result.rows, 'record')} ({size(result.bytes)}) to {topic} in {seconds:.1f} s"


def partition_lines(result: WriteResult) -> Iterator[str]:
    """A table of what was written to each partition."""
    rows = [
        (f"{tp}", number_or_dash(part.first_offset), number_or_dash(part.last_offset), f"{part.rows:,}")
        for tp, part in result.partitions.items()
    ]
    names = ("PARTITION", "FIRST OFFSET", "LAST OFFSET", "RECORDS")
    return table.shown(names, rows, right=names[1:])


def size(count: int) -> str:
    """98 bytes, 1.5 MB."""
    units = ("bytes", "kB", "MB", "GB", "TB")
    number, at = float(count), 0
    while number >= 1000 and at < len(units) - 1:
        number, at = number / 1000, at + 1
    return f"{count:,} bytes" if at == 0 else f"{number:.1f} {units[at]}"
