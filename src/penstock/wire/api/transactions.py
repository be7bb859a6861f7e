"""Writes to one partition in transactions: what a transaction holds is seen whole, once it is committed, or never.

A transaction's life, and who is asked: `begin_transaction` (the coordinator of the transactional id) takes the id, ends
what any other producer had begun with it and shuts that one out -> `append` (the coordinator before the first batch,
then the partition's leader) as often as needed -> `commit_offset` (the coordinators of the id and of the group), if
something is to be remembered with it -> `commit_transaction` or `abort_transaction` (the coordinator).

Every request is tried again until it is answered or its deadline passes: batches are numbered, so the broker knows one
that it has, and to add, to commit and to end may be said twice. TransactionLost is what only beginning anew can heal.

Requests are those of producers before KIP-890, whose newer half a cluster may or may not have switched on: all brokers
that know transactions take them, and they let us say ourselves what belongs to a transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import kafka.errors as kafka_errors
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from penstock.errors import BrokerError, ProtocolError
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import RetriableError, check
from penstock.wire.api.group_offsets import TRANSACTION
from penstock.wire.api.metadata import Metadata
from penstock.wire.api.produce import ALL, Record, Sender, ask_append, codec_for, encode_batch
from penstock.wire.brokers import HEALING
from penstock.wire.client_config import ClientConfig
from penstock.wire.cluster import Cluster, PendingAnswers
from penstock.wire.transport.connection import Connection

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")

TRANSACTION_SECONDS = 60.0
"""After which the coordinator aborts what was begun and left alone. Brokers allow 15 minutes unless told otherwise."""

ABORT_SECONDS = 5.0
"""For the courtesy of an abort: without it, readers of committed records wait until the time above has passed."""

LAST_STABLE_INIT = 5
"""What comes after is for two-phase commits."""

LAST_OF_CLIENTS = 3
"""AddPartitionsToTxn: later versions are spoken between brokers."""

LAST_SEPARATE = 4
"""TxnOffsetCommit and EndTxn: from version 5 on they are those of KIP-890."""

DUPLICATE: int = kafka_errors.DuplicateSequenceNumberError.errno

LOST = frozenset(
    error.errno
    for error in (
        kafka_errors.ProducerFencedError,
        kafka_errors.InvalidProducerEpochError,
        kafka_errors.InvalidProducerIdMappingError,
        kafka_errors.InvalidTxnStateError,
        kafka_errors.TransactionAbortableError,
        kafka_errors.TransactionCoordinatorFencedError,
        kafka_errors.UnknownProducerIdError,
        kafka_errors.OutOfOrderSequenceNumberError,
    )
)
"""What brokers say of a transaction that will not be committed by us, if it was not already."""


class TransactionLost(Exception):
    """Another producer has taken the transactional id, or the coordinator has ended the transaction.

    It may have been committed before, if that was asked for.
    """


class TransactionalProducer(Cluster):
    """A cluster that is written to, one transaction after the other. For one thread."""

    def __init__(self, config: ClientConfig, transactional_id: str) -> None:
        super().__init__(config)
        self.transactional_id = transactional_id
        self._sender: Sender | None = None
        self._partition: TopicPartition | None = None
        """What the transaction writes to, once it does."""
        self._sequence = 0

    def find(self) -> None:
        """Find the coordinator: it shows whether the id may be used at all."""
        self._coordinated("finding the coordinator", lambda connection, timeout: None)

    def begin_transaction(self) -> None:
        """Take the transactional id. Whatever others have committed with it can be seen from now on, and no more comes.

        For that the coordinator first ends what they had begun: an open transaction is aborted, one whose commit was
        asked for is completed.
        """
        self._sender, self._partition, self._sequence = None, None, 0

        def ask(connection: Connection, timeout: float) -> Sender:
            request = InitProducerIdRequest(
                version=connection.version(InitProducerIdRequest, at_most=LAST_STABLE_INIT),
                transactional_id=self.transactional_id,
                transaction_timeout_ms=int(TRANSACTION_SECONDS * 1000),
                producer_id=-1,
                producer_epoch=-1,
            )
            answer = connection.call(request, timeout)
            self._check(answer.error_code, "beginning")
            return Sender(self.transactional_id, answer.producer_id, answer.producer_epoch)

        self._sender = self._coordinated("beginning", ask)

    def append(self, tp: TopicPartition, records: Sequence[Record]) -> None:
        """Write one batch and wait until all replicas in sync have it. Raises BatchTooLarge, and then it may be cut.

        All batches of a transaction go to one partition.
        """
        if self._partition != tp:
            assert self._partition is None, "a transaction writes to one partition"
            self._add_partition(tp)
        sender = self._begun

        def ask(connection: Connection, asked: list[TopicPartition], metadata: Metadata) -> PendingAnswers[None]:
            batch = encode_batch(records, codec_for(connection), sender, self._sequence)
            pending = ask_append(connection, tp, batch, ALL, sender)

            def answer(timeout: float) -> tuple[dict[TopicPartition, None], dict[TopicPartition, RetriableError]]:
                error_code = pending(timeout)
                try:
                    self._check(0 if error_code == DUPLICATE else error_code, f"writing to {tp}")
                except RetriableError as problem:
                    return {}, {tp: problem}
                return {tp: None}, {}

            return answer

        self._ask_leaders(self._brokers.attempts(f"writing {len(records)} records to {tp}"), [tp], ask)
        self._sequence = (self._sequence + len(records)) & 0x7FFFFFFF

    def commit_offset(self, group: str, tp: TopicPartition, offset: int, metadata: str) -> None:
        """Let the group's offset and the note beside it change with the transaction. The group has no members."""
        sender = self._begun

        def ask_to_add(connection: Connection, timeout: float) -> None:
            request = AddOffsetsToTxnRequest(
                version=connection.version(AddOffsetsToTxnRequest),
                transactional_id=self.transactional_id,
                producer_id=sender.producer_id,
                producer_epoch=sender.epoch,
                group_id=group,
            )
            self._check(connection.call(request, timeout).error_code, f"adding group {group!r}")

        self._coordinated(f"adding group {group!r}", ask_to_add)
        attempts = self._brokers.attempts(f"committing an offset of group {group!r} in a transaction")

        def ask_to_commit(connection: Connection) -> None:
            version = connection.version(TxnOffsetCommitRequest, at_most=LAST_SEPARATE)
            topic_class = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
            partition = topic_class.TxnOffsetCommitRequestPartition(
                version=version,
                partition_index=tp.partition,
                committed_offset=offset,
                committed_leader_epoch=-1,
                committed_metadata=metadata,
            )
            request = TxnOffsetCommitRequest(
                version=version,
                transactional_id=self.transactional_id,
                group_id=group,
                producer_id=sender.producer_id,
                producer_epoch=sender.epoch,
                generation_id=-1,
                member_id="",
                group_instance_id=None,
                topics=[topic_class(version=version, name=tp.topic, partitions=[partition])],
            )
            answer = connection.call(request, attempts.remaining(self.config.request_timeout))
            code = _only([p.error_code for topic in answer.topics for p in topic.partitions], request)
            self._check(code, f"committing {tp} in group {group!r}")

        self._ask_coordinator(group, attempts, ask_to_commit)

    def commit_transaction(self) -> None:
        """When it returns, everything of the transaction is there for good."""
        self._coordinated("committing", lambda connection, timeout: self._end(connection, timeout, committed=True))
        self._sender = self._partition = None

    def abort_transaction(self) -> None:
        """End the transaction, if one is open, as if it had never been. Raises nothing: time would do it too."""
        is_open, self._partition = self._partition is not None, None
        coordinator = self._coordinators.get((TRANSACTION, self.transactional_id))
        if not is_open or coordinator is None:
            return
        attempts = self._brokers.attempts("aborting")
        try:
            with self._brokers.coordinator(coordinator, attempts, self.transactional_id, TRANSACTION) as connection:
                self._end(connection, min(ABORT_SECONDS, self.config.request_timeout), committed=False)
        except (BrokerError, TransactionLost, *HEALING) as error:
            log.debug("transaction %r is left to the coordinator: %s", self.transactional_id, error)

    # --- the coordinator --------------------------------------------------------------------------------------------

    def _add_partition(self, tp: TopicPartition) -> None:
        sender = self._begun

        def ask(connection: Connection, timeout: float) -> None:
            version = connection.version(AddPartitionsToTxnRequest, at_most=LAST_OF_CLIENTS)
            topic_class = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
            request = AddPartitionsToTxnRequest(
                version=version,
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=sender.producer_id,
                v3_and_below_producer_epoch=sender.epoch,
                v3_and_below_topics=[topic_class(version=version, name=tp.topic, partitions=[tp.partition])],
            )
            topics = connection.call(request, timeout).results_by_topic_v3_and_below
            code = _only([p.partition_error_code for topic in topics for p in topic.results_by_partition], request)
            self._check(code, f"adding {tp}")

        self._coordinated(f"adding {tp}", ask)
        self._partition = tp

    def _end(self, connection: Connection, timeout: float, committed: bool) -> None:
        sender = self._begun
        request = EndTxnRequest(
            version=connection.version(EndTxnRequest, at_most=LAST_SEPARATE),
            transactional_id=self.transactional_id,
            producer_id=sender.producer_id,
            producer_epoch=sender.epoch,
            committed=committed,
        )
        self._check(connection.call(request, timeout).error_code, "committing" if committed else "aborting")

    @property
    def _begun(self) -> Sender:
        assert self._sender is not None, "the transaction was not begun"
        return self._sender

    def _coordinated(self, what: str, ask: Callable[[Connection, float], Answer]) -> Answer:
        attempts = self._brokers.attempts(f"{what} (transaction {self.transactional_id!r})")
        return self._ask_coordinator(
            self.transactional_id,
            attempts,
            lambda connection: ask(connection, attempts.remaining(self.config.request_timeout)),
            TRANSACTION,
        )

    def _check(self, error_code: int, what: str) -> None:
        what = f"{what} (transaction {self.transactional_id!r})"
        if error_code in LOST:
            raise TransactionLost(f"{what}: {kafka_errors.for_code(error_code).message}")
        check(error_code, what, retries_unknown=False)


def _only(codes: Sequence[int], request: Any) -> int:
    if len(codes) != 1:
        raise ProtocolError(f"{request.name} asked about one partition, the answer holds {len(codes)}")
    return codes[0]
