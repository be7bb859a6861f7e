"""The producer: writes encoded batches, idempotently and in order; with a transactional id, in transactions.

    with Producer(config, settings, transactional_id) as producer:
        encoder.set_producer(*producer.begin(), transactional=True)
        producer.send_all(encoder.append(rows, ...))
        producer.send_all(encoder.flush())
        producer.commit_transaction()

There is no other thread: batches move during `send` and `flush`. `send` waits only while the buffer is full.

Transactions: the first batch, or the first commit of offsets, starts one. `commit_transaction` or `abort_transaction`
ends it, or another process with `open_transaction` and `end_transactions`. After a commit, the next batch starts the
next transaction. If `identity` has changed, call `Encoder.set_producer` before: in version 2 of the protocol each
transaction has an epoch of its own. After an abort and after every error, call `begin` again; after a commit, if
`has_begun` is false.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Self

from penstock.errors import BrokerError, PenstockError
from penstock.masking import get_logger
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_member import GroupMember
from penstock.wire.client_config import ClientConfig
from penstock.wire.producer.delivery import Delivery, check_codec
from penstock.wire.producer.identity import NO_IDENTITY, Identity, OpenTransaction
from penstock.wire.producer.partition_queue import Batch
from penstock.wire.producer.producer_config import ProducerConfig
from penstock.wire.producer.transaction_client import TransactionClient
from penstock.wire.producer.written import ProducerMetrics, WrittenRange

log = get_logger(__name__)

ABORT_SECONDS = 5.0
"""For an abort. Without it, readers under read_committed wait until the transaction times out."""


class Producer:
    """Writes encoded batches. For one thread; a `with` block returns its connections."""

    def __init__(self, config: ClientConfig, settings: ProducerConfig, transactional_id: str | None = None) -> None:
        assert settings.acks == -1 or not settings.idempotent, "an idempotent producer waits for all replicas"
        assert settings.idempotent or transactional_id is None, "transactions need an idempotent producer"
        self.cluster = TransactionClient(config)
        """For questions beside the writing: topics, committed offsets."""
        self.settings = settings
        self.transactional_id = transactional_id
        self.metrics = ProducerMetrics()
        self._identity: Identity | None = None
        self._transaction: OpenTransaction | None = None
        self._added: set[TopicPartition] = set()
        """The partitions of the open transaction."""
        self._has_offsets = False
        self._failure: PenstockError | None = None
        self._topic_ids: dict[str, uuid.UUID | None] = {}
        """As they were when the producer saw a topic first."""
        self._delivery = self._new_delivery()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Return the connections. Batches that are not acknowledged are given up. An open transaction stays open: its
        owner may have passed it on."""
        self._delivery.close()

    # --- identity ---------------------------------------------------------------------------------------------------

    def begin(self) -> Identity:
        """Get an identity for the batches, which then have sequences from 0 on. Batches of an earlier one are dropped.

        With a transactional id: takes the id, and fences all other producers with it. The coordinator first ends their
        transactions: it aborts an open one, and completes one whose commit was requested.
        """
        self._identity = self._transaction = self._failure = None
        if self.transactional_id is not None:
            self._transaction = self.cluster.take_transactional_id(
                self.transactional_id, self.settings.transaction_timeout
            )
            self._identity = self._transaction.identity
        elif self.settings.idempotent:
            self._identity = self._new_identity()
        else:
            self._identity = NO_IDENTITY
        self._delivery.close()
        self._start_transaction()
        self._delivery = self._new_delivery()
        return self._identity

    @property
    def has_begun(self) -> bool:
        """Whether the producer has an identity. `begin` gets one."""
        return self._identity is not None

    @property
    def identity(self) -> Identity:
        """The identity that the next batch must have."""
        assert self._identity is not None, "the producer has not begun"
        return self._identity

    def _new_identity(self) -> Identity:
        """An identity without a transactional id."""
        return self.cluster.new_producer_id(lambda connection: check_codec(connection, self.settings.compression))

    # --- batches ----------------------------------------------------------------------------------------------------

    def partition_count(self, topic: str) -> tuple[int, list[int]]:
        """The number of partitions, and those that have a leader. Raises UnknownTopic.

        Brokers create a missing topic, if their auto.create.topics.enable is true.
        """
        metadata = self.cluster.metadata((topic,), create=True)
        self._delivery.learn(metadata)
        partitions = metadata.topics[topic].partitions
        return len(partitions), [number for number, leader in partitions.items() if leader is not None]

    def send(self, batch: Batch) -> None:
        """Queue a batch, and send what fits. Raises the error of any batch that failed."""
        self.send_all((batch,))

    def send_all(self, batches: Iterable[Batch]) -> None:
        """The same for several batches: they share requests."""
        with self._failing():
            self._delivery.add(batches)

    def flush(self) -> None:
        """Wait until every batch is acknowledged.

        Raises the error of one that is not: UnwritableRecord for a record that the broker never accepts,
        BrokerUnavailable after `delivery_timeout`, TransactionLost.
        """
        with self._failing():
            self._delivery.flush()

    @property
    def written(self) -> dict[TopicPartition, WrittenRange]:
        """What brokers have acknowledged since `begin`."""
        return self._delivery.written

    # --- transactions -----------------------------------------------------------------------------------------------

    def commit_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        member: GroupMember | None = None,
    ) -> None:
        """Commit offsets of a group, each with metadata, as part of the transaction.

        `member`: the consumer that read the records. CommitRefused if the group has assigned its partitions to others.
        """
        with self._failing():
            self._has_offsets = True
            self.cluster.commit_in_transaction(self._begun, group, offsets, member)

    def open_transaction(self) -> OpenTransaction | None:
        """The transaction, for another process to end; None if nothing is in it. Call `flush` before."""
        assert self._delivery.is_empty, "batches are not acknowledged yet"
        return replace(self._begun, partition=min(self._added, default=None)) if self._is_open else None

    def commit_transaction(self) -> None:
        """Write all batches and commit. When it returns, the transaction is durable and visible. If `has_begun` is
        false then, call `begin` before the next one.

        Raises TransactionLost if it can no longer be committed: `begin` and write again.
        """
        self.flush()
        with self._failing():
            if self._is_open:
                self._transaction = self.cluster.end_transaction(self._begun, committed=True)
                self._start_transaction()
                if self._transaction is None:
                    self._identity = None
                else:
                    self._identity = self._transaction.identity
                    self._delivery.start(self._transaction)

    def abort_transaction(self) -> None:
        """Drop all batches and abort the transaction, if one is open. Call `begin` before the next batch.

        Raises nothing: if the coordinator does not answer, it aborts the transaction at its time-out, or when a
        producer takes the transactional id.
        """
        has_unanswered = not self._delivery.is_empty
        self._delivery.close()
        transaction, self._transaction, self._identity = self._transaction, None, None
        if transaction is None or not self._is_open:
            return
        self._start_transaction()
        try:
            if has_unanswered and transaction.version < 2:
                # Do not simplify: an abort in version 1 keeps the epoch. A batch that reaches its leader after the
                # abort would be accepted, and become visible with the next commit. Taking the id fences it.
                self.cluster.take_transactional_id(
                    transaction.transactional_id, self.settings.transaction_timeout, ABORT_SECONDS
                )
            else:
                self.cluster.end_transaction(transaction, committed=False, timeout=ABORT_SECONDS)
        except BrokerError as error:
            log.debug("the coordinator will abort the transaction of %r: %s", self.transactional_id, error)

    @property
    def _begun(self) -> OpenTransaction:
        assert self._transaction is not None, "no transaction was begun"
        return self._transaction

    @property
    def _is_open(self) -> bool:
        return bool(self._added) or self._has_offsets

    def _start_transaction(self) -> None:
        self._added, self._has_offsets = set(), False

    def _add_to_transaction(self, partitions: Collection[TopicPartition]) -> None:
        if self._transaction is None:
            return
        new = [tp for tp in partitions if tp not in self._added]
        if new:
            self._added.update(new)  # first: a request without an answer may have added them
            if self._transaction.version < 2:
                self.cluster.add_partitions(self._transaction, new)

    # --- parts ------------------------------------------------------------------------------------------------------

    def _new_delivery(self) -> Delivery:
        return Delivery(
            self.cluster,
            self.settings,
            self.metrics,
            self._identity or NO_IDENTITY,
            self._transaction,
            self._add_to_transaction,
            self._topic_ids,
        )

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """After an error, batches may be missing: every later call raises it again."""
        if self._failure is not None:
            raise self._failure
        assert self._identity is not None, "call `begin` first"
        try:
            yield
        except PenstockError as error:
            self._failure = error
            raise
