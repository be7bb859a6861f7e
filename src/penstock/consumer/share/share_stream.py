"""A share stream: what a thread of the user reads and acknowledges (Q2)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from penstock._kernel import Messages
from penstock.consumer.share.share_batches import ShareBatches
from penstock.consumer.share.share_reader import CommitResults, ShareReader
from penstock.consumer.share.share_records import Rows, ShareBatch, ShareMessage
from penstock.consumer.stream.typed import TypedFormats
from penstock.model.acknowledgement import AcknowledgeType


class ShareStream:
    """Acquired records, for one thread at a time. Iterate it for messages, or `batches()` for Arrow.

    Any thread may acknowledge. With `share.acknowledgement.mode=implicit`, asking for more accepts what was handed out
    before and is not acknowledged. With `explicit` nothing is accepted by itself.
    """

    def __init__(
        self,
        reader: ShareReader,
        *,
        timeout: float | None,
        commit_timeout: float,
        plain: TypedFormats,
        typed: TypedFormats | None,
    ) -> None:
        self.reader = reader
        """The stream's queue and chunks, for the connector."""
        self.timeout = timeout
        """`consumer.timeout.ms` in seconds; None waits forever."""
        self._commit_timeout = commit_timeout
        self._plain = plain
        self._typed = typed

    def __repr__(self) -> str:
        return f"ShareStream({self.thread_id})"

    @property
    def thread_id(self) -> str:
        """The consumer id and the number of the stream."""
        return self.reader.queue.thread_id

    # --- reading ------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[ShareMessage]:
        """Messages as they come, until the connector is shut down.

        Raises ConsumerTimeout if `consumer.timeout.ms` is set and no message comes in time. The stream can be iterated
        again after that.
        """
        while (messages := self._messages()) is not None:
            reader, wrapped, clock = self.reader, self.reader.wrapped(), time.monotonic
            for message in messages:
                yield wrapped(message)
                if clock() >= reader.flush_at:
                    reader.flush()

    def __next__(self) -> ShareMessage:
        while (messages := self._messages()) is not None:
            self.reader.flush()
            wrapped = self.reader.wrapped()
            for message in messages:
                return wrapped(message)
        raise StopIteration

    def _messages(self) -> Messages | None:
        """The rest of the current messages, or the next ones."""
        messages = self.reader.messages_left()
        return self.reader.next_messages(self.timeout) if messages is None else messages

    def batches(self, columns: Sequence[str] | None = None, *, where: str | None = None) -> Iterator[ShareBatch]:
        """Arrow batches as they come, with the selected columns; None selects all.

        Each batch holds acquired records of one partition. Column `deliveryCount` says how often each was acquired.
        Columns are typed if the connector has formats. `where` is a predicate in SQL that rows must meet
        (docs/where.md): the others are accepted. The iteration ends, or times out, as that over messages does.
        """
        batches = ShareBatches(columns, where, typed=self._typed, plain=self._plain)
        try:
            while (batch := self.reader.next_batch(batches, self.timeout)) is not None:
                yield batch
        finally:
            batches.close()

    # --- acknowledging: any thread ------------------------------------------------------------------------------------

    def accept(self, record: ShareMessage | ShareBatch, rows: Rows = None) -> None:
        """The record is processed, or all of a batch are, or these rows: row numbers, a mask, or a slice.

        Until it is sent, an acknowledgement can be changed by another one. Raises AcknowledgementRefused for a record
        whose acknowledgement was sent, or whose lock is known to be lost.
        """
        self.reader.acknowledge(record, AcknowledgeType.ACCEPT, rows)

    def release(self, record: ShareMessage | ShareBatch, rows: Rows = None) -> None:
        """Let the group deliver the record again, unless it has reached the group's delivery count limit."""
        self.reader.acknowledge(record, AcknowledgeType.RELEASE, rows)

    def reject(self, record: ShareMessage | ShareBatch, rows: Rows = None) -> None:
        """The record cannot be processed: the group does not deliver it again."""
        self.reader.acknowledge(record, AcknowledgeType.REJECT, rows)

    def renew(self, record: ShareMessage | ShareBatch, rows: Rows = None) -> None:
        """Restart the time of the lock, for a record that takes longer. It is sent at once. Acknowledge it later.

        Needs Kafka 4.2. Not stable: Kafka may still change renewals (KIP-1222).
        """
        self.reader.acknowledge(record, AcknowledgeType.RENEW, rows)

    def commit(self, timeout: float | None = None) -> CommitResults:
        """Send the acknowledgements of this stream now, and wait for the answers.

        Returns, by partition, the last error since the previous commit, or None: records whose acknowledgement was
        refused are delivered again. In implicit mode what was handed out so far is accepted. Without a commit,
        acknowledgements are sent with the next fetch, or after a second. Raises BrokerUnavailable if no answer comes in
        time (`default.api.timeout.ms`).
        """
        return self.reader.commit(self._commit_timeout if timeout is None else timeout)
