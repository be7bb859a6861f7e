"""One transaction of a Writer, with the offsets of the consumers whose records it was made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from penstock.errors import PenstockError, TransactionLost
from penstock.masking import get_logger
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_member import GroupMember
from penstock.wire.producer.producer import Producer

log = get_logger(__name__)


class TransactionalOffsets(Protocol):
    """The offsets of a consumer: `penstock.consumer.transactional_offsets`."""

    group: str

    def begin(self) -> None: ...

    def take(
        self, offsets: Mapping[TopicPartition, int] | None = None
    ) -> tuple[GroupMember, dict[TopicPartition, int]]: ...

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None: ...
    def outcome_unknown(self) -> None: ...
    def rewind(self) -> None: ...


class Transaction:
    """Made by `Writer.transaction`, for one `with` block."""

    def __init__(
        self,
        producer: Producer,
        consumer: Any,
        *,
        write: Callable[[Any, str | None], None],
        flush: Callable[[], None],
        on_end: Callable[[bool], None],
    ) -> None:
        """`on_end` gets whether the transaction was committed."""
        self._producer = producer
        self._write = write
        self._flush = flush
        self._on_end = on_end
        self._is_over = False
        self._consumers: list[TransactionalOffsets] = []
        self._offsets: list[tuple[TransactionalOffsets, dict[TopicPartition, int]]] = []
        """What is committed with the transaction."""
        if consumer is not None:
            self._join(consumer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_over:
            return
        if error is not None:
            self.abort()
        else:
            self._commit()

    def write(self, data: Any, topic: str | None = None) -> None:
        """Write data in this transaction, as `Writer.write` does."""
        self._check_open()
        self._write(data, topic)

    def commit_offsets(self, consumer: Any, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit the offsets of a ConsumerConnector, or of one of its streams, in this transaction.

        Without `offsets`: of all records that it has handed out. Call it last. A consumer that was given to
        `Writer.transaction` needs this call only for other offsets than these.

        Raises CommitRefused if the consumer lost a partition whose records it has handed out since the last commit.
        Let the error leave the `with` block: the transaction must be aborted. The group's members get these records
        again, and so does this consumer for the partitions that it still has.
        """
        self._check_open()
        self._commit_offsets(self._join(consumer), offsets)

    def _commit_offsets(
        self, source: TransactionalOffsets, offsets: Mapping[TopicPartition, int] | None = None
    ) -> None:
        member, taken = source.take(offsets)
        if taken:
            self._flush()  # first: an error of a record must not come after the offsets
            self._producer.commit_offsets(source.group, {tp: (at, "") for tp, at in taken.items()}, member)
        self._offsets.append((source, taken))

    def abort(self) -> None:
        """Abort: nothing of the transaction becomes visible, and consumers hand out the same records again."""
        if self._is_over:
            return
        self._end(committed=False)
        self._producer.abort_transaction()
        self._rewind()

    def _commit(self) -> None:
        try:
            for source in self._consumers:
                if all(source is not done for done, _ in self._offsets):
                    self._commit_offsets(source)
            self._flush()
        except BaseException:
            self.abort()
            raise
        try:
            self._producer.commit_transaction()
        except BaseException as error:
            if not (isinstance(error, TransactionLost) and error.aborted):
                for source in self._consumers:
                    source.outcome_unknown()
            self._end(committed=False)
            self._rewind()
            raise
        self._end(committed=True)
        for source, offsets in self._offsets:
            source.committed(offsets)

    def _end(self, *, committed: bool) -> None:
        self._is_over = True
        self._on_end(committed)

    def _rewind(self) -> None:
        """Raises nothing: the error that ended the transaction is more important. The next transaction tries again."""
        for source in self._consumers:
            try:
                source.rewind()
            except PenstockError as error:
                log.warning("the positions of group %r are not set back yet: %s", source.group, error)
                source.outcome_unknown()

    def _join(self, consumer: Any) -> TransactionalOffsets:
        source: TransactionalOffsets | None = getattr(consumer, "transactional_offsets", None)
        if source is None:
            raise TypeError(f"{consumer!r} is neither a ConsumerConnector nor one of its streams")
        if all(source is not known for known in self._consumers):
            source.begin()
            self._consumers.append(source)
        return source

    def _check_open(self) -> None:
        if self._is_over:
            raise RuntimeError("this transaction is over")
