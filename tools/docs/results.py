"""Recorded benchmark runs: benchmarks/results/*.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
FILES = {
    "speed": "reads",
    "memory": "memory",
    "streams": "streams",
    "stream_memory": "streams",
    "consumers": "consumer",
    "formats": "formats",
    "event_time": "event-time",
    "write": "write",
    "search": "search",
    "streamer": "streamer-delta",
    "sail": "sail",
    "scale": "scale",
}
"""A part of the benchmark, and the file with its results."""


@dataclass(frozen=True, slots=True)
class Run:
    """One recorded run, or the part of it that a table shows."""

    file: str
    data: dict[str, Any]
    part: str

    @property
    def date(self) -> str:
        return str(self.data["date"])[:10]

    @property
    def setting(self) -> dict[str, Any]:
        setting: dict[str, Any] = self.data["setting"]
        return setting

    @property
    def measured(self) -> list[dict[str, Any]]:
        measured: list[dict[str, Any]] = self.data.get(self.part, [])
        return measured

    def value(self, figure: str, case: str, side: str) -> float | None:
        """The median over all rounds."""
        one = self._find(figure, case, side)
        return None if one is None else one["median"]

    def recorded(self, figure: str, case: str, side: str, name: str) -> float | None:
        """The median of a figure that was recorded beside the measured one."""
        one = self._find(figure, case, side)
        values = [extra[name] for extra in one["extra"] if name in extra] if one else []
        return median(values) if values else None

    def rounds(self, figure: str, case: str, side: str) -> int:
        one = self._find(figure, case, side)
        return len(one["rounds"]) if one else 0

    def _find(self, figure: str, case: str, side: str) -> dict[str, Any] | None:
        key = (figure, case, side)
        return next((one for one in self.measured if (one["figure"], one["case"], one["side"]) == key), None)


@cache
def run_of(part: str) -> Run:
    """The recorded run of a part."""
    return Run(FILES[part], _read(FILES[part]), part)


def all_runs() -> Iterator[Run]:
    """Every recorded run, each once."""
    runs = {file: run_of(part) for part, file in reversed(FILES.items())}
    return (run for run in reversed(runs.values()) if run.data)


def _read(name: str) -> dict[str, Any]:
    """The content of a file of results; empty if that part was never recorded."""
    path = FOLDER / f"{name}.json"
    data: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return data
