"""Loads the topics that all readers read: one per codec, written by a Java producer with its default batch size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import Process, ReaderFailed
from penstock.testing import Distribution, EmbeddedKafka

LOADER = Path(__file__).parent / "programs" / "Load.java"
BATCH_SIZE = 16_384
"""Kafka's default. Measured with 128 KB: Penstock takes the same CPU time uncompressed, and 5% less with zstd."""

RECORD_BYTES = 101.83
"""Average size of key and value of the records that Load.java writes."""


KEY_BYTES = 8
"""Key size of every record that Load.java writes."""


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    codec: str
    partitions: int
    rows: int
    bytes: int
    """Total size of keys and values. A reader must report the same number."""


@dataclass(frozen=True, slots=True)
class Times:
    """Timestamps of a topic's records, in milliseconds. Within a partition they rise evenly over `span`."""

    first: int
    """First timestamp of partition 0."""
    span: int
    apart: int = 0
    """Difference between the first timestamps of two neighbouring partitions."""

    def at(self, partition: int, offset: int, records: int) -> int:
        """The timestamp of a record. `records` is the number of records in its partition."""
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
    """Load a topic with Load.java: its own events, or the values of files (`values` are arguments of Load.java)."""
    # The timestamps lie in the past, and the broker must not recompress the records.
    kafka.create_topic(
        name, partitions, configs={"retention.ms": -1, "compression.type": "producer", **(configs or {})}
    )
    command: list[str | Path] = [distribution.java, "-Xmx1g", *(times.settings() if times else ())]
    command += ["-cp", distribution.classpath(), LOADER]
    command += [kafka.bootstrap_servers, name, str(partitions), str(rows), codec, str(batch_size), *values]
    size = None
    with Process(f"loading {name}", command) as loader:
        while (line := loader.read_line()) is not None:
            if line.startswith("bytes "):
                size = int(line.removeprefix("bytes "))
            elif line.isdigit():
                say(f"loading {name}: {int(line) / 1e6:.1f} of {rows / 1e6:.1f} M records")
    if size is None:
        raise ReaderFailed(f"loading {name} ended without the number of bytes")
    return Topic(name, codec, partitions, rows, size)
