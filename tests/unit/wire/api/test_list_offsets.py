"""Our ListOffsets against kafka-python's own, byte for byte and field for field, in every version we speak."""

import struct

import pytest
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from penstock.config.source import parse_options
from penstock.errors import AuthorizationFailed
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    FLEXIBLE,
    HIGHEST,
    KNOWS_LOCAL,
    LATEST,
    LIST_OFFSETS,
    LOWEST,
    NOT_FOUND,
    ask_largest,
    ask_times,
    encode_offsets_request,
    read_offsets_response,
    read_times_response,
)
from penstock.wire.api.message import EncodedRequest
from penstock.wire.api.metadata import Broker, Leader, Metadata, Topic

VERSIONS = range(LOWEST, HIGHEST + 1)
BROKER = Broker(1, "host", 9092)
NAMES = {"a": 3, "topic.with-a_längeren.name" * 8: 1, "b": 200}
TIMES = {
    TopicPartition(name, p): [LATEST, EARLIEST, 1_700_000_000_000 + p][p % 3]
    for name in NAMES
    for p in range(NAMES[name])
}
ASKED = {name: {p: TopicPartition(name, p) for p in range(count)} for name, count in NAMES.items()}
METADATA = Metadata(
    {1: BROKER},
    {
        name: Topic(name, None, False, {p: Leader(BROKER, p + 7) if p != 1 else None for p in range(count)})
        for name, count in NAMES.items()
    },
)


def theirs(version, times, read_committed):
    topic_class = ListOffsetsRequest.ListOffsetsTopic
    topics = []
    for name, numbers in ASKED.items():
        partitions = [
            topic_class.ListOffsetsPartition(
                version=version,
                partition_index=p,
                current_leader_epoch=-1 if p == 1 else p + 7,
                timestamp=times[tp],
            )
            for p, tp in numbers.items()
        ]
        topics.append(topic_class(version=version, name=name, partitions=partitions))
    return ListOffsetsRequest(
        version=version, replica_id=-1, isolation_level=int(read_committed), topics=topics, timeout_ms=30_000
    )


