"""Encoded batches by kafka-python: what the kernel's encoder makes, for tests of the producer alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from kafka.record.default_records import DefaultRecordBatchBuilder


@dataclass(frozen=True)
class FakeBatch:
    """The attributes of an EncodedBatch."""

    topic: str
    partition: int
    values: tuple[bytes, ...]
    base_sequence: int
    first_row: int
    producer: tuple[int, int, bool]
    timestamp: int = 1_700_000_000_000

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def last_row(self) -> int:
        return self.first_row + len(self.values) - 1

    @property
    def payload_bytes(self) -> int:
        return sum(map(len, self.values))

    @property
    def data(self) -> bytes:
        producer_id, epoch, transactional = self.producer
        builder = DefaultRecordBatchBuilder(2, 0, transactional, producer_id, epoch, self.base_sequence, 1 << 30)
        for at, value in enumerate(self.values):
            builder.append(at, self.timestamp, None, value, [])
        return bytes(builder.build())

    def split(self) -> tuple[FakeBatch, FakeBatch]:
        if len(self.values) < 2:
            raise ValueError("one record")
        middle = len(self.values) // 2
        second = self.base_sequence if self.base_sequence < 0 else self.base_sequence + middle
        return (
            FakeBatch(
                self.topic, self.partition, self.values[:middle], self.base_sequence, self.first_row, self.producer
            ),
            FakeBatch(self.topic, self.partition, self.values[middle:], second, self.first_row + middle, self.producer),
        )

    def first_key(self) -> bytes | None:
        return None


@dataclass
class FakeEncoder:
    """Numbers the records of each partition, like the kernel's Encoder."""

    producer: tuple[int, int, bool] = (-1, -1, False)
    rows: int = 0
    _sequences: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))

    def set_producer(self, producer_id: int, epoch: int, transactional: bool) -> None:
        self.producer = (producer_id, epoch, transactional)
        self._sequences.clear()

    def batch(self, topic: str, partition: int, values: Sequence[bytes], **more: int) -> FakeBatch:
        sequence = -1 if self.producer[0] < 0 else self._sequences[topic, partition]
        made = FakeBatch(topic, partition, tuple(values), sequence, self.rows, self.producer, **more)
        self._sequences[topic, partition] += len(values)
        self.rows += len(values)
        return made


def encoded(values: Sequence[bytes], timestamps: Sequence[int], producer: tuple[int, int] | None = None) -> bytes:
    """One record batch; with a producer, of a transaction."""
    producer_id, epoch = producer or (-1, -1)
    builder = DefaultRecordBatchBuilder(2, 0, producer is not None, producer_id, epoch, 0, 1 << 30)
    for at, (value, timestamp) in enumerate(zip(values, timestamps, strict=True)):
        builder.append(at, timestamp, None, value, [])
    return bytes(builder.build())
