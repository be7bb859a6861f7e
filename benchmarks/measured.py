"""All that a run has measured, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from benchmarks.measurement import Measurement
from benchmarks.memory import Peak
from benchmarks.speed import Result
from benchmarks.streaming.measurement import Growth


@dataclass(slots=True)
class Measured:
    """The names of the parts are those in the files of results."""

    speed: list[Result] = field(default_factory=list)
    memory: list[Peak] = field(default_factory=list)
    streams: list[Measurement] = field(default_factory=list)
    stream_memory: list[Growth] = field(default_factory=list)
    consumers: list[Measurement] = field(default_factory=list)
    formats: list[Measurement] = field(default_factory=list)
    event_time: list[Measurement] = field(default_factory=list)
    write: list[Measurement] = field(default_factory=list)
    search: list[Measurement] = field(default_factory=list)
    streamer: list[Measurement] = field(default_factory=list)
    sail: list[Measurement] = field(default_factory=list)
    scale: list[Measurement] = field(default_factory=list)

    def as_json(self, parts: Iterable[str]) -> dict[str, list[Any]]:
        return {part: [one.as_json() for one in getattr(self, part)] for part in parts}

    @classmethod
    def from_json(cls, parts: Mapping[str, Iterable[dict[str, Any]]]) -> Measured:
        kinds: dict[str, Any] = {"speed": Result, "memory": Peak, "stream_memory": Growth}
        named = {each.name: kinds.get(each.name, Measurement) for each in fields(cls)}
        return cls(**{part: [named[part].from_json(one) for one in found] for part, found in parts.items()})
