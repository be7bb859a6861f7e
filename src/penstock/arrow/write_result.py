"""What was written: rows, bytes, and the offsets in each partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.model.topic_partition import TopicPartition
from penstock.wire.producer.written import UNKNOWN_OFFSET, WrittenRange

SHOWN = 8
"""Partitions in the repr."""


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """What was written to one partition. Other producers may have written between the two offsets."""

    first_offset: int | None
    """None: the broker did not tell, because of acks=0."""
    last_offset: int | None
    rows: int
    bytes: int
    """The size of the record batches, compressed."""

    def __repr__(self) -> str:
        if self.first_offset is None or self.last_offset is None:
            return f"{self.rows:,} rows"
        return f"{self.rows:,} rows at offsets {self.first_offset:,} to {self.last_offset:,}"


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What was written and acknowledged by the brokers."""

    partitions: Mapping[TopicPartition, PartitionResult] = field(default_factory=dict)
    """By partition, in order."""

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.partitions.values())

    @property
    def bytes(self) -> int:
        """The size of the record batches, compressed."""
        return sum(part.bytes for part in self.partitions.values())

    def __repr__(self) -> str:
        shown = [f"{tp}: {part!r}" for tp, part in list(self.partitions.items())[:SHOWN]]
        if len(self.partitions) > SHOWN:
            shown.append(f"and {len(self.partitions) - SHOWN} more partitions")
        return f"WriteResult({self.rows:,} rows, {self.bytes:,} bytes" + "".join(f"; {each}" for each in shown) + ")"


def merged(before: WriteResult, written: Mapping[TopicPartition, WrittenRange]) -> WriteResult:
    """A result, and what a producer wrote after it."""
    parts = dict(before.partitions)
    for tp, range_ in list(written.items()):  # a copy: another thread may look at metrics while this one writes
        first: int | None = range_.first_offset
        last: int | None = range_.end_offset - 1
        if range_.first_offset == UNKNOWN_OFFSET:
            first = last = None
        rows, size = range_.rows, range_.bytes
        if tp in parts:
            earlier = parts[tp]
            first = first if earlier.first_offset is None else earlier.first_offset
            last = earlier.last_offset if last is None else last
            rows, size = rows + earlier.rows, size + earlier.bytes
        parts[tp] = PartitionResult(first, last, rows, size)
    return WriteResult(dict(sorted(parts.items())))
