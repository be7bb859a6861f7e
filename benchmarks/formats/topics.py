"""The topics of the format figures, each loaded on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.formats.encodings import (
    avro_values,
    json_values,
    malformed_values,
    protobuf_descriptors,
    protobuf_values,
    write_values,
)
from benchmarks.formats.events import FIELDS, WIDE_FIELDS, Event, Field, count, events, sums, wide_events
from benchmarks.formats.registry import Registry
from benchmarks.run import BenchmarkRun
from benchmarks.topics import BATCH_SIZE, Topic, load

CODEC = "lz4"
PARTITIONS = 4
ROWS = 6_000_000
QUICK_ROWS = 100_000

JSON = "json"
MALFORMED = "json-malformed"
POISONED = "json-poisoned"
WIDE = "json-wide"
AVRO = "avro"
PROTOBUF = "protobuf"

MALFORMED_EVERY = 100
POISONED_EVERY = 1_000_000
QUICK_POISONED_EVERY = 20_000
MALFORMED_DOCUMENTS = 999

FILLER = 44
"""Additional digits in the page of an event for Avro and Protobuf: with them a record has about 100 bytes, too."""


@dataclass(frozen=True, slots=True)
class TypedTopic:
    topic: Topic
    fields: tuple[Field, ...]
    good: Sequence[Event]
    every: int | None = None
    bad: Sequence[Event] = ()

    def ends(self, share: int) -> list[int]:
        """The offset in each partition up to which one record in `share` is read."""
        rows, partitions = self.topic.rows, self.topic.partitions
        return [
            (rows * (number + 1) // partitions - rows * number // partitions) // share for number in range(partitions)
        ]

    def sums(self, share: int) -> dict[str, int]:
        """The sum of each field over the records up to those offsets. Partitions hold the list of events in order."""
        totals = dict.fromkeys((field.name for field in self.fields), 0)
        for rows, sign in self._spans(share):
            for name, amount in sums(self.fields, self.good, rows, self.every, self.bad).items():
                totals[name] += sign * amount
        return totals

    def matching(self, matches: Callable[[Event], bool]) -> TypedTopic:
        """The topic as a reader sees it that drops the other records. Without malformed ones."""
        return replace(self, good=[event if matches(event) else {} for event in self.good])

    def count(self, share: int) -> int:
        """The number of records up to those offsets, without dropped ones."""
        return sum(sign * count(self.good, rows) for rows, sign in self._spans(share))

    def _spans(self, share: int) -> Iterator[tuple[int, int]]:
        """Numbers of records from the topic's first on, and whether to add or to subtract what is computed of them."""
        for number, end in enumerate(self.ends(share)):
            begin = self.topic.rows * number // self.topic.partitions
            yield begin + end, 1
            yield begin, -1


class Topics:
    """Loads topics and keeps them until the end. Starts a registry when a topic needs one."""

    def __init__(self, bench: BenchmarkRun) -> None:
        self._bench = bench
        self._loaded: dict[str, TypedTopic] = {}
        self._stack = ExitStack()
        self._registry: Registry | None = None

    @property
    def registry_url(self) -> str:
        if self._registry is None:
            self._bench.progress("starting the schema registry")
            self._registry = self._stack.enter_context(Registry())
        return self._registry.url

    @property
    def descriptors(self) -> Path:
        """A file with the descriptor set of the Protobuf topic."""
        path = self._bench.scratch / "event.desc"
        path.write_bytes(protobuf_descriptors())
        return path

    def get(self, kind: str) -> TypedTopic:
        if kind not in self._loaded:
            self._loaded[kind] = self._load(kind)
        return self._loaded[kind]

    def _load(self, kind: str) -> TypedTopic:
        name = f"bench-{kind}"
        self._bench.progress(f"encoding the values of {name}")
        fields, good, every = FIELDS, events(), None
        match kind:
            case "json":
                values = json_values(good)
            case "json-malformed":
                values, every = json_values(good), MALFORMED_EVERY
            case "json-poisoned":
                values, every = json_values(good), self._bench.sized(POISONED_EVERY, QUICK_POISONED_EVERY)
            case "json-wide":
                fields, good = WIDE_FIELDS, wide_events()
                values = json_values(good)
            case "avro":
                good = events(FILLER)
                values = avro_values(good, self.registry_url, name)
            case "protobuf":
                good = events(FILLER)
                values = protobuf_values(good, self.descriptors.read_bytes())
            case _:
                raise ValueError(kind)
        files: list[str | Path] = [write_values(self._bench.scratch / f"{kind}.values", values)]
        bad: Sequence[Event] = ()
        if every is not None:
            bad, documents = malformed_values(good[:MALFORMED_DOCUMENTS])
            files += [str(every), write_values(self._bench.scratch / f"{kind}.bad", documents)]
        topic = load(
            self._bench.kafka,
            self._bench.rivals.distribution,
            name,
            CODEC,
            self._bench.sized(ROWS, QUICK_ROWS),
            partitions=PARTITIONS,
            batch_size=BATCH_SIZE,
            say=self._bench.progress,
            values=files,
        )
        self._bench.progress.note(
            f"{name}: {topic.rows / 1e6:g} M records of {topic.bytes / topic.rows:.0f} bytes, "
            f"{len(fields)} fields{f', one in {every:,} malformed' if every else ''}"
        )
        return TypedTopic(topic, fields, good, every, bad)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
        if kind is None:
            for loaded in self._loaded.values():
                self._bench.kafka.delete_topic(loaded.topic.name)
