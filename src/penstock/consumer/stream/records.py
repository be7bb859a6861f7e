"""Hands out a stream's records: as messages, as Arrow batches of Kafka's columns, or as typed Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from penstock._kernel import Batch, Messages
from penstock.consumer.fetch.chunk import Chunk
from penstock.consumer.stream.chunk_reader import ChunkReader, Iteration
from penstock.consumer.stream.typed import TypedBatches, TypedFormats
from penstock.model.columns import checked_columns

Decode: TypeAlias = Callable[[bytes], Any]

MESSAGE_COLUMNS = ("key", "value", "offset", "timestamp", "timestampType", "headers")
"""Columns that a message is built from; topic and partition are the chunk's."""


class Records:
    """The records of a stream without event time. For the thread that reads the stream."""

    def __init__(
        self,
        reader: ChunkReader,
        *,
        key_decoder: Decode | None = None,
        value_decoder: Decode | None = None,
        plain: TypedFormats,
        typed: TypedFormats | None = None,
    ) -> None:
        """Without `typed`, batches have Kafka's own columns. `plain` builds those that a predicate filters."""
        self._plain = plain
        self._reader = reader
        self._decoders = key_decoder, value_decoder
        self._typed = typed
        self._messages = Iteration(MESSAGE_COLUMNS, self._hand_out_messages)

    def next_messages(self, timeout: float | None) -> Messages | None:
        return self._reader.next(self._messages, timeout)

    def batch_source(
        self, columns: Sequence[str] | None, where: str | None
    ) -> Callable[[float | None], pa.RecordBatch | None]:
        if self._typed is not None or where is not None:
            return self._typed_source((self._typed or self._plain).batches(columns, where))
        iteration = Iteration(tuple(checked_columns(columns, include_headers=True)), self._hand_out_batch)

        def take(timeout: float | None) -> pa.RecordBatch | None:
            batch = self._reader.next(iteration, timeout)
            return None if batch is None else pa.record_batch(batch)

        return take

    def _typed_source(self, typed: TypedBatches) -> Callable[[float | None], pa.RecordBatch | None]:
        def hand_out(chunk: Chunk, batch: pa.RecordBatch, end: int) -> pa.RecordBatch:
            return typed.hand_out(self._reader, chunk, batch, end)

        iteration = Iteration(typed.columns, hand_out, typed.convert)

        def take(timeout: float | None) -> pa.RecordBatch | None:
            batch = None if typed.ended_at is not None else self._reader.next(iteration, timeout)
            if batch is None:
                typed.close()
            return batch

        return take

    def _hand_out_messages(self, chunk: Chunk, batch: Batch, end: int) -> Messages:
        return self._reader.hand_out_messages(chunk, Messages(batch, *chunk.cursor.tp, end, *self._decoders))

    def _hand_out_batch(self, chunk: Chunk, batch: Batch, end: int) -> Batch:
        self._reader.hand_out_batch(chunk, batch.num_rows, end)
        return batch
