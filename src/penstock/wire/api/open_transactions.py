"""The DescribeProducers and ListTransactions APIs (KIP-664): which producer holds a transaction open.

Under read_committed a partition is readable up to its first open transaction, and neither ListOffsets nor Fetch names
its producer. Brokers before Kafka 3.0 do not have these APIs, and ACLs may forbid them: then producers are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from penstock.model.topic_partition import TopicPartition, by_topic
from penstock.wire.api.message import Api, Structure, array, int16, int32, int64, nullable_text, numbers, text, texts
from penstock.wire.transport.connection import Connection, Pending

DESCRIBE_PRODUCERS = Api(
    "DescribeProducers",
    61,
    lowest=0,
    highest=0,
    flexible=0,
    request_body=Structure(array("topics", text("name"), numbers("partition_indexes"))),
    response_body=Structure(
        int32("throttle_time_ms"),
        array(
            "topics",
            text("name"),
            array(
                "partitions",
                int32("partition_index"),
                int16("error_code"),
                nullable_text("error_message"),
                array(
                    "active_producers",
                    int64("producer_id"),
                    int32("producer_epoch"),
                    int32("last_sequence"),
                    int64("last_timestamp"),
                    int32("coordinator_epoch"),
                    int64("current_txn_start_offset"),
                ),
            ),
        ),
    ),
)

LIST_TRANSACTIONS = Api(
    "ListTransactions",
    66,
    lowest=0,
    highest=0,
    flexible=0,
    request_body=Structure(texts("state_filters"), numbers("producer_id_filters", "q")),
    response_body=Structure(
        int32("throttle_time_ms"),
        int16("error_code"),
        texts("unknown_state_filters"),
        array("transaction_states", text("transactional_id"), int64("producer_id"), text("transaction_state")),
    ),
)


@dataclass(frozen=True, slots=True)
class OpenTransactionOwner:
    """The producer whose transaction is the first open one of a partition."""

    start_offset: int
    producer_id: int
    producer_epoch: int
    last_timestamp: int
    """Milliseconds; -1 if the broker does not say."""
    transactional_id: str | None = None

    def __str__(self) -> str:
        named = "" if self.transactional_id is None else f"transactional id {self.transactional_id!r}, "
        written = ""
        if self.last_timestamp >= 0:
            moment = datetime.fromtimestamp(self.last_timestamp / 1000, UTC)
            written = f", last written to at {moment.isoformat(timespec='milliseconds')}"
        return f"{named}producer id {self.producer_id}, epoch {self.producer_epoch}{written}"


def ask_owners(
    connection: Connection, partitions: Collection[TopicPartition]
) -> Pending[dict[TopicPartition, OpenTransactionOwner]]:
    """Ask a leader for the producer of each partition's first open transaction. Others are left out."""
    if not connection.speaks(DESCRIBE_PRODUCERS, 0):
        return lambda timeout: {}
    topics = [{"name": name, "partition_indexes": numbers} for name, numbers in by_topic(partitions).items()]
    request = DESCRIBE_PRODUCERS.request(connection.version(DESCRIBE_PRODUCERS), topics=topics)
    answer = connection.ask(request, connection.config.request_timeout)

    def read(timeout: float) -> dict[TopicPartition, OpenTransactionOwner]:
        found: dict[TopicPartition, OpenTransactionOwner] = {}
        for topic in answer(timeout).topics:
            for each in topic.partitions:
                active = (
                    [] if each.error_code else [p for p in each.active_producers if p.current_txn_start_offset >= 0]
                )
                if not active:
                    continue
                first = min(active, key=lambda producer: producer.current_txn_start_offset)
                found[TopicPartition(topic.name, each.partition_index)] = OpenTransactionOwner(
                    first.current_txn_start_offset, first.producer_id, first.producer_epoch, first.last_timestamp
                )
        return found

    return read


def ask_transactional_ids(connection: Connection, producer_ids: Iterable[int]) -> Pending[dict[int, str]]:
    """Ask a coordinator for the transactional ids of producers. It names those that it coordinates and that this user
    may see."""
    if not connection.speaks(LIST_TRANSACTIONS, 0):
        return lambda timeout: {}
    request = LIST_TRANSACTIONS.request(
        connection.version(LIST_TRANSACTIONS), state_filters=(), producer_id_filters=list(producer_ids)
    )
    answer = connection.ask(request, connection.config.request_timeout)

    def read(timeout: float) -> dict[int, str]:
        listed = answer(timeout)
        if listed.error_code:
            return {}
        return {each.producer_id: each.transactional_id for each in listed.transaction_states}

    return read
