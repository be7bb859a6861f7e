"""The metrics of one partition, as the source and the consumer report them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.metrics.families import (
    COMMITTED_OFFSET,
    CURRENT_OFFSET,
    LATEST_OFFSET,
    PARTITION_HELD,
    PARTITION_IDLE,
    PARTITION_WATERMARK,
    RECORDS_LAG,
)
from penstock.metrics.metric import Sample, samples_of, seconds

PARTITION_FAMILIES = (
    RECORDS_LAG,
    CURRENT_OFFSET,
    LATEST_OFFSET,
    COMMITTED_OFFSET,
    PARTITION_WATERMARK,
    PARTITION_IDLE,
    PARTITION_HELD,
)


@dataclass(frozen=True, slots=True)
class PartitionMetrics:
    """One partition at one moment. Unknown values are None."""

    topic: str
    partition: int
    current_offset: int | None = None
    """The offset of the next record to read."""
    latest_offset: int | None = None
    """Where the readable log ends: the high watermark, or the last stable offset under read_committed."""
    committed_offset: int | None = None
    watermark: int | None = None
    """The event-time watermark, in milliseconds since 1970."""
    idle: bool | None = None
    """Whether it has had no records for so long that it does not hold back others; None without event time."""
    held: bool | None = None
    """Whether it is held back, because it is too far ahead of others; None without event time."""
    thread_id: str | None = None
    """The consumer's stream that reads it; None in a Spark source."""

    @property
    def lag(self) -> int | None:
        """Records between the position and the end of the log. Never below 0 (H11): the end may be older than the
        position."""
        if self.current_offset is None or self.latest_offset is None:
            return None
        return max(0, self.latest_offset - self.current_offset)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    def samples(self) -> Iterator[Sample]:
        values = (
            self.lag,
            self.current_offset,
            self.latest_offset,
            self.committed_offset,
            seconds(self.watermark),
            self.idle,
            self.held,
        )
        return samples_of(zip(PARTITION_FAMILIES, values, strict=True), (self.topic, str(self.partition)))


def total_lag(partitions: Sequence[PartitionMetrics]) -> int | None:
    """The lag over all partitions whose end is known; None if none is known."""
    known = [lag for partition in partitions if (lag := partition.lag) is not None]
    return sum(known) if known or not partitions else None
