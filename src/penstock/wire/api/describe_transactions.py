"""The DescribeTransactions API (KIP-664): the state of transactions, by their coordinators. Since Kafka 3.0."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import ProtocolError
from penstock.wire.api.error_codes import CODES, check
from penstock.wire.api.message import Api, Structure, array, int16, int32, int64, numbers, text, texts
from penstock.wire.transport.connection import Connection

DESCRIBE_TRANSACTIONS = Api(
    "DescribeTransactions",
    65,
    lowest=0,
    highest=0,
    flexible=0,
    request_body=Structure(texts("transactional_ids")),
    response_body=Structure(
        int32("throttle_time_ms"),
        array(
            "transaction_states",
            int16("error_code"),
            text("transactional_id"),
            text("transaction_state"),
            int32("transaction_timeout_ms"),
            int64("transaction_start_time_ms"),
            int64("producer_id"),
            int16("producer_epoch"),
            array("topics", text("topic"), numbers("partitions")),
        ),
    ),
)

ONGOING = "Ongoing"
PREPARE_COMMIT = "PrepareCommit"
"""The commit is durable, and its markers are being written to the partitions."""
NOT_FOUND = "NotFound"


@dataclass(frozen=True, slots=True)
class TransactionState:
    """A transaction as its coordinator sees it."""

    state: str
    """Kafka's name, such as `Ongoing` or `CompleteAbort`; `NotFound` if the coordinator does not know the id."""
    producer_id: int = -1
    epoch: int = -1


def ask_transaction(connection: Connection, transactional_id: str, timeout: float) -> TransactionState | None:
    """Ask the coordinator of a transactional id for the state of its last transaction. None if it is too old to say."""
    if not connection.speaks(DESCRIBE_TRANSACTIONS, 0):
        return None
    request = DESCRIBE_TRANSACTIONS.request(
        connection.version(DESCRIBE_TRANSACTIONS), transactional_ids=[transactional_id]
    )
    states = connection.call(request, timeout).transaction_states
    if len(states) != 1:
        raise ProtocolError(f"asked about one transactional id, the response has {len(states)}")
    (found,) = states
    if found.error_code == CODES["TRANSACTIONAL_ID_NOT_FOUND"]:
        return TransactionState(NOT_FOUND)
    check(found.error_code, f"describing transactional id {transactional_id!r}")
    return TransactionState(found.transaction_state, found.producer_id, found.producer_epoch)
