"""Typed batches that are converted in a thread, for a reader that cannot block (asyncio).

Converting a batch may wait for a schema registry, or for dead letters to be written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias

import pyarrow as pa

from penstock.consumer.fetch.chunk import Chunk
from penstock.consumer.stream.chunk_reader import ChunkReader, Iteration
from penstock.consumer.stream.typed import TypedBatches, TypedFormats

Take: TypeAlias = Callable[[], pa.RecordBatch | None]
"""Hands out a prepared batch; None if a seek or another read has made it unwanted."""


class TypedPreparer:
    """Prepares the typed batches of one stream. It starts its thread with the first one."""

    def __init__(self, reader: ChunkReader, typed: TypedFormats) -> None:
        self._reader = reader
        self._typed = typed
        self._executor = ThreadPoolExecutor(1, f"penstock-typed-{reader.thread_id}")

    def batches(self, columns: Sequence[str] | None, where: str | None) -> PreparedBatches:
        return PreparedBatches(self._reader, self._typed.batches(columns, where), self._executor)

    def close(self) -> None:
        """With the reader's lock held, after the reader was closed."""
        self._executor.shutdown(wait=False)


class PreparedBatches:
    """One iteration over typed batches that are prepared in a thread."""

    def __init__(self, reader: ChunkReader, typed: TypedBatches, executor: ThreadPoolExecutor) -> None:
        self._reader = reader
        self._typed = typed
        self._executor = executor
        self._iteration = Iteration(typed.columns, self._prepare, typed.convert)

    @property
    def ended(self) -> bool:
        """Whether the user's deserializer has ended the stream (F4)."""
        return self._typed.ended_at is not None

    def close(self) -> None:
        """The iteration has ended."""
        self._typed.close()

    def open_next(self) -> bool:
        """Open the next chunk without blocking. Raises ConsumerTimeout if there is none yet; False after a shutdown."""
        return self._reader.open_next()

    def prepare(self) -> Future[Take | None]:
        """Convert the next batch of the open chunk, in a thread. None at its end: open the next chunk.

        A prepared batch is consumed when it is taken. So nothing is lost if the caller is cancelled meanwhile.
        """
        with self._reader.lock:
            if not self._reader.queue.closed:
                return self._executor.submit(self._reader.next, self._iteration, 0.0, opens=False)
        ended: Future[Take | None] = Future()
        ended.set_result(None)
        return ended

    def _prepare(self, chunk: Chunk, batch: pa.RecordBatch, end: int) -> Take:
        reader = self._reader

        def take() -> pa.RecordBatch | None:
            with reader.lock:
                if reader.prepared is not take:  # another read has come meanwhile
                    return None
                made = self._typed.hand_out(reader, chunk, batch, end) if reader.still_wanted(chunk) else None
                reader.prepared = None
                return made

        reader.prepared = take
        return take
