"""What a task of the sink reports to the driver. Crosses processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.model.topic_partition import TopicPartition
from penstock.wire.producer.transactions import OpenTransaction
from penstock.wire.producer.written import ProducerMetrics, WrittenRange
from penstock.writer.note import Content, Note


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The result of one task: the rows that it got, and how far they are written."""

    task: int
    content: Content
    transaction: OpenTransaction | None = None
    """Holds the rows, and waits for the driver. None: at least once, no rows, or `note` is set."""
    note: Note | None = None
    """The note of an earlier attempt that names this batch or a later one: this task has written nothing."""
    written: Mapping[TopicPartition, WrittenRange] = field(default_factory=dict)
    metrics: ProducerMetrics = field(default_factory=ProducerMetrics)
    dropped: int = 0
    """Rows that could not be encoded and were not written."""
    dead_letters: int = 0
