"""The parts of a benchmark run that all figures share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from benchmarks.measurement import WARM_SECONDS, warm
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

    def warm(self, label: str, run: Callable[[], float]) -> None:
        """Call `run`, which returns its seconds, until its side is warm. A quick run calls it once."""
        self.progress(f"{label}: warming")
        warm(run, self.warm_seconds)

    @property
    def warm_seconds(self) -> float:
        return 0.0 if self.quick else WARM_SECONDS
