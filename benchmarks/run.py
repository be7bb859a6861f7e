"""The parts of a benchmark run that all figures share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from benchmarks.progress import Progress
from benchmarks.speed import Rivals
from penstock.testing import EmbeddedKafka


@dataclass(frozen=True, slots=True)
class BenchmarkRun:
    """One run: the broker, the environments of the rivals, the sides to compare, and the number of rounds."""

    kafka: EmbeddedKafka
    rivals: Rivals
    sides: Sequence[str]
    rounds: int
    quick: bool
    scratch: Path
    progress: Progress
    _numbers: Iterator[int] = field(default_factory=count)

    def checkpoint(self) -> str:
        """A new checkpoint folder, so that the query begins at its starting offsets."""
        return str(self.scratch / f"checkpoint-{next(self._numbers)}")

    def sized(self, whole: int, quick: int) -> int:
        return quick if self.quick else whole
