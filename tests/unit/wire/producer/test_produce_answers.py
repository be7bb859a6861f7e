"""What a leader's answer means, and the errors that name the row (W8)."""

from __future__ import annotations

import pytest

from penstock.errors import AuthorizationFailed, BrokerError, UnwritableRecord
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import CODES, UNKNOWN_SERVER_ERROR
from penstock.wire.producer.produce_answers import Meaning, PartitionAnswer, gap, meaning_of, refusal
from support.configs import client_config
from support.encoded_batches import FakeEncoder

TP = TopicPartition("t", 0)
CONFIG = client_config(bootstrap=(("h", 1),))


def refused(name: str, count: int = 4, **more) -> Exception:
    encoder = FakeEncoder(rows=100)
    return refusal(TP, encoder.batch("t", 0, [b"v"] * count), PartitionAnswer(CODES[name], **more), CONFIG)


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("NONE", Meaning.WRITTEN),
        ("DUPLICATE_SEQUENCE_NUMBER", Meaning.WRITTEN),
        ("NOT_ENOUGH_REPLICAS", Meaning.RETRY),
        ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", Meaning.RETRY),
        ("REQUEST_TIMED_OUT", Meaning.RETRY),
        ("CONCURRENT_TRANSACTIONS", Meaning.RETRY),
        ("CORRUPT_MESSAGE", Meaning.RETRY),
        ("NOT_LEADER_OR_FOLLOWER", Meaning.MOVED),
        ("LEADER_NOT_AVAILABLE", Meaning.MOVED),
        ("UNKNOWN_TOPIC_OR_PARTITION", Meaning.MOVED),
        ("UNKNOWN_TOPIC_ID", Meaning.MOVED),
        ("OUT_OF_ORDER_SEQUENCE_NUMBER", Meaning.OUT_OF_ORDER),
        ("MESSAGE_TOO_LARGE", Meaning.TOO_LARGE),
        ("RECORD_LIST_TOO_LARGE", Meaning.TOO_LARGE),
        ("PRODUCER_FENCED", Meaning.LOST),
        ("INVALID_PRODUCER_EPOCH", Meaning.LOST),
        ("TRANSACTION_ABORTABLE", Meaning.LOST),
        ("TOPIC_AUTHORIZATION_FAILED", Meaning.REFUSED),
        ("POLICY_VIOLATION", Meaning.REFUSED),
        ("INVALID_RECORD", Meaning.REFUSED),
    ],
)
def test_what_codes_mean_for_a_batch(name, meaning):
    assert meaning_of(CODES[name]) is meaning


def test_an_error_without_a_code_is_not_retried():
    """Most often the broker will never accept the batch, as in Java's producer."""
    assert meaning_of(UNKNOWN_SERVER_ERROR) is Meaning.REFUSED
    answer = PartitionAnswer(UNKNOWN_SERVER_ERROR)
    error = refusal(TP, FakeEncoder().batch("t", 0, [b"v"]), answer, CONFIG)
    assert "writing row 0 to t-0: UNKNOWN_SERVER_ERROR" in str(error)


def test_W8_a_record_that_is_too_large_names_its_row_and_what_to_change():
    error = refused("MESSAGE_TOO_LARGE", count=1)
    assert isinstance(error, UnwritableRecord)
    assert (error.topic, error.partition, error.row, error.too_large) == ("t", 0, 100, True)
    assert "max.message.bytes" in error.hint
    assert "kafka.compression.type" in error.hint


def test_W8_a_bad_record_within_a_batch_is_found():
    error = refused("INVALID_RECORD", bad_records=((2, "no key"),))
    assert isinstance(error, UnwritableRecord)
    assert error.row == 102
    assert "The broker says: no key" in str(error)
    assert not error.too_large


def test_W8_without_a_place_the_whole_batch_is_named():
    error = refused("INVALID_TIMESTAMP")
    assert isinstance(error, UnwritableRecord)
    assert "or another of 4 records" in str(error)


def test_W8_a_user_who_may_not_write_learns_which_permission_is_missing():
    error = refused("TOPIC_AUTHORIZATION_FAILED")
    assert isinstance(error, AuthorizationFailed)
    assert "do not allow Write on topic 't'" in str(error)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("INVALID_REQUIRED_ACKS", "Change kafka.acks"),
        ("UNSUPPORTED_COMPRESSION_TYPE", "Change kafka.compression.type"),
        ("POLICY_VIOLATION", "The broker says: no"),
    ],
)
def test_W8_other_refusals_say_what_to_change(name, text):
    error = refused(name, message="no")
    assert isinstance(error, BrokerError)
    assert "writing rows 100 to 103 to t-0" in str(error)
    assert text in str(error)


def test_a_gap_says_that_the_broker_lost_records():
    assert "no longer has records" in str(gap(TP, FakeEncoder().batch("t", 0, [b"v"])))
