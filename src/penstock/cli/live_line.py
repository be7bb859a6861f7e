"""The status line of a running stream: overwritten on a terminal, a new line every few seconds elsewhere."""

from __future__ import annotations

import shutil
import time
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

from penstock.cli import table
from penstock.progress import can_move

if TYPE_CHECKING:
    from penstock.streamer.counters import StreamerMetrics

MOVING_SECONDS = 0.5
PLAIN_SECONDS = 5.0
"""For output that is not a terminal, such as a log file."""


class LiveLine:
    def __init__(self, out: IO[str], group: str, *, quiet: bool = False) -> None:
        self._out = out
        self._group = group
        self._quiet = quiet
        self._moves = can_move(out)
        self._pause = MOVING_SECONDS if self._moves else PLAIN_SECONDS
        self._at = time.monotonic()
        self._records = 0

    def show(self, metrics: StreamerMetrics) -> None:
        """Show the status if the pause since the last one is over."""
        now = time.monotonic()
        if self._quiet or now - self._at < self._pause:
            return
        rate = (metrics.records - self._records) / (now - self._at)
        self._at, self._records = now, metrics.records
        text = status(metrics, rate, self._group)
        if self._moves:
            width = shutil.get_terminal_size().columns
            [text] = table.lines([text], [], width=width)
        self._out.write(f"\r\x1b[K{text}" if self._moves else f"{text}\n")
        self._out.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._moves and not self._quiet:
            self._out.write("\r\x1b[K")
            self._out.flush()


def status(metrics: StreamerMetrics, rate: float, group: str) -> str:
    """One line. The group comes last: a narrow terminal cuts it off first."""
    lag = "unknown" if metrics.lag is None else f"{metrics.lag:,}"
    parts = [
        f"read {metrics.records:,} ({rate:,.0f} per second)",
        f"written {metrics.rows:,}",
        f"committed {metrics.committed:,}",
        f"lag {lag}",
    ]
    if metrics.failed:
        parts.append(f"{metrics.failed:,} failed")
    if metrics.retries:
        parts.append(f"{metrics.retries:,} retries")
    if metrics.next_flush is not None:
        parts.append(f"next flush in {metrics.next_flush:.0f} s")
    return ", ".join([*parts, f"group {group}"])


def summary(metrics: StreamerMetrics, topic: str, target: str, seconds: float) -> str:
    text = f"{metrics.records:,} records of {topic} in {seconds:.1f} s, {metrics.rows:,} rows to {target}"
    if metrics.failed:
        text += f"; {metrics.failed:,} failed"
        text += f", {metrics.dead_lettered:,} of them dead-lettered" if metrics.dead_lettered else " and were skipped"
    return text
