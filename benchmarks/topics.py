"""The records that everybody reads: loaded per codec by a Java producer with its default batch size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import ContestantFailed, Process
from penstock.testing import Distribution, EmbeddedKafka

LOADER = Path(__file__).parent / "contestants" / "Load.java"
BATCH_SIZE = 16_384
"""Kafka's default. Of 128 KB, measured: Penstock needs as much processor time uncompressed, 5% less with zstd."""

RECORD_BYTES = 101.83
"""Key and value of an average record that Load.java makes."""


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    codec: str
    partitions: int
    rows: int
    bytes: int
    """Of keys and values: what a contestant must have seen to have read everything."""


@dataclass(frozen=True, slots=True)
class Times:
    """Timestamps of a topic's records, in milliseconds: a partition's rise evenly over `span`."""

    first: int
    """Of partition 0."""
    span: int
    apart: int = 0
    """How much later each partition begins than the one before it."""

    def at(self, partition: int, offset: int, records: int) -> int:
        """The timestamp of a record, of so many in its partition."""
        return self.first + partition * self.apart + offset * self.span // records

    def settings(self) -> list[str]:
        return [f"-Dfirst.time={self.first}", f"-Dspan.ms={self.span}", f"-Dapart.ms={self.apart}"]


def load(
    kafka: EmbeddedKafka,
    distribution: Distribution,
    name: str,
    codec: str,
    rows: int,
    *,
    partitions: int,
    batch_size: int,
    say: Callable[[str], None],
    values: Sequence[str | Path] = (),
    times: Times | None = None,
    configs: Mapping[str, object] | None = None,
) -> Topic:
    """Load.java's own events, or what it is told of files of `values`."""
    # The events' times lie in the past, and compressed topics must not be recompressed by the broker.
    kafka.create_topic(
        name, partitions, configs={"retention.ms": -1, "compression.type": "producer", **(configs or {})}
    )
    command: list[str | Path] = [distribution.java, "-Xmx1g", *(times.settings() if times else ())]
    command += ["-cp", distribution.classpath(), LOADER]
    command += [kafka.bootstrap_servers, name, str(partitions), str(rows), codec, str(batch_size), *values]
    size = None
    with Process(f"loading {name}", command) as loader:
        while (line := loader.hear()) is not None:
            if line.startswith("bytes "):
                size = int(line.removeprefix("bytes "))
            elif line.isdigit():
                say(f"loading {name}: {int(line) / 1e6:.1f} of {rows / 1e6:.1f} M records")
    if size is None:
        raise ContestantFailed(f"loading {name} ended without a word")
    return Topic(name, codec, partitions, rows, size)
