"""What a producer has written: offsets, and counters."""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN_OFFSET = -1


@dataclass(slots=True)
class WrittenRange:
    """The records of one partition that brokers have acknowledged. Those of other producers may lie between them."""

    first_offset: int = UNKNOWN_OFFSET
    end_offset: int = UNKNOWN_OFFSET
    """The last offset plus one. Offsets are -1 if brokers did not return them: with acks=0."""
    rows: int = 0
    bytes: int = 0
    """As sent: after compression."""

    def add(self, base_offset: int, rows: int, size: int) -> None:
        self.rows += rows
        self.bytes += size
        if base_offset >= 0:
            if self.first_offset < 0 or base_offset < self.first_offset:
                self.first_offset = base_offset
            self.end_offset = max(self.end_offset, base_offset + rows)


@dataclass(slots=True)
class ProducerMetrics:
    """Counters of one producer since it was made."""

    rows: int = 0
    bytes: int = 0
    """As sent: after compression."""
    payload_bytes: int = 0
    """Before compression."""
    requests: int = 0
    retries: int = 0
    """Batches that were sent again."""
    batches_split: int = 0
    """Batches that were too large for their topic."""
    throttle_seconds: float = 0.0
    """Time for which brokers asked this producer to pause, because it exceeded a quota."""
