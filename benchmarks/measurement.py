"""The values that one side reached in one case of a figure, one per round, and how a side is warmed before that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

WARM_SECONDS = 10.0
"""Each side is warmed at least this long, whatever the number of runs. With equal numbers of runs the faster side has
the colder JVM: after a few seconds of typed reads, its compiler took 10% to 17% of both cores (perf)."""


def warm(run: Callable[[], float], seconds: float = WARM_SECONDS) -> None:
    """Call `run`, which returns its seconds, until they add up to so many: at least once."""
    spent = run()
    while spent < seconds:
        spent += run()


@dataclass(frozen=True, slots=True)
class Measurement:
    figure: str
    case: str
    side: str
    unit: str
    rounds: list[float] = field(default_factory=list)
    """One value per round. If a round has many triggers or records: their median or percentile."""
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

    @classmethod
    def from_json(cls, one: Mapping[str, Any]) -> Measurement:
        return cls(one["figure"], one["case"], one["side"], one["unit"], one["rounds"], one["extra"])
