"""Requests to the coordinators of transactional ids.

There are two versions of the protocol (KIP-890). A producer takes the one that the cluster has enabled when it begins
(feature `transaction.version`), and keeps it:

1. The producer adds partitions and groups to the transaction before it writes to them. All its transactions have the
   same epoch, until it begins again.
2. Brokers add partitions and groups by themselves. Each end of a transaction bumps the epoch: a late request of one
   transaction can never become part of the next.

Brokers that have enabled version 2 still accept version 1: the versions of requests tell them which one a client uses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from penstock.errors import AuthorizationFailed, BrokerError, CommitRefused, ProtocolError, TransactionLost
from penstock.masking import get_logger
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.describe_transactions import ONGOING, PREPARE_COMMIT, TransactionState, ask_transaction
from penstock.wire.api.error_codes import CODES, RetriableError, check, codes, error_name
from penstock.wire.api.find_coordinator import TRANSACTION, find_coordinators
from penstock.wire.api.group_member import NOT_A_MEMBER, GroupMember
from penstock.wire.api.metadata import Broker
from penstock.wire.api.offset_fetch import KNOWS_STABLE, OFFSET_FETCH
from penstock.wire.api.produce import KNOWS_ZSTD, PRODUCE
from penstock.wire.api.transactions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    BUMPING_END,
    END_TXN,
    INIT_PRODUCER_ID,
    LAST_ADDED_OFFSETS,
    TXN_OFFSET_COMMIT,
)
from penstock.wire.cluster import Cluster
from penstock.wire.producer.identity import Identity, OpenTransaction
from penstock.wire.producer.send_together import SendTogether
from penstock.wire.transport.connection import Connection

log = get_logger(__name__)
Answer = TypeVar("Answer")

ENDING_PAUSE = 0.01
"""Seconds between two requests while the last transaction is being ended. That takes some milliseconds."""

VISIBLE_SECONDS = 5.0
"""The longest wait until leaders have written a commit. It takes some milliseconds, if none of them is down."""

MARKERS_PAUSE = 0.003

ENDING_SECONDS = 1.0
"""After this time of it, the usual backoff begins."""

TRANSACTION_VERSION = "transaction.version"

LOST = codes(
    *("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE"),
    *("TRANSACTION_ABORTABLE", "TRANSACTION_COORDINATOR_FENCED", "UNKNOWN_PRODUCER_ID"),
    *("OUT_OF_ORDER_SEQUENCE_NUMBER",),
)
"""Codes that say: this producer can no longer commit the transaction."""

_MEMBERSHIP = codes(
    *("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID", "REBALANCE_IN_PROGRESS"),
    *("STALE_MEMBER_EPOCH", "FENCED_MEMBER_EPOCH"),
)
_INVALID_TXN_STATE = CODES["INVALID_TXN_STATE"]
_INVALID_TIMEOUT = CODES["INVALID_TRANSACTION_TIMEOUT"]
_CLUSTER_NOT_ALLOWED = CODES["CLUSTER_AUTHORIZATION_FAILED"]
_ID_NOT_ALLOWED = CODES["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"]


class TransactionClient(Cluster):
    """Asks coordinators of transactional ids. Each request is retried until it is answered or a deadline passes.

    That is safe: adding, committing and ending may be repeated. For one thread.
    """

    def new_producer_id(self, check_connection: Callable[[Connection], None]) -> Identity:
        """An identity without a transactional id: every broker can give one."""
        what = "getting a producer id"
        attempts = self._brokers.attempts(what)

        def ask(connection: Connection, timeout: float) -> Identity:
            check_connection(connection)
            request = INIT_PRODUCER_ID.request(
                connection.version(INIT_PRODUCER_ID), transactional_id=None, transaction_timeout_ms=2**31 - 1
            )
            answer = connection.call(request, timeout)
            if answer.error_code == _CLUSTER_NOT_ALLOWED:
                raise AuthorizationFailed(
                    f"{what}: {error_name(answer.error_code)}. The broker's ACLs do not allow this user to write "
                    "idempotently. Allow IdempotentWrite on the cluster, or set "
                    f"{self.config.option('enable.idempotence')} to false: a retry may then write records twice"
                )
            check(answer.error_code, what, retries_unknown=False)
            return Identity(answer.producer_id, answer.producer_epoch)

        return self._brokers.retry(attempts, lambda: self._brokers.ask_any(attempts, ask))

    def knows_zstd(self) -> bool:
        """Whether a broker knows zstd. Brokers before Kafka 2.1 do not."""
        attempts = self._brokers.attempts("asking for the versions of Produce")
        return self._brokers.retry(
            attempts,
            lambda: self._brokers.ask_any(attempts, lambda connection, _: connection.speaks(PRODUCE, KNOWS_ZSTD)),
        )

    def check_transactional_id(self, transactional_id: str) -> None:
        """Find the coordinator. Raises AuthorizationFailed if this user may not use the transactional id."""
        self._coordinated(transactional_id, "finding the coordinator", lambda connection, timeout: None)

    def find_coordinators(self, transactional_ids: Sequence[str], timeout: float) -> dict[str, Broker]:
        """The coordinators of many ids, by one request."""
        if not transactional_ids:
            return {}
        attempts = self._brokers.attempts(f"finding the coordinators of {len(transactional_ids)} transactions", timeout)

        def ask(connection: Connection, timeout: float) -> dict[str, Broker]:
            return find_coordinators(connection, transactional_ids, timeout, TRANSACTION)

        return self._brokers.retry(attempts, lambda: self._brokers.ask_any(attempts, ask))

    def use_coordinators(self, coordinators: Mapping[str, Broker]) -> None:
        """Ask these first. A coordinator that has moved says so, and is then looked up."""
        for transactional_id, broker in coordinators.items():
            self._coordinators[TRANSACTION, transactional_id] = broker

    def take_transactional_id(
        self, transactional_id: str, transaction_timeout: float, timeout: float | None = None
    ) -> OpenTransaction:
        """Take the id and fence all other producers with it. Returns the first transaction, which is empty.

        The coordinator first ends their transactions: it aborts an open one, and completes one whose commit was
        requested. So everything that they committed is visible from now on, and they write no more.
        """

        def ask(connection: Connection, timeout: float) -> OpenTransaction:
            request = INIT_PRODUCER_ID.request(
                connection.version(INIT_PRODUCER_ID),
                transactional_id=transactional_id,
                transaction_timeout_ms=int(transaction_timeout * 1000),
            )
            answer = connection.call(request, timeout)
            if answer.error_code == _INVALID_TIMEOUT:
                raise BrokerError(
                    f"transactional id {transactional_id!r}: the broker does not allow transactions of "
                    f"{transaction_timeout:g} s. Lower {self.config.option('transaction.timeout.ms')}, or raise the "
                    "broker's transaction.max.timeout.ms (15 minutes by default)"
                )
            _check(answer.error_code, transactional_id, "beginning")
            bumps = connection.feature(TRANSACTION_VERSION) >= 2 and connection.speaks(END_TXN, BUMPING_END)
            return OpenTransaction(transactional_id, answer.producer_id, answer.producer_epoch, 2 if bumps else 1)

        return self._coordinated(transactional_id, "beginning", ask, timeout)

    def add_partitions(self, transaction: OpenTransaction, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to a transaction of version 1."""
        by_topic: dict[str, list[int]] = defaultdict(list)
        for tp in partitions:
            by_topic[tp.topic].append(tp.partition)
        count = sum(map(len, by_topic.values()))

        def ask(connection: Connection, timeout: float) -> None:
            request = ADD_PARTITIONS_TO_TXN.request(
                connection.version(ADD_PARTITIONS_TO_TXN),
                **_named(transaction),
                topics=[{"name": topic, "partitions": numbers} for topic, numbers in by_topic.items()],
            )
            answers = _by_partition(connection.call(request, timeout), count)
            # One that is refused is the reason why others are not attempted.
            for tp, code in sorted(answers.items(), key=lambda item: item[1] == CODES["OPERATION_NOT_ATTEMPTED"]):
                _check(code, transaction.transactional_id, f"adding {tp}")

        self._coordinated(transaction.transactional_id, f"adding {count} partitions", ask)

    def commit_in_transaction(
        self,
        transaction: OpenTransaction,
        group: str,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        member: GroupMember | None = None,
    ) -> None:
        """Commit offsets, with metadata, as part of the transaction. `member`: who the group must still count among
        its own; CommitRefused if it does not. Brokers before Kafka 2.5 check no member, and are refused."""
        if transaction.version < 2:
            self._add_group(transaction, group)
        at_most = LAST_ADDED_OFFSETS if transaction.version < 2 else None
        who = member or NOT_A_MEMBER
        by_topic: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for tp, (offset, metadata) in offsets.items():
            by_topic[tp.topic].append(
                {"partition_index": tp.partition, "committed_offset": offset, "committed_metadata": metadata}
            )
        attempts = self._brokers.attempts(f"committing {len(offsets)} offsets of group {group!r} in a transaction")

        def ask(connection: Connection) -> None:
            if not connection.speaks(OFFSET_FETCH, KNOWS_STABLE):
                raise BrokerError(
                    f"{connection.address} is older than Kafka 2.5: after a failure it may return offsets from before "
                    "the last transaction, and rows would be written twice. Upgrade the brokers, or write at least once"
                    " (Spark: deliveryGuarantee=at-least-once; dead letters: deadLetterTransactional=false)"
                )
            request = TXN_OFFSET_COMMIT.request(
                connection.version(TXN_OFFSET_COMMIT, at_most),
                **_named(transaction),
                group_id=group,
                generation_id=who.generation,
                member_id=who.member_id,
                group_instance_id=who.instance_id,
                topics=[{"name": topic, "partitions": partitions} for topic, partitions in by_topic.items()],
            )
            answer = connection.call(request, attempts.remaining(self.config.request_timeout))
            for tp, code in _by_partition(answer, len(offsets)).items():
                if code in _MEMBERSHIP:
                    raise CommitRefused(group, f"{error_name(code)} in a transaction")
                _check(code, transaction.transactional_id, f"committing {tp} in group {group!r}")

        self._ask_coordinator(group, attempts, ask)

    def _add_group(self, transaction: OpenTransaction, group: str) -> None:
        def ask(connection: Connection, timeout: float) -> None:
            request = ADD_OFFSETS_TO_TXN.request(
                connection.version(ADD_OFFSETS_TO_TXN), **_named(transaction), group_id=group
            )
            code = connection.call(request, timeout).error_code
            _check(code, transaction.transactional_id, f"adding group {group!r}")

        self._coordinated(transaction.transactional_id, f"adding group {group!r}", ask)

    def is_lost(self, transaction: OpenTransaction) -> TransactionLost | None:
        """Why a transaction can no longer be committed; None if it is open."""

        def ask(connection: Connection, timeout: float) -> TransactionState | None:
            return ask_transaction(connection, transaction.transactional_id, timeout)

        found = self._coordinated(transaction.transactional_id, "describing", ask)
        if found is None:
            return self._is_lost_to_old_broker(transaction)
        if found.state == ONGOING and (found.producer_id, found.epoch) == transaction.identity:
            return None
        reason = f"the coordinator has {found.state} for epoch {found.epoch}, this transaction has {transaction.epoch}"
        return TransactionLost(transaction.transactional_id, reason, aborted=True)

    def _is_lost_to_old_broker(self, transaction: OpenTransaction) -> TransactionLost | None:
        """The same for brokers before Kafka 3.0, which do not describe transactions.

        Adding a partition that is in the transaction changes nothing while it is open. Afterwards it is refused: a
        coordinator bumps the epoch when it aborts a transaction at its time-out, or gives the id to another producer.
        Do not ask after the owner has ended the transaction: that bumps nothing, and a new transaction would begin.
        """
        if transaction.partition is None:
            return None  # it has only offsets: notes tell what became of them
        try:
            self.add_partitions(transaction, [transaction.partition])
        except TransactionLost as error:
            return TransactionLost(transaction.transactional_id, error.reason, aborted=True)
        return None

    def end_transaction(
        self,
        transaction: OpenTransaction,
        committed: bool,
        timeout: float | None = None,
        together: SendTogether | None = None,
    ) -> OpenTransaction | None:
        """Commit or abort. When it returns, the outcome is durable, and a commit is visible to readers, unless their
        leaders take longer than VISIBLE_SECONDS to write it. `together`: sends the requests of several clients at the
        same moment.

        Returns the next transaction, which is empty. None if the producer must not go on with its epoch: in version 1
        a request without an answer may still reach the coordinator, which would end the next transaction in its middle.

        It may be repeated, also by another process, and is retried. What answers prove, by Kafka's coordinator:

        - NONE: it ended as asked, now or by an earlier request. In version 1 the coordinator answers so to each request
          with the same epoch, until the next transaction begins. In version 2 it recognises a repeated request by its
          epoch, which is one below the current one.
        - CONCURRENT_TRANSACTIONS: it is being ended; retried until NONE.
        - INVALID_TXN_STATE to a commit: it was aborted, or nothing is in it. It is not, and will not be, committed.
          To an abort: it was committed; in version 1 perhaps nothing is in it.
        - PRODUCER_FENCED, INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING: another producer has taken the id
          since, or the coordinator has aborted the transaction at its time-out, or has forgotten the id. If its commit
          was requested before, it may have been committed. TransactionLost.aborted is False: only what was written
          in the transaction can tell.
        """
        at_most = None if transaction.version >= 2 else BUMPING_END - 1
        what = "committing" if committed else "aborting"
        unanswered = 0

        def send(connection: Connection, timeout: float, together: SendTogether | None) -> OpenTransaction:
            nonlocal unanswered
            request = END_TXN.request(connection.version(END_TXN, at_most), **_named(transaction), committed=committed)
            unanswered += 1
            answer = (
                connection.call(request, timeout) if together is None else together.call(connection, request, timeout)
            )
            unanswered -= 1
            _check(answer.error_code, transaction.transactional_id, what)
            if transaction.version < 2:
                return replace(transaction, partition=None)
            return OpenTransaction(transaction.transactional_id, answer.producer_id, answer.producer_epoch, 2)

        ended = self._coordinated(
            transaction.transactional_id, what, lambda connection, left: send(connection, left, together), timeout
        )
        if committed:
            self._await_markers(transaction, lambda connection, left: send(connection, left, None))
        return None if unanswered and transaction.version < 2 else ended

    def _await_markers(
        self, transaction: OpenTransaction, repeat: Callable[[Connection, float], OpenTransaction]
    ) -> None:
        """Wait until partitions have the markers of a commit, so that readers see it. Raises nothing: it is durable.

        The next transaction would have to wait for it, too. Brokers before Kafka 3.0 do not describe transactions: the
        commit is repeated there, and the coordinator answers CONCURRENT_TRANSACTIONS until markers are written.
        """
        attempts = self._brokers.attempts("waiting for markers", VISIBLE_SECONDS)

        def is_written(connection: Connection) -> bool:
            found = ask_transaction(connection, transaction.transactional_id, attempts.remaining())
            if found is not None:
                return found.state != PREPARE_COMMIT
            try:
                repeat(connection, attempts.remaining())
            except RetriableError as error:
                if error.error_code != CODES["CONCURRENT_TRANSACTIONS"]:
                    raise
                return False
            return True

        def ask(connection: Connection) -> None:
            while not is_written(connection) and not attempts.expired():
                self._brokers.wait(MARKERS_PAUSE)

        try:
            self._ask_coordinator(transaction.transactional_id, attempts, ask, TRANSACTION)
        except BrokerError as error:
            log.debug("the commit of %r will be visible later: %s", transaction.transactional_id, error)

    def _coordinated(
        self,
        transactional_id: str,
        what: str,
        ask: Callable[[Connection, float], Answer],
        timeout: float | None = None,
    ) -> Answer:
        attempts = self._brokers.attempts(f"{what} (transactional id {transactional_id!r})", timeout)

        def ask_until_ended(connection: Connection) -> Answer:
            began = attempts.elapsed
            while True:
                try:
                    return ask(connection, attempts.remaining(self.config.request_timeout))
                except RetriableError as error:
                    is_ending = error.error_code == CODES["CONCURRENT_TRANSACTIONS"]
                    if not is_ending or attempts.elapsed - began >= ENDING_SECONDS or attempts.expired():
                        raise
                self._brokers.wait(ENDING_PAUSE)

        return self._ask_coordinator(transactional_id, attempts, ask_until_ended, TRANSACTION)


