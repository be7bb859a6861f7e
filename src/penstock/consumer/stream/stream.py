"""A stream: the iterator (H14) that a thread of the user reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from penstock._kernel import Message, Messages
from penstock.consumer.stream.chunk_reader import ChunkReader
from penstock.consumer.stream.prepared import PreparedBatches, TypedPreparer
from penstock.errors import ConsumerTimeout


class StreamRecords(Protocol):
    """How a stream hands out its records: `Records`, or `EventTimeRecords` with a watermark strategy."""

    def next_messages(self, timeout: float | None) -> Messages | None: ...
    def batch_source(self, columns: Sequence[str] | None, where: str | None) -> Callable[[float | None], Any]: ...


class Stream:
    """The records of some partitions, for one thread at a time. Iterate it for messages, or `batches()` for Arrow."""

    def __init__(
        self,
        reader: ChunkReader,
        records: StreamRecords,
        preparer: TypedPreparer | None = None,
        timeout: float | None = None,
    ) -> None:
        self.reader = reader
        """The stream's queue and positions, for the connector."""
        self.timeout = timeout
        """`consumer.timeout.ms` in seconds; None waits forever."""
        self.transactional_offsets: object | None = None
        """For `penstock.Writer`, which commits the offsets of this stream in a transaction. Set by the connector."""
        self._records = records
        self._preparer = preparer

    def __repr__(self) -> str:
        return f"Stream({self.thread_id})"

    @property
    def thread_id(self) -> str:
        """The consumer id and the number of the stream, as `ConsumerConnector.assignment` names it."""
        return self.reader.thread_id

    def __iter__(self) -> Iterator[Message]:
        """Messages as they come, until the connector is shut down.

        Raises ConsumerTimeout if `consumer.timeout.ms` is set and no message comes in time. The stream can be iterated
        again after that.
        """
        while (messages := self.next_messages(self.timeout)) is not None:
            yield from messages

    def __next__(self) -> Message:
        while (messages := self.next_messages(self.timeout)) is not None:
            for message in messages:
                return message
        raise StopIteration

    def batches(self, columns: Sequence[str] | None = None, *, where: str | None = None) -> Iterator[Any]:
        """Arrow batches as they come, with the selected columns; None selects all.

        Each batch holds records of one partition. Columns are typed if the connector has formats. With a watermark
        strategy a batch is an EventBatch, else a pyarrow RecordBatch. `where` is a predicate in SQL that rows must meet
        (docs/where.md). Rows that do not meet it are consumed: positions and event time move past them. The iteration
        ends, or times out, as the iteration over messages does; it also times out if no row meets `where` in time.
        """
        take = self.batch_source(columns, where)
        waits_since = time.monotonic()
        while (batch := take(self.timeout)) is not None:
            if batch.num_rows:
                yield batch
                waits_since = time.monotonic()
            elif self.timeout and time.monotonic() - waits_since >= self.timeout:
                raise ConsumerTimeout(self.thread_id, self.timeout)

    def next_messages(self, timeout: float | None) -> Messages | None:
        """The rest of the current batch, or the next one; None after a shutdown.

        Raises ConsumerTimeout if none comes in time; None waits forever.
        """
        messages = self.reader.messages_left()  # an iteration may have stopped in the middle of a batch
        return self._records.next_messages(timeout) if messages is None else messages

    def batch_source(self, columns: Sequence[str] | None, where: str | None = None) -> Callable[[float | None], Any]:
        """A function that returns the next batch within a time-out. The batch may have no rows; None after a shutdown.

        Raises as `next_messages` does. A malformed record that fails the batch is met again by the next call.
        """
        return self._records.batch_source(columns, where)

    def prepared_batches(self, columns: Sequence[str] | None, where: str | None = None) -> PreparedBatches | None:
        """Typed batches for a reader that cannot block; None if `batch_source` serves it."""
        return None if self._preparer is None else self._preparer.batches(columns, where)

    def close(self) -> None:
        """End the iteration. Called by the connector."""
        with self.reader.lock:
            self.reader.close()
            if self._preparer is not None:
                self._preparer.close()
