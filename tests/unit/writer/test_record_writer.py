"""How batches are numbered from one transaction to the next."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from penstock.config.sink import parse_sink_options
from penstock.wire.producer.identity import Identity
from penstock.writer.record_writer import RecordWriter

OPTIONS = {"kafka.bootstrap.servers": "localhost:9092", "topic": "t", "kafka.transactional.id": "id"}
ROWS = pa.record_batch({"value": pa.array([b"a", b"b", b"c"])})


class FakeProducer:
    """Keeps what was sent: producer id, epoch and first sequence of each batch."""

    transactional_id = "id"

    def __init__(self):
        self.identity = Identity(7, 0)
        self.sent = []

    def begin(self):
        return self.identity

    def partition_count(self, topic):
        return 1, [0]

    def send_all(self, batches):
        self.sent += [struct.unpack_from(">qhi", batch.data, 43) for batch in batches]

    def flush(self):
        pass


def written_in_two_transactions(second_identity):
    producer = FakeProducer()
    writer = RecordWriter(parse_sink_options(OPTIONS), producer)
    writer.begin()
    for identity in (producer.identity, second_identity):
        producer.identity = identity
        writer.use_identity()
        writer.write(ROWS)
        writer.flush()
    return producer.sent


@pytest.mark.parametrize(
    ("second_identity", "second_sequence"),
    [(Identity(7, 0), 3), (Identity(7, 1), 0), (Identity(8, 0), 0)],
    ids=["before Kafka 4.0", "an epoch per transaction", "another producer id"],
)
def test_W4_numbers_go_on_as_long_as_the_identity_stays(second_identity, second_sequence):
    assert written_in_two_transactions(second_identity) == [(7, 0, 0), (*second_identity, second_sequence)]
