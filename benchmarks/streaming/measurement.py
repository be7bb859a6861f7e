"""What one side made of one case of a stream figure."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any

MICRO_BATCH = "stream-micro-batch"
CATCH_UP = "stream-catch-up"
PLANNING = "stream-planning"
IDLE = "stream-idle"
STEADINESS = "stream-memory"
FIGURES = (CATCH_UP, MICRO_BATCH, IDLE, STEADINESS, PLANNING)


@dataclass(frozen=True, slots=True)
class Measurement:
    figure: str
    case: str
    side: str
    unit: str
    rounds: list[float] = field(default_factory=list)
    """One value per round; of many triggers, their median."""
    extra: list[dict[str, Any]] = field(default_factory=list)

    @property
    def value(self) -> float:
        return median(self.rounds)

    def as_json(self) -> dict[str, Any]:
        return {
            "figure": self.figure,
            "case": self.case,
            "side": self.side,
            "unit": self.unit,
            "median": round(self.value, 4),
            "rounds": [round(value, 4) for value in self.rounds],
            "extra": self.extra,
        }


@dataclass(frozen=True, slots=True)
class Growth:
    """What one process held at the first triggers of a long query and at the last."""

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
