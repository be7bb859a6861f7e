"""One line of the report: a measured value and its target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    figure: str
    codec: str
    value: float
    target: str
    reached: bool
    unit: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "figure": self.figure,
            "codec": self.codec,
            "value": round(self.value, 3),
            "target": self.target,
            "reached": self.reached,
        }
