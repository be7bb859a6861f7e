"""Where the figures that are taken in rounds are taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from benchmarks.progress import Progress
from benchmarks.speed import Rivals
from penstock.testing import EmbeddedKafka


@dataclass(frozen=True, slots=True)
class Arena:
    """What every figure that is taken in rounds needs: the broker, the rivals, who takes part, and how much of it."""

    kafka: EmbeddedKafka
    rivals: Rivals
    sides: Sequence[str]
    rounds: int
    quick: bool
    scratch: Path
    progress: Progress
    _numbers: Iterator[int] = field(default_factory=count)

    def checkpoint(self) -> str:
        """A new folder: a query that finds no checkpoint begins where its options say."""
        return str(self.scratch / f"checkpoint-{next(self._numbers)}")

    def sized(self, whole: int, quick: int) -> int:
        return quick if self.quick else whole
