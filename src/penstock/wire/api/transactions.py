"""The transaction APIs: writes to one partition in transactions, which readers see as a whole or not at all.

Life of a transaction, with the broker that is asked: `begin_transaction` (the coordinator of the transactional id)
takes the id and fences other producers -> `append` (the coordinator before the first batch, then the partition's
leader), any number of times -> `commit_offset` (the coordinators of the id and of the group), to commit an offset with
it -> `commit_transaction` or `abort_transaction` (the coordinator).

Requests are retried until they are answered or a deadline passes. That is safe: batches are numbered, so the broker
recognises duplicates, and adding, committing and ending may be repeated. After TransactionLost, begin again.

Requests are those of producers before KIP-890, which a cluster may or may not have enabled. All brokers with
transactions accept them, and the client says itself what belongs to a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from penstock.errors import BrokerError, ProtocolError
from penstock.masking import get_logger
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import CODES, RetriableError, check, codes, error_name
from penstock.wire.api.find_coordinator import TRANSACTION
from penstock.wire.api.message import (
    Api,
    EncodedRequest,
    Structure,
    array,
    boolean,
    int16,
    int32,
    int64,
    nullable_text,
    numbers,
    text,
)
from penstock.wire.api.metadata import Metadata
from penstock.wire.api.produce import ALL, Record, Sender, ask_append, codec_for, encode_batch
from penstock.wire.brokers import RETRIABLE_ERRORS
from penstock.wire.client_config import ClientConfig
from penstock.wire.cluster import Cluster, PendingAnswers
from penstock.wire.transport.connection import Connection

log = get_logger(__name__)
Answer = TypeVar("Answer")

TRANSACTION_SECONDS = 60.0
"""After this time the coordinator aborts an abandoned transaction. Brokers allow 15 minutes by default."""

ABORT_SECONDS = 5.0
"""For an abort. Without it, readers under read_committed wait until the time above has passed."""

INIT_PRODUCER_ID = Api(
    "InitProducerId",
    22,
    lowest=0,
    highest=5,  # later versions are for two-phase commits
    flexible=2,
    request_body=Structure(
        nullable_text("transactional_id"),
        int32("transaction_timeout_ms"),
        int64("producer_id", since=3, default=-1),
        int16("producer_epoch", since=3, default=-1),
    ),
    response_body=Structure(
        int32("throttle_time_ms"), int16("error_code"), int64("producer_id"), int16("producer_epoch")
    ),
)

ADD_PARTITIONS_TO_TXN = Api(
    "AddPartitionsToTxn",
    24,
    lowest=0,
    highest=3,  # later versions are spoken between brokers
    flexible=3,
    request_body=Structure(
        text("transactional_id"),
        int64("producer_id"),
        int16("producer_epoch"),
        array("topics", text("name"), numbers("partitions")),
    ),
    response_body=Structure(
        int32("throttle_time_ms"),
        array(
            "topics",
            text("name"),
            array("partitions", int32("partition_index"), int16("error_code")),
        ),
    ),
)

ADD_OFFSETS_TO_TXN = Api(
    "AddOffsetsToTxn",
    25,
    lowest=0,
    highest=4,
    flexible=3,
    request_body=Structure(text("transactional_id"), int64("producer_id"), int16("producer_epoch"), text("group_id")),
    response_body=Structure(int32("throttle_time_ms"), int16("error_code")),
)

TXN_OFFSET_COMMIT = Api(
    "TxnOffsetCommit",
    28,
    lowest=0,
    highest=4,  # later versions are those of KIP-890
    flexible=3,
    request_body=Structure(
        text("transactional_id"),
        text("group_id"),
        int64("producer_id"),
        int16("producer_epoch"),
        int32("generation_id", since=3, default=-1),
        text("member_id", since=3, default=""),
        nullable_text("group_instance_id", since=3),
        array(
            "topics",
            text("name"),
            array(
                "partitions",
                int32("partition_index"),
                int64("committed_offset"),
                int32("committed_leader_epoch", since=2, default=-1),
                nullable_text("committed_metadata"),
            ),
        ),
    ),
    response_body=Structure(
        int32("throttle_time_ms"),
        array("topics", text("name"), array("partitions", int32("partition_index"), int16("error_code"))),
    ),
)

END_TXN = Api(
    "EndTxn",
    26,
    lowest=0,
    highest=4,  # later versions are those of KIP-890
    flexible=3,
    request_body=Structure(
        text("transactional_id"), int64("producer_id"), int16("producer_epoch"), boolean("committed")
    ),
    response_body=Structure(int32("throttle_time_ms"), int16("error_code")),
)

DUPLICATE = CODES["DUPLICATE_SEQUENCE_NUMBER"]

LOST = codes(
    *("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE"),
    *("TRANSACTION_ABORTABLE", "TRANSACTION_COORDINATOR_FENCED", "UNKNOWN_PRODUCER_ID"),
    *("OUT_OF_ORDER_SEQUENCE_NUMBER",),
)
"""Codes that say: this producer can no longer commit the transaction. It may have been committed already."""


class TransactionLost(Exception):
    """Another producer has taken the transactional id, or the coordinator has ended the transaction.

    If its commit was requested, it may have been committed.
    """


class TransactionalProducer(Cluster):
    """Writes to a cluster, one transaction after the other. For one thread."""

    def __init__(self, config: ClientConfig, transactional_id: str) -> None:
        super().__init__(config)
        self.transactional_id = transactional_id
        self._sender: Sender | None = None
        self._partition: TopicPartition | None = None
        """The partition of the transaction, after its first batch."""
        self._sequence = 0

    def find(self) -> None:
        """Find the coordinator. Fails if this user may not use the transactional id."""
        self._coordinated("finding the coordinator", lambda connection, timeout: None)

    def begin_transaction(self) -> None:
        """Take the transactional id, and fence all other producers with that id.

        The coordinator first ends their transactions: it aborts an open one, and completes one whose commit was
        requested. So everything that they committed is visible from now on, and they write no more.
        """
        self._sender, self._partition, self._sequence = None, None, 0

        def ask(connection: Connection, timeout: float) -> Sender:
            request = INIT_PRODUCER_ID.request(
                connection.version(INIT_PRODUCER_ID),
                transactional_id=self.transactional_id,
                transaction_timeout_ms=int(TRANSACTION_SECONDS * 1000),
            )
            answer = connection.call(request, timeout)
            self._check(answer.error_code, "beginning")
            return Sender(self.transactional_id, answer.producer_id, answer.producer_epoch)

        self._sender = self._coordinated("beginning", ask)

    def append(self, tp: TopicPartition, records: Sequence[Record]) -> None:
        """Write one batch and wait until all in-sync replicas have it. After BatchTooLarge the caller may split it.

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
        """Commit an offset and metadata of a group as part of the transaction. The group has no members."""
        sender = self._begun

        def ask_to_add(connection: Connection, timeout: float) -> None:
            request = ADD_OFFSETS_TO_TXN.request(
                connection.version(ADD_OFFSETS_TO_TXN),
                transactional_id=self.transactional_id,
                producer_id=sender.producer_id,
                producer_epoch=sender.epoch,
                group_id=group,
            )
            self._check(connection.call(request, timeout).error_code, f"adding group {group!r}")

        self._coordinated(f"adding group {group!r}", ask_to_add)
        attempts = self._brokers.attempts(f"committing an offset of group {group!r} in a transaction")

        def ask_to_commit(connection: Connection) -> None:
            partition = {
                "partition_index": tp.partition,
                "committed_offset": offset,
                "committed_metadata": metadata,
            }
            request = TXN_OFFSET_COMMIT.request(
                connection.version(TXN_OFFSET_COMMIT),
                transactional_id=self.transactional_id,
                group_id=group,
                producer_id=sender.producer_id,
                producer_epoch=sender.epoch,
                topics=[{"name": tp.topic, "partitions": [partition]}],
            )
            answer = connection.call(request, attempts.remaining(self.config.request_timeout))
            self._check(_only_code(answer, request), f"committing {tp} in group {group!r}")

        self._ask_coordinator(group, attempts, ask_to_commit)

    def commit_transaction(self) -> None:
        """Commit. When it returns, the transaction is durable and visible."""
        self._coordinated("committing", lambda connection, timeout: self._end(connection, timeout, committed=True))
        self._sender = self._partition = None

    def abort_transaction(self) -> None:
        """Abort the transaction, if one is open. Raises nothing: otherwise the coordinator aborts it later."""
        is_open, self._partition = self._partition is not None, None
        coordinator = self._coordinators.get((TRANSACTION, self.transactional_id))
        if not is_open or coordinator is None:
            return
        attempts = self._brokers.attempts("aborting")
        try:
            with self._brokers.coordinator(coordinator, attempts, self.transactional_id, TRANSACTION) as connection:
                self._end(connection, min(ABORT_SECONDS, self.config.request_timeout), committed=False)
        except (BrokerError, TransactionLost, *RETRIABLE_ERRORS) as error:
            log.debug("the coordinator will abort transaction %r: %s", self.transactional_id, error)

    # --- the coordinator --------------------------------------------------------------------------------------------

    def _add_partition(self, tp: TopicPartition) -> None:
        sender = self._begun

        def ask(connection: Connection, timeout: float) -> None:
            request = ADD_PARTITIONS_TO_TXN.request(
                connection.version(ADD_PARTITIONS_TO_TXN),
                transactional_id=self.transactional_id,
                producer_id=sender.producer_id,
                producer_epoch=sender.epoch,
                topics=[{"name": tp.topic, "partitions": [tp.partition]}],
            )
            code = _only_code(connection.call(request, timeout), request)
            self._check(code, f"adding {tp}")

        self._coordinated(f"adding {tp}", ask)
        self._partition = tp

    def _end(self, connection: Connection, timeout: float, committed: bool) -> None:
        sender = self._begun
        request = END_TXN.request(
            connection.version(END_TXN),
            transactional_id=self.transactional_id,
            producer_id=sender.producer_id,
            producer_epoch=sender.epoch,
            committed=committed,
        )
        self._check(connection.call(request, timeout).error_code, "committing" if committed else "aborting")

    @property
    def _begun(self) -> Sender:
        assert self._sender is not None, "no transaction was begun"
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
            raise TransactionLost(f"{what}: {error_name(error_code)}")
        check(error_code, what, retries_unknown=False)


def _only_code(response: Any, request: EncodedRequest) -> int:
    """The error code of a response about one partition."""
    found = [each.error_code for topic in response.topics for each in topic.partitions]
    if len(found) != 1:
        raise ProtocolError(f"{request.name} asked about one partition, the response has {len(found)}")
    code: int = found[0]
    return code
