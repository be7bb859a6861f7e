"""The producer: its batches against kafka-python's own decoder and checksum."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from kafka.record._crc32c import crc
from kafka.record.default_records import DefaultRecordBatch

from penstock._kernel import Decoder
from penstock.wire.producer import Record, Sender, crc32c, encode_batch

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


@given(RECORDS)
def test_a_batch_reads_back_as_it_was_written(records):
    data = encode_batch(records)
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
    batch = DefaultRecordBatch(encode_batch(records, Sender("id", producer_id, epoch), sequence))
    assert batch.validate_crc()
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (producer_id, epoch, sequence)
    assert [record.value for record in batch] == [record.value for record in records]
    assert not DefaultRecordBatch(encode_batch(records)).is_transactional
