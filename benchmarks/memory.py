"""Peak memory of a worker that reads a large partition, and whether it grows with the size of the partition.

One partition is loaded. A quarter, a half and all of it are read, each by a new process, because a peak never falls.
The reader is once a Spark worker, seen from outside, and once the same read path in plain Python.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks.processes import ReaderProcess
from benchmarks.progress import Progress
from benchmarks.speed import PROGRAMS
from benchmarks.topics import Topic

SHARES = (0.25, 0.5, 1.0)
PARTITION_BYTES = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Peak:
    where: str
    codec: str
    partition_mb: float
    idle_mb: float
    peak_mb: float

    @property
    def over_idle_mb(self) -> float:
        return self.peak_mb - self.idle_mb

    def as_json(self) -> dict[str, Any]:
        numbers = {key: round(value, 1) if isinstance(value, float) else value for key, value in asdict(self).items()}
        return {**numbers, "over_idle_mb": round(self.over_idle_mb, 1)}

    @classmethod
    def from_json(cls, one: Mapping[str, Any]) -> Peak:
        return cls(**{each.name: one[each.name] for each in fields(cls)})


def measure(topic: Topic, bootstrap: str, progress: Progress) -> list[Peak]:
    peaks = []
    programs: dict[str, list[str | Path]] = {
        "Spark worker": [sys.executable, PROGRAMS / "spark_read.py", "penstock", "1"],
        "plain Python": [sys.executable, PROGRAMS / "plain_penstock.py"],
    }
    for where, command in programs.items():
        for share in SHARES:
            rows = round(topic.rows * share)
            size = topic.bytes * share / 1e6
            progress(f"{topic.codec}: memory of a {where} over {size:.0f} MB")
            options = {"subscribe": topic.name, "endingOffsets": json.dumps({topic.name: {"0": rows}})}
            request = {"do": "memory", "bootstrap": bootstrap, "rows": rows, "options": options, "ahead": True}
            with ReaderProcess(where, command) as reader:
                answer = reader.ask(request)
            peak = Peak(where, topic.codec, size, answer["idle_mb"], answer["peak_mb"])
            progress.note(f"{topic.codec}: {where} over {size:.0f} MB: {peak.over_idle_mb:.0f} MB more than idle")
            peaks.append(peak)
    return peaks