def _named(transaction: OpenTransaction) -> dict[str, Any]:
    """The fields that identify a producer in every request."""
    return {
        "transactional_id": transaction.transactional_id,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.epoch,
    }


def _check(error_code: int, transactional_id: str, what: str) -> None:
    if error_code == 0:
        return
    if error_code in LOST:
        raise lost(error_code, transactional_id, what)
    if error_code == _ID_NOT_ALLOWED:
        raise AuthorizationFailed(
            f"{what}: {error_name(error_code)}. The broker's ACLs do not allow Write on transactional id "
            f"{transactional_id!r} for this user"
        )
    check(error_code, f"{what} (transactional id {transactional_id!r})", retries_unknown=False)


def lost(error_code: int, transactional_id: str, what: str) -> TransactionLost:
    return TransactionLost(
        transactional_id, f"{what}: {error_name(error_code)}", aborted=error_code == _INVALID_TXN_STATE
    )


def _by_partition(response: Any, count: int) -> dict[TopicPartition, int]:
    """The error codes in a response about partitions."""
    found = {
        TopicPartition(topic.name, each.partition_index): int(each.error_code)
        for topic in response.topics
        for each in topic.partitions
    }
    if len(found) != count:
        raise ProtocolError(f"asked about {count} partitions, the response has {len(found)}")
    return found
