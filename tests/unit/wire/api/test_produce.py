"""The producer: its batches against kafka-python's own decoder and checksum."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.producer import ProduceRequest
from kafka.record._crc32c import crc
from kafka.record.default_records import DefaultRecordBatch

from penstock._kernel import Decoder
from penstock.errors import BrokerError
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.metadata import Broker, Leader, Metadata, Topic
from penstock.wire.api.produce import GZIP, ZSTD, Producer, Record, Sender, crc32c, encode_batch
from penstock.wire.api.transactions import TransactionalProducer
from support.configs import client_config

RECORDS = st.lists(
    st.builds(
        Record,
        st.none() | st.binary(max_size=50),
        st.none() | st.binary(max_size=20_000),
        st.integers(0, 2**42),
        st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=20)), max_size=3),
    ),
    min_size=1,
    max_size=30,
)


@given(st.binary(max_size=1000))
def test_the_checksum_is_castagnolis(data):
    assert crc32c(data) == crc(data)


@pytest.mark.parametrize("codec", [ZSTD, GZIP], ids=["zstd", "gzip"])
@given(RECORDS)
def test_a_batch_reads_back_as_it_was_written(codec, records):
    data = encode_batch(records, codec)
    assert DefaultRecordBatch(data).compression_type == codec.number
    assert DefaultRecordBatch(data).validate_crc()
    decoder = Decoder("t", 0, ["key", "value", "timestamp", "headers"])
    decoder.open(data, start=0, stop=len(records), high_watermark=len(records), aligned=True, cut=False)

    found = []
    while (batch := decoder.next_batch()) is not None:
        rows = pa.record_batch(batch)
        times = rows.column("timestamp").cast(pa.int64()).to_pylist()
        headers = [[(h["key"], h["value"]) for h in one or ()] for one in rows.column("headers").to_pylist()]
        found += zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), times, headers, strict=True)
    assert found == [(r.key, r.value, r.timestamp * 1000, list(r.headers)) for r in records]


@given(RECORDS, st.integers(0, 2**62), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1))
def test_a_batch_of_a_transaction_says_whose_it_is(records, producer_id, epoch, sequence):
    batch = DefaultRecordBatch(encode_batch(records, ZSTD, Sender("id", producer_id, epoch), sequence))
    assert batch.validate_crc()
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (producer_id, epoch, sequence)
    assert [record.value for record in batch] == [record.value for record in records]
    assert not DefaultRecordBatch(encode_batch(records)).is_transactional


class OldBroker:
    """A leader that speaks Produce up to some version, and does not know zstd before version 7."""

    address = "old:9092"
    host, port, reusable, overdue_check = "old", 9092, True, None

    def __init__(self, highest, error_code=0):
        self.highest, self.error_code, self.codecs = highest, error_code, []
        self.config = client_config(bootstrap=(("old", 9092),))

    def speaks(self, api, version):
        return version <= self.highest

    def version(self, api, at_most):
        return min(self.highest, at_most)

    def ask(self, request, timeout):
        sent = ProduceRequest.decode(request.body, version=request.version)
        batch = DefaultRecordBatch(sent.topic_data[0].partition_data[0].records)
        self.codecs.append(batch.compression_type)
        unknown = -1 if batch.compression_type == ZSTD.number and self.highest < 7 else self.error_code
        answer = SimpleNamespace(partition_responses=[SimpleNamespace(error_code=unknown)])
        return lambda timeout: SimpleNamespace(responses=[answer])

    def close(self):
        pass


KNOWN = Metadata({1: (OLD := Broker(1, "old", 9092))}, {"dead": Topic("dead", None, False, {0: Leader(OLD, 0)})})
LETTER = [Record(b"k", b"v", 0)]


@pytest.fixture
def writers(monkeypatch):
    """`writers(broker)`: what writes a batch, each way that there is."""

    def make(broker):
        monkeypatch.setattr("penstock.wire.cluster.Cluster.listing", lambda self, topics: (KNOWN, []))
        for module in ("api.produce", "brokers"):
            monkeypatch.setattr(f"penstock.wire.{module}.POOL.acquire", lambda *_: broker)
            monkeypatch.setattr(f"penstock.wire.{module}.POOL.release", lambda _: None)
        transactional = TransactionalProducer(broker.config, "id")
        transactional._sender, transactional._partition = Sender("id", 1, 0), TopicPartition("dead", 0)
        plain = Producer(broker.config, "dead")
        return [
            lambda: plain.append(0, LETTER),
            lambda: transactional.append(TopicPartition("dead", 0), LETTER),
        ]

    return make


@pytest.mark.parametrize(("highest", "codec"), [(5, GZIP), (6, GZIP), (7, ZSTD), (12, ZSTD)])
def test_batches_are_compressed_by_a_codec_that_the_broker_knows(writers, highest, codec):
    broker = OldBroker(highest)
    for write in writers(broker):
        write()
    assert broker.codecs == [codec.number] * 2


def test_an_error_without_a_name_is_raised_at_once_and_blames_the_broker(writers):
    """It is the same for every try: none is worth a minute, and bootstrap.servers is right."""
    broker = OldBroker(12, error_code=-1)
    for write in writers(broker):
        with pytest.raises(BrokerError, match=r"writing to dead-0.*UNKNOWN_SERVER_ERROR.*Its log says why$") as caught:
            write()
        assert "bootstrap" not in str(caught.value)
    assert len(broker.codecs) == 2
