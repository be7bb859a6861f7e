"""Typed batches of a stream: what its partitions' batches are made into, in the reader's own thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from penstock._kernel import Batch
from penstock.consumer.fetch.cursor import Cursor
from penstock.dead_letters.letter import TopicWriter, fault_letters
from penstock.formats.plan import TypedPlan
from penstock.formats.typed import TypedColumns
from penstock.model.topic_partition import TopicPartition
from penstock.wire.client_config import ClientConfig


class TypedBatches:
    """One iteration over typed batches. For one thread."""

    def __init__(
        self, plan: TypedPlan, client: ClientConfig, group: str, on_made: Callable[[int, int, int], None]
    ) -> None:
        self._on_made = on_made
        self._plan = plan
        self._client = client
        self._group = group
        self.columns = (*plan.fetched, *(() if "offset" in plan.fetched else ("offset",)))
        """Kafka's columns to decode for this. Offsets say where to go on if a batch is handed out in pieces."""
        self._partitions: dict[Cursor, TypedColumns] = {}
        self.ended_at: int | None = None
        """The offset of the record by which a user's own class has ended the stream (F4)."""
        self.next_offset: int | None = None
        """Where the rest of the batch begins that was made last, if it is not whole."""

    def make(self, cursor: Cursor, batch: Batch) -> pa.RecordBatch:
        """The typed rows of a batch, maybe none; or the first of them, if all would take too much memory: then
        `next_offset` says where the rest begins. Raises MalformedRecord, and what a registry answers."""
        columns = self._partitions.get(cursor)
        if columns is None:
            for gone in [each for each in self._partitions if each.released]:
                del self._partitions[gone]
            columns = self._partitions[cursor] = TypedColumns(self._plan, *cursor.tp, self._letters(cursor.tp))
        before = columns.malformed, columns.dropped, columns.skipped
        try:
            made, self.next_offset = next(columns.pieces(pa.record_batch(batch)))
        finally:
            after = columns.malformed, columns.dropped, columns.skipped
            if after != before:
                self._on_made(after[0] - before[0], after[1] - before[1], after[2] - before[2])
        self.ended_at = columns.ended_at if self.next_offset is None else None
        return made

    def _letters(self, tp: TopicPartition) -> _Letters | None:
        topic = self._plan.dead_letter_topic
        return None if topic is None else _Letters(TopicWriter(self._client, topic, self._group), tp)


class _Letters:
    """Letters that are written before the batch they come from is handed out: at least once."""

    def __init__(self, writer: TopicWriter, tp: TopicPartition) -> None:
        self._writer = writer
        self._tp = tp

    def add(self, records: pa.RecordBatch, faults: Sequence[tuple[int, str, str]]) -> None:
        try:
            self._writer.write(list(fault_letters(self._tp, records, faults)))
        finally:
            self._writer.close()  # faults are rare, and nobody tells us when the stream is done with
