"""What the answer of a leader means for a batch, and the errors for batches that are refused. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple, Self

from penstock.errors import AuthorizationFailed, BrokerError, PenstockError, UnwritableRecord
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import CODES, RETRIABLE, RetriableError, check, codes, error_name
from penstock.wire.client_config import ClientConfig
from penstock.wire.producer.partition_queue import Batch


class Meaning(Enum):
    WRITTEN = "written"
    RETRY = "to be sent again, to the same leader"
    MOVED = "to be sent again, when the leader is known"
    OUT_OF_ORDER = "does not follow the last batch that the leader has"
    TOO_LARGE = "larger than the topic accepts"
    LOST = "the transaction can no longer be committed"
    REFUSED = "never accepted"


_WRITTEN = codes("NONE", "DUPLICATE_SEQUENCE_NUMBER")
_TOO_LARGE = codes("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE")
_CORRUPT = CODES["CORRUPT_MESSAGE"]
"""Damaged on its way: worth a retry, as in Java's producer."""
_OUT_OF_ORDER = CODES["OUT_OF_ORDER_SEQUENCE_NUMBER"]
_LOST = codes(
    *("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE"),
    *("TRANSACTION_ABORTABLE", "TRANSACTION_COORDINATOR_FENCED", "UNKNOWN_PRODUCER_ID"),
)
_MOVED = codes(
    *("UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER", "REPLICA_NOT_AVAILABLE"),
    *("KAFKA_STORAGE_ERROR", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "UNKNOWN_TOPIC_ID"),
    *("INCONSISTENT_TOPIC_ID", "NETWORK_EXCEPTION", "LISTENER_NOT_FOUND"),
)

_RECORD_HINTS = {
    CODES["INVALID_TIMESTAMP"]: "its timestamp is further from the broker's time than the topic's "
    "message.timestamp.after.max.ms or message.timestamp.before.max.ms allows",
    CODES["INVALID_RECORD"]: "the topic does not accept it. A compacted topic needs a key for each record",
}
_OPTIONS = {CODES["UNSUPPORTED_COMPRESSION_TYPE"]: "compression.type", CODES["INVALID_REQUIRED_ACKS"]: "acks"}
"""The options to change."""


class PartitionAnswer(NamedTuple):
    """A leader's answer about one batch."""

    error_code: int
    base_offset: int = -1
    message: str | None = None
    bad_records: tuple[tuple[int, str | None], ...] = ()
    """The records of the batch that are to blame, with the broker's reasons."""

    @classmethod
    def of(cls, response: Any) -> Self:
        """From the partition in a response."""
        if not response.error_code:
            return cls(0, response.base_offset)
        bad = tuple((each.batch_index, each.batch_index_error_message) for each in response.record_errors)
        return cls(response.error_code, response.base_offset, response.error_message, bad)


def meaning_of(error_code: int) -> Meaning:
    if error_code in _WRITTEN:
        return Meaning.WRITTEN
    if error_code in _TOO_LARGE:
        return Meaning.TOO_LARGE
    if error_code == _OUT_OF_ORDER:
        return Meaning.OUT_OF_ORDER
    if error_code in _LOST:
        return Meaning.LOST
    if error_code in _MOVED:
        return Meaning.MOVED
    return Meaning.RETRY if error_code in RETRIABLE or error_code == _CORRUPT else Meaning.REFUSED


def refusal(tp: TopicPartition, batch: Batch, answer: PartitionAnswer, config: ClientConfig) -> PenstockError:
    """The error for a batch that the broker will never accept, with its place in the input (W8)."""
    code = answer.error_code
    if code in _TOO_LARGE:
        hint = f"Raise the topic's max.message.bytes, or set {config.option('compression.type')}"
        reason = f"the topic does not accept a record of {batch.payload_bytes} bytes"
        error = _unwritable(tp, batch, 0, reason, hint)
        error.too_large = True
        return error
    if code in _RECORD_HINTS:
        at, why = answer.bad_records[0] if answer.bad_records else (0, answer.message)
        among = "" if answer.bad_records or batch.count == 1 else f", or another of {batch.count} records"
        reason = f"{error_name(code)}{among}: {_RECORD_HINTS[code]}" + (f". The broker says: {why}" if why else "")
        return _unwritable(tp, batch, at, reason, "")
    what = f"writing {_rows(batch)} to {tp}"
    try:
        check(code, what, retries_unknown=False)
    except AuthorizationFailed:
        return AuthorizationFailed(
            f"{what}: {error_name(code)}. The broker's ACLs do not allow Write on topic {tp.topic!r} for this user"
        )
    except BrokerError as error:
        hint = f". Change {config.option(_OPTIONS[code])}" if code in _OPTIONS else ""
        return BrokerError(f"{error}{hint}" + (f". The broker says: {answer.message}" if answer.message else ""))
    except RetriableError as error:
        return BrokerError(str(error))
    raise AssertionError(f"{error_name(code)} is not a refusal")


def gap(tp: TopicPartition, batch: Batch) -> BrokerError:
    """The error for a batch that does not follow the last one that the broker has, though that was acknowledged."""
    return BrokerError(
        f"writing {_rows(batch)} to {tp}: OUT_OF_ORDER_SEQUENCE_NUMBER. The broker no longer has records that it "
        "acknowledged before: it lost them in an unclean leader election, or deleted the producer's state. Start the "
        "write again"
    )


def _rows(batch: Batch) -> str:
    return f"row {batch.first_row}" if batch.count == 1 else f"rows {batch.first_row} to {batch.last_row}"


def _unwritable(tp: TopicPartition, batch: Batch, at: int, reason: str, hint: str) -> UnwritableRecord:
    while batch.count > 1:
        first, second = batch.split()
        batch, at = (first, at) if at < first.count else (second, at - first.count)
    if batch.last_row > batch.first_row:  # part of a batch whose rows are not neighbours
        reason = f"it, or a row up to {batch.last_row}: {reason}"
    return UnwritableRecord(tp.topic, tp.partition, batch.first_row, batch.first_key(), reason, hint)
