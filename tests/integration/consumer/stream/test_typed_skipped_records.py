"""Records that a deserializer skips, over restarts of a group (F3): they count as read and never come back."""

import contextlib

import pytest

from fixtures.cluster import cluster_of
from fixtures.consumer import eventually
from fixtures.produce import Rec
from fixtures.stream import tp
from penstock import ConsumerTimeout

DESERIALIZED = []
"""The offsets that the deserializer was given, in order."""


class Lines:
    """Skips comments."""

    columns = ("value", "offset")

    def schema(self):
        return "line STRING"

    def deserialize_record(self, record):
        DESERIALIZED.append(record.offset)
        line = record.value.decode()
        return None if line.startswith("#") else {"line": line}


@pytest.fixture
def lines(consumers):
    """`lines(topic, end)`: a new member joins, reads up to this offset, and leaves. Returns its lines."""

    def read(topic, end):
        connector = consumers.connector(valueFormat=f"{__name__}:Lines", consumer_timeout_ms=200)
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        found = []

        def is_at_the_end():
            with contextlib.suppress(ConsumerTimeout):
                for batch in stream.batches(["value"]):
                    found.extend(row["line"] for row in batch.column("value").to_pylist())
            return connector.position().get(tp(topic)) == end

        eventually(is_at_the_end, f"offset {end}")
        connector.shutdown()
        return found

    DESERIALIZED.clear()
    return read


def test_F3_skipped_records_do_not_come_back_when_a_group_restarts(kafka, consumers, topic, produce, lines):
    name = topic()

    def write(*values):
        produce(name, [Rec(value.encode()) for value in values])

    def committed():
        return cluster_of(kafka).committed(consumers.group, [tp(name)])[tp(name)]

    write("one", "# skipped", "two", "# skipped", "# the last one, too")
    assert lines(name, 5) == ["one", "two"]
    assert committed() == 5, "the offset advances past skipped records"
    write("# nothing", "# but", "# comments")
    assert lines(name, 8) == []
    assert committed() == 8, "also where all records are skipped"
    write("three", "# end")
    assert lines(name, 10) == ["three"]
    assert committed() == 10
    assert list(range(10)) == DESERIALIZED, "each record was read once"


def test_F3_a_commit_right_after_a_batch_covers_its_skipped_records(kafka, consumers, topic, produce):
    name = topic()
    produce(name, [Rec(b"one"), Rec(b"# skipped"), Rec(b"# the last one, too")])
    connector = consumers.connector(valueFormat=f"{__name__}:Lines", enable_auto_commit="false")
    (stream,) = connector.create_message_streams({name: 1})[name]
    assert next(stream.batches(["value"])).num_rows == 1
    connector.commit_offsets()
    assert cluster_of(kafka).committed(consumers.group, [tp(name)]) == {tp(name): 3}