@pytest.mark.parametrize("read_committed", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_request_is_the_same_byte_for_byte(version, read_committed):
    request = theirs(version, TIMES, read_committed)
    request.with_header(correlation_id=77, client_id="penstöck")
    body = encode_offsets_request(version, ASKED, TIMES, METADATA, read_committed, 30.0)
    ours = EncodedRequest(LIST_OFFSETS, version, body)
    assert ours.encode(77, "penstöck") == request.encode(framed=True, header=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_brokers_that_know_no_tiered_storage_are_asked_for_the_beginning(version):
    ours = encode_offsets_request(version, ASKED, dict.fromkeys(TIMES, EARLIEST_LOCAL), METADATA, False, 30.0)
    expected = EARLIEST_LOCAL if version >= KNOWS_LOCAL else EARLIEST
    assert ours == theirs(version, dict.fromkeys(TIMES, expected), False).encode()


def response(version, rows, correlation_id=5):
    """A frame as kafka-python writes it; rows: {topic: [(partition, error code, offset)]}, or a timestamp as well."""
    topic_class = ListOffsetsResponse.ListOffsetsTopicResponse
    topics = [
        topic_class(
            version=version,
            name=name,
            partitions=[
                topic_class.ListOffsetsPartitionResponse(
                    version=version,
                    partition_index=p,
                    error_code=error,
                    timestamp=timestamp[0] if timestamp else -1,
                    offset=offset,
                    leader_epoch=3,
                )
                for p, error, offset, *timestamp in partitions
            ],
        )
        for name, partitions in rows.items()
    ]
    header = struct.pack(">i", correlation_id) + (b"\0" if version >= FLEXIBLE else b"")
    return memoryview(header + ListOffsetsResponse(version=version, throttle_time_ms=20, topics=topics).encode())


@pytest.mark.parametrize("version", VERSIONS)
def test_the_response_is_read_as_kafka_python_writes_it(version):
    # In another order than asked, as brokers do.
    rows = {name: [(p, 0, p * 1000) for p in reversed(range(count))] for name, count in reversed(NAMES.items())}
    found, refused = read_offsets_response(response(version, rows), version, 5, ASKED, TIMES)
    assert found == {tp: tp.partition * 1000 for tp in TIMES}
    assert refused == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_that_may_heal_are_kept_apart_and_others_raised(version):
    rows = {"a": [(0, 6, -1), (1, 0, 5), (2, 74, -1)]}
    found, refused = read_offsets_response(response(version, rows), version, 5, ASKED, TIMES)
    assert found == {TopicPartition("a", 1): 5}
    assert {tp: problem.error_code for tp, problem in refused.items()} == {
        TopicPartition("a", 0): 6,
        TopicPartition("a", 2): 74,
    }
    with pytest.raises(AuthorizationFailed, match="offsets of a-1"):
        read_offsets_response(response(version, {"a": [(1, 29, -1)]}), version, 5, ASKED, TIMES)


def test_what_was_not_asked_for_is_left_aside():
    rows = {"a": [(0, 0, 1), (77, 0, 2)], "stranger": [(0, 29, -1)]}
    found, refused = read_offsets_response(response(11, rows), 11, 5, ASKED, TIMES)
    assert (found, refused) == ({TopicPartition("a", 0): 1}, {})


def test_a_beginning_or_an_end_that_is_no_offset_is_asked_for_again():
    rows = {"a": [(0, 0, -1), (1, 0, -1)]}  # asked for: the end, the beginning
    found, refused = read_offsets_response(response(11, rows), 11, 5, ASKED, TIMES)
    assert found == {}
    assert set(refused) == {TopicPartition("a", 0), TopicPartition("a", 1)}
    assert "makes no sense" in str(refused[TopicPartition("a", 0)])


def test_tagged_fields_of_a_partition_are_stepped_over():
    plain = bytes(response(11, {"a": [(0, 0, 10), (1, 0, 11), (2, 0, 12)]}))
    first = plain.index(struct.pack(">ihqqi", 0, 0, -1, 10, 3)) + 26
    assert plain[first] == 0
    tagged = plain[:first] + b"\x02\x00\x01x\x01\x02yz" + plain[first + 1 :]
    found, _ = read_offsets_response(memoryview(tagged), 11, 5, ASKED, TIMES)
    assert found == {TopicPartition("a", p): 10 + p for p in range(3)}


# --- with timestamps --------------------------------------------------------------------------------------------------

LATER = {tp: 1_700_000_000_000 + tp.partition for tp in TIMES}


@pytest.mark.parametrize("version", VERSIONS)
def test_timestamps_are_read_as_kafka_python_writes_them(version):
    rows = {
        name: [(p, 0, p * 1000, LATER[name, p] + 9) for p in reversed(range(count))] for name, count in NAMES.items()
    }
    found, refused = read_times_response(response(version, rows), version, 5, ASKED, LATER)
    assert found == {tp: (tp.partition * 1000, time + 9) for tp, time in LATER.items()}
    assert refused == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_times_without_a_record_and_with_errors(version):
    rows = {"a": [(0, 6, -1, -1), (1, 0, -1, -1), (2, 0, 8, LATER["a", 2])]}
    found, refused = read_times_response(response(version, rows), version, 5, ASKED, LATER)
    assert found == {TopicPartition("a", 1): NOT_FOUND, TopicPartition("a", 2): (8, LATER["a", 2])}
    assert {tp: problem.error_code for tp, problem in refused.items()} == {TopicPartition("a", 0): 6}
    with pytest.raises(AuthorizationFailed, match="offsets of a-1"):
        read_times_response(response(version, {"a": [(1, 29, -1)]}), version, 5, ASKED, LATER)


def test_a_record_before_the_time_is_no_answer():
    rows = {"a": [(0, 0, 5, LATER["a", 0] - 1)], "stranger": [(0, 0, 1, 1)]}
    found, refused = read_times_response(response(11, rows), 11, 5, ASKED, LATER)
    assert found == {}
    assert "makes no sense" in str(refused[TopicPartition("a", 0)])


def test_tagged_fields_are_stepped_over_with_timestamps_too():
    time = LATER["a", 0] + 5
    plain = bytes(response(11, {"a": [(0, 0, 10, time), (1, 0, 11, time)]}))
    first = plain.index(struct.pack(">ihqqi", 0, 0, time, 10, 3)) + 26
    tagged = plain[:first] + b"\x01\x00\x01x" + plain[first + 1 :]
    found, _ = read_times_response(memoryview(tagged), 11, 5, ASKED, LATER)
    assert found == {TopicPartition("a", p): (10 + p, time) for p in range(2)}


class Sent:
    """A connection to a broker of some version, that keeps what is sent."""

    def __init__(self, version):
        options = {"kafka.bootstrap.servers": "h:1", "subscribe": "a", "kafka.isolation.level": "read_committed"}
        self.config = parse_options(options).client
        self.requests = []
        self._version = version

    def version(self, api, at_most=None):
        return min(self._version, api.highest)

    def send(self, request, timeout):
        self.requests.append(request)
        return 5


def test_times_are_asked_for_as_one_that_reads_uncommitted():
    """An open transaction then gives an offset, and not -1."""
    connection = Sent(7)
    ask_times(connection, list(TIMES), LATER, METADATA)
    ask_largest(connection, list(TIMES), METADATA)
    assert [request.body[4] for request in connection.requests] == [0, 0], "the isolation level, after the replica"


def test_brokers_that_do_not_know_the_largest_timestamp_are_not_asked():
    connection = Sent(6)
    assert ask_largest(connection, list(TIMES), METADATA)(1.0) == (dict.fromkeys(TIMES, NOT_FOUND), {})
    assert connection.requests == []
