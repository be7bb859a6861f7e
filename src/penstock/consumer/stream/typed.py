"""Typed batches of a stream: converts the batches of each partition, and writes their dead letters."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa

from penstock._kernel import Batch
from penstock.consumer.fetch.chunk import Chunk
from penstock.consumer.stream.chunk_reader import ChunkReader
from penstock.consumer.stream.decoders import ReadPartition
from penstock.dead_letters.letter import fault_letters
from penstock.dead_letters.letter_writer import TopicWriter
from penstock.formats.plan import TypedPlan, TypedSource
from penstock.formats.typed import TypedColumns
from penstock.model.expression import Where
from penstock.model.topic_partition import TopicPartition
from penstock.wire.client_config import ClientConfig

Converted: TypeAlias = Callable[[int, int, int, int, int], None]
"""Counts records that were malformed, dropped and skipped; that `where` was applied to; and that met it."""


class TypedFormats:
    """The connector's formats, as its streams use them. Every method may be called by any thread."""

    def __init__(self, source: TypedSource, client: ClientConfig, group: str, on_converted: Converted) -> None:
        self.source = source
        self._predicates: dict[str, Where | None] = {}
        self._client = client
        self._group = group
        self._on_converted = on_converted

    def batches(self, columns: Sequence[str] | None, where: str | None = None) -> TypedBatches:
        """Start an iteration over typed batches with the selected columns; None selects all. `where`: the predicate
        that rows must meet."""
        return self.batches_of(self.source.select(columns, where=self.parse_where(where)))

    def parse_where(self, text: str | None) -> Where | None:
        """A predicate. It is parsed once: a Streamer starts an iteration whenever the one before has timed out."""
        if text is not None and text not in self._predicates:
            self._predicates[text] = self.source.parse_where(text)
        return None if text is None else self._predicates[text]

    def batches_of(self, plan: TypedPlan, *, marks_rows: bool = False) -> TypedBatches:
        return TypedBatches(plan, self._client, self._group, self._on_converted, marks_rows=marks_rows)


class TypedBatches:
    """One iteration over typed batches. For one thread."""

    def __init__(
        self, plan: TypedPlan, client: ClientConfig, group: str, on_converted: Converted, *, marks_rows: bool = False
    ) -> None:
        """`marks_rows`: see TypedColumns."""
        self._plan = plan
        self._marks_rows = marks_rows
        self._client = client
        self._group = group
        self._on_converted = on_converted
        self.columns = (*plan.fetched, *(() if "offset" in plan.fetched else ("offset",)))
        """Kafka's columns to decode. Offsets say where to continue if a batch is handed out in parts."""
        self._partitions: dict[ReadPartition, TypedColumns] = {}
        self.ended_at: int | None = None
        """The offset of the record at which the user's deserializer ended the stream (F4)."""
        self.next_offset: int | None = None
        """Where the rest of the last batch begins, if only its first part was converted."""

    def convert(self, cursor: ReadPartition, batch: Batch) -> pa.RecordBatch:
        """The typed rows of a batch, maybe none. Raises MalformedRecord, and errors of the schema registry.

        If all rows would take too much memory, returns the first part: then `next_offset` says where the rest begins.
        """
        columns = self._partitions.get(cursor)
        if columns is None:
            for gone in [each for each in self._partitions if each.revoked]:
                self._partitions.pop(gone).close()
            letters = self._letters(cursor.tp)
            columns = TypedColumns(self._plan, *cursor.tp, letters, marks_rows=self._marks_rows)
            self._partitions[cursor] = columns
        before = columns.counts
        try:
            made, self.next_offset = next(columns.pieces(pa.record_batch(batch)))
        finally:
            if (after := columns.counts) != before:
                malformed, dropped, skipped, read, passed = map(operator.sub, after, before)
                self._on_converted(malformed, dropped, skipped, read, passed)
        self.ended_at = columns.ended_at if self.next_offset is None else None
        return made

    def close(self) -> None:
        """The iteration has ended. Called by its thread; another `convert` opens the user's classes again."""
        while self._partitions:
            self._partitions.popitem()[1].close()

    def hand_out(self, reader: ChunkReader, chunk: Chunk, batch: pa.RecordBatch, end: int) -> pa.RecordBatch:
        """Hand out the batch that was converted last; `end` is the offset after its chunk's batch. With the lock
        held."""
        if self.ended_at is not None or self.next_offset is not None:
            chunk.rewind()  # the next read continues with what follows
        if self.ended_at is not None:
            end = self.ended_at + 1
        elif self.next_offset is not None:
            end = self.next_offset
        reader.hand_out_batch(chunk, batch.num_rows, end)
        return batch

    def _letters(self, tp: TopicPartition) -> _Letters | None:
        topic = self._plan.dead_letter_topic
        return None if topic is None else _Letters(TopicWriter(self._client, topic, self._group), tp)


class _Letters:
    """Writes dead letters before the batch that they come from is handed out: at least once."""

    def __init__(self, writer: TopicWriter, tp: TopicPartition) -> None:
        self._writer = writer
        self._tp = tp

    def add(self, records: pa.RecordBatch, faults: Sequence[tuple[int, str, str]]) -> None:
        try:
            self._writer.write(list(fault_letters(self._tp, records, faults)))
        finally:
            self._writer.close()  # faults are rare, and an iteration that is abandoned closes nothing
