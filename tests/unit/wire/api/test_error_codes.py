"""What a broker's error code becomes: a retriable error, or an error that names it."""

import kafka.errors
import pytest

from penstock.errors import AuthorizationFailed, BrokerError
from penstock.wire.api.error_codes import NAMES, RETRIABLE, RetriableError, check
from penstock.wire.api.message import Api
from penstock.wire.transport.connection import Connection
from support.configs import client_config


def test_no_error_is_none():
    check(0, "asking")


def test_retriable_errors_are_tried_again_and_others_are_not():
    with pytest.raises(RetriableError, match="asking: NOT_LEADER") as caught:
        check(6, "asking")
    assert caught.value.error_code == 6
    with pytest.raises(BrokerError, match="asking: UNSUPPORTED_COMPRESSION_TYPE"):
        check(76, "asking")
    with pytest.raises(AuthorizationFailed):
        check(29, "asking")


def test_an_unknown_error_is_retried_by_what_reads_and_not_by_what_writes():
    with pytest.raises(RetriableError, match=r"UNKNOWN_SERVER_ERROR: .* Its log says why"):
        check(-1, "asking")
    with pytest.raises(BrokerError, match=r"UNKNOWN_SERVER_ERROR: .* Its log says why"):
        check(-1, "writing", retries_unknown=False)


def test_a_code_of_a_newer_broker_is_named_by_its_number():
    with pytest.raises(BrokerError, match="asking: error 999, which a newer broker may know"):
        check(999, "asking")


DELETE_GROUPS = Api("DeleteGroups", 42, lowest=1, highest=3, flexible=2)


@pytest.mark.parametrize(
    ("spoken", "said"),
    [
        ({}, "does not know DeleteGroups: its Kafka is too old"),
        (
            {42: (0, 0)},
            "takes DeleteGroups up to version 0, which is too old. Penstock needs Kafka 1.0 or newer",
        ),
        ({42: (4, 6)}, "takes DeleteGroups from version 4 on, Penstock sends up to 3. Use a newer Penstock"),
    ],
)
def test_a_request_that_the_broker_does_not_take_says_which_side_is_too_old(spoken, said):
    connection = Connection.__new__(Connection)
    connection.host, connection.port, connection._agreed, connection._versions = "h", 1, {}, spoken
    connection.config = client_config(bootstrap=(("h", 1),))
    with pytest.raises(BrokerError, match=said):
        connection.version(DELETE_GROUPS)


RENAMED = {
    "NO_ERROR": "NONE",
    "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
    "MESSAGE_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
    "INVALID_TOPIC": "INVALID_TOPIC_EXCEPTION",
    "INVALID_REPLICATION_ASSIGNMENT": "INVALID_REPLICA_ASSIGNMENT",
}
"""Names of kafka-python that are not Kafka's."""

UNKNOWN_TO_THEM = {
    "INVALID_REGULAR_EXPRESSION",
    "REBOOTSTRAP_REQUIRED",
    "STREAMS_INVALID_TOPOLOGY",
    "STREAMS_INVALID_TOPOLOGY_EPOCH",
    "STREAMS_TOPOLOGY_FENCED",
    "SHARE_SESSION_LIMIT_REACHED",
}


@pytest.mark.parametrize("code", [code for code, name in enumerate(NAMES) if name not in UNKNOWN_TO_THEM])
def test_names_and_retriable_codes_are_those_of_kafka_python(code):
    theirs = kafka.errors.for_code(code)
    assert NAMES[code] == RENAMED.get(theirs.message, theirs.message)
    assert (code in RETRIABLE) == issubclass(theirs, kafka.errors.RetriableError)


def test_the_codes_that_kafka_python_does_not_know_are_kafkas():
    assert NAMES[128:130] == ["INVALID_REGULAR_EXPRESSION", "REBOOTSTRAP_REQUIRED"]  # Errors.java of Kafka 4.0
    assert NAMES[133] == "SHARE_SESSION_LIMIT_REACHED"  # of Kafka 4.1
