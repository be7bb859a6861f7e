"""The names of the stream figures, and the memory of a process during a long query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MICRO_BATCH = "stream-micro-batch"
STEADY_MICRO_BATCH = "stream-micro-batch-steady"
MICRO_BATCH_TASKS, STEADY_MICRO_BATCH_TASKS = f"{MICRO_BATCH}-tasks", f"{STEADY_MICRO_BATCH}-tasks"
"""Spark's `addBatch`: the tasks and the sink. The other three are measured together with MICRO_BATCH."""

CATCH_UP = "stream-catch-up"
PLANNING = "stream-planning"
IDLE = "stream-idle"
STEADINESS = "stream-memory"
YAHOO = "stream-yahoo"
FIGURES = (CATCH_UP, YAHOO, MICRO_BATCH, IDLE, STEADINESS, PLANNING)


@dataclass(frozen=True, slots=True)
class Growth:
    """Memory of one process at the first and at the last triggers of a long query."""

    what: str
    first_mb: float
    last_mb: float
    series_mb: list[float]

    @property
    def ratio(self) -> float:
        return self.last_mb / self.first_mb

    def as_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "first_mb": round(self.first_mb, 1),
            "last_mb": round(self.last_mb, 1),
            "ratio": round(self.ratio, 3),
            "series_mb": [round(value, 1) for value in self.series_mb],
        }

    @classmethod
    def from_json(cls, one: Mapping[str, Any]) -> Growth:
        return cls(one["what"], one["first_mb"], one["last_mb"], one["series_mb"])
