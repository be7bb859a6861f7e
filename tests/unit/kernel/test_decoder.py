"""The kernel's contract, through Python."""

from __future__ import annotations

import gc
import struct
import threading

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from hostile.record_batches import (
    BASE_TIME,
    CODECS,
    PARTITION,
    TOPIC,
    Batch,
    chunk,
    counted,
    marker,
    read,
    record,
)
from penstock import _kernel
from penstock._kernel import COLUMNS, Decoder
from penstock.errors import CorruptBatch
from penstock.model.columns import arrow_schema
from penstock.spark.schema import raw_schema


def test_columns_are_those_of_sparks_source_in_its_order() -> None:
    assert COLUMNS == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def test_version_is_the_packages() -> None:
    assert _kernel.__version__.count(".") == 2


def test_schema_equals_what_pyspark_makes_of_sparks_kafka_schema() -> None:
    wanted = to_arrow_schema(raw_schema(None, include_headers=True), timezone="UTC")
    decoder = Decoder(TOPIC, PARTITION, COLUMNS)
    decoder.open(chunk(counted(0, 1)), start=0, stop=1, high_watermark=1, aligned=True, cut=False)
    batch = decoder.next_batch()
    assert batch is not None
    assert pa.record_batch(batch).schema.equals(wanted, check_metadata=True)
    assert pa.schema(batch).equals(wanted)
    assert arrow_schema(COLUMNS).equals(wanted, check_metadata=True)


def test_every_column_holds_what_the_record_says() -> None:
    headers = [(b"trace", b"\x00\x01"), (b"empty", b""), (b"none", None)]
    data = Batch(40, [record(0, b"v", b"k", headers, time_delta=7)]).encode()
    assert read(data, 40).rows == [
        {
            "key": b"k",
            "value": b"v",
            "topic": TOPIC,
            "partition": PARTITION,
            "offset": 40,
            "timestamp": (BASE_TIME + 7) * 1000,
            "timestampType": 0,
            "headers": [
                {"key": "trace", "value": b"\x00\x01"},
                {"key": "empty", "value": b""},
                {"key": "none", "value": None},
            ],
        }
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_null_and_empty_stay_two_things_in_every_codec(codec: str) -> None:
    data = Batch(0, [record(0, None, b""), record(1, b"", None), record(2)], codec=codec).encode()
    assert [(row["key"], row["value"]) for row in read(data).rows] == [(b"", None), (None, b""), (b"key", b"value")]


def test_a_record_without_headers_has_null_as_sparks_source_shows_it() -> None:
    data = Batch(0, [record(0), record(1, headers=[(b"h", b"x")])]).encode()
    assert [row["headers"] for row in read(data).rows] == [None, [{"key": "h", "value": b"x"}]]


def test_a_header_key_that_is_not_utf8_is_mended_as_java_does() -> None:
    data = Batch(0, [record(0, headers=[(b"a\xffb", None)])]).encode()
    assert read(data).rows[0]["headers"] == [{"key": "a\ufffdb", "value": None}]


def test_log_append_time_is_the_batchs_own() -> None:
    data = chunk(counted(0, 1), counted(1, 2, attributes=8, max_time=BASE_TIME + 99))
    rows = read(data).rows
    assert [row["timestampType"] for row in rows] == [0, 1, 1]
    assert [row["timestamp"] - BASE_TIME * 1000 for row in rows] == [0, 99_000, 99_000]


@pytest.mark.parametrize("milliseconds", [2**63 - 1, -(2**63), 2**63 // 1000 + 1])
def test_a_timestamp_that_microseconds_cannot_hold_is_null(milliseconds: int) -> None:
    assert read(counted(0, 1, base_time=milliseconds).encode()).rows[0]["timestamp"] is None


def test_only_the_columns_asked_for_come_in_the_order_asked_for() -> None:
    rows = read(counted(0, 2).encode(), columns=["offset", "value"]).rows
    assert [list(row) for row in rows] == [["offset", "value"]] * 2


def test_columns_may_be_unknown_or_double_only_as_an_error() -> None:
    with pytest.raises(ValueError, match="no column is called"):
        Decoder(TOPIC, 0, ["nope"])
    with pytest.raises(ValueError, match="named twice"):
        Decoder(TOPIC, 0, ["key", "key"])


@pytest.mark.parametrize("limit", [0, 2**30 + 1])
def test_a_decompression_limit_is_a_sane_one(limit: int) -> None:
    with pytest.raises(ValueError, match="decompression_limit"):
        Decoder(TOPIC, 0, COLUMNS, decompression_limit=limit)


@pytest.mark.parametrize(
    ("name", "value"), [("position", 10**6), ("batch_rows", 0), ("batch_bytes", 0), ("start", -1), ("stop", 1)]
)
def test_arguments_that_make_no_sense_are_refused(name: str, value: int) -> None:
    arguments = {"start": 2, "stop": 9, "high_watermark": 9, "aligned": False, "cut": False, name: value}
    with pytest.raises(ValueError, match=r"must be between|is not a range of offsets"):
        Decoder(TOPIC, 0, COLUMNS).open(b"", **arguments)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda data: memoryview(b"??" + data)[2:]])
def test_any_contiguous_bytes_will_do(wrap: type) -> None:
    assert read(wrap(counted(5, 3).encode())).offsets == [5, 6, 7]


def test_bytes_with_holes_are_refused() -> None:
    with pytest.raises((ValueError, BufferError)):
        read(memoryview(bytes(100))[::2])


def test_the_buffer_is_let_go_at_the_end_and_on_close() -> None:
    data = bytearray(counted(0, 1).encode())
    decoder = Decoder(TOPIC, 0, COLUMNS)
    arguments = {"start": 0, "stop": 1, "high_watermark": 1, "aligned": True, "cut": False}
    decoder.open(data, **arguments)
    with pytest.raises(BufferError):
        data.append(0)
    decoder.close()
    data.append(0)
    data.pop()
    assert decoder.next_batch() is None
    decoder.open(data, **arguments)
    assert decoder.next_batch() is not None
    assert decoder.next_batch() is None
    data.append(0)


def test_batches_live_on_without_their_decoder_or_buffer() -> None:
    data = bytearray(chunk(counted(0, 100)))
    decoder = Decoder(TOPIC, 0, COLUMNS)
    decoder.open(data, start=0, stop=100, high_watermark=100, aligned=True, cut=False)
    batch = decoder.next_batch()
    first, second = pa.record_batch(batch), pa.record_batch(batch)
    decoder.close()
    data[:] = bytes(len(data))
    del decoder, batch, data
    gc.collect()
    assert first == second
    assert first.column("value").to_pylist() == [b"offset %d" % at for at in range(100)]


def test_rows_are_cut_to_the_range_and_the_tail_can_be_opened_again() -> None:
    data = chunk(counted(10, 5), counted(15, 5))
    first = read(data, 12, 17)
    assert (first.offsets, first.next_offset) == ([12, 13, 14, 15, 16], 17)
    rest = read(data, 17, position=first.position)
    assert (rest.offsets, rest.next_offset, rest.position) == ([17, 18, 19], 20, len(data))


def test_output_batches_keep_to_the_rows_asked_for() -> None:
    decoder = Decoder(TOPIC, 0, COLUMNS)
    decoder.open(
        chunk(counted(0, 25), counted(25, 5)),
        start=0,
        stop=30,
        high_watermark=30,
        aligned=True,
        cut=False,
        batch_rows=10,
    )
    sizes = []
    while (batch := decoder.next_batch()) is not None:
        sizes.append(batch.num_rows)
        assert batch.nbytes > 0
        assert decoder.next_offset == sum(sizes)
    assert sizes == [10, 10, 10]


def test_control_batches_move_the_position_and_emit_nothing() -> None:
    data = chunk(counted(0, 2, attributes=0x10, producer=7), marker(2, 7, commit=True))
    found = read(data)
    assert (found.offsets, found.next_offset, found.position) == ([0, 1], 3, len(data))


def test_aborted_transactions_are_dropped_only_when_read_committed() -> None:
    data = chunk(
        counted(0, 2, attributes=0x10, producer=7),
        counted(2, 2, attributes=0x10, producer=8),
        marker(4, 7, commit=False),
        counted(5, 2, attributes=0x10, producer=7),
        marker(7, 7, commit=True),
        marker(8, 8, commit=True),
    )
    assert read(data).offsets == [0, 1, 2, 3, 5, 6]
    assert read(data, aborted=[]).offsets == [0, 1, 2, 3, 5, 6]
    assert read(data, aborted=[(7, 0)]).offsets == [2, 3, 5, 6]


def test_a_chunk_opened_behind_an_abort_marker_does_not_drop_the_next_transaction() -> None:
    before = chunk(counted(0, 2, attributes=0x10, producer=7), marker(2, 7, commit=False))
    data = before + chunk(counted(3, 2, attributes=0x10, producer=7))
    assert read(data, 3, position=len(before), aborted=[(7, 0)]).offsets == [3, 4]


def test_an_incomplete_batch_at_the_end_is_an_error_unless_the_response_was_cut() -> None:
    whole = counted(0, 2).encode()
    data = whole + counted(2, 2).encode()[:-1]
    found = read(data, cut=True)
    assert (found.offsets, found.next_offset, found.position) == ([0, 1], 2, len(whole))
    with pytest.raises(CorruptBatch, match="cut short"):
        read(data)


def test_an_error_says_where_and_why() -> None:
    good, bad = counted(5, 2).encode(), bytearray(counted(7, 2).encode())
    bad[-1] ^= 1
    with pytest.raises(CorruptBatch) as caught:
        read(good + bad, 5)
    error = caught.value
    assert (error.topic, error.partition, error.base_offset, error.position) == (TOPIC, PARTITION, 7, len(good))
    assert "CRC" in error.reason


def test_rows_before_a_corrupt_batch_are_handed_out_first() -> None:
    bad = bytearray(counted(2, 2).encode())
    bad[-1] ^= 1
    decoder = Decoder(TOPIC, 0, ["offset"])
    decoder.open(counted(0, 2).encode() + bad, start=0, stop=4, high_watermark=4, aligned=True, cut=False)
    batch = decoder.next_batch()
    assert batch is not None
    assert batch.num_rows == 2
    for _ in range(2):
        with pytest.raises(CorruptBatch):
            decoder.next_batch()
    assert decoder.next_offset == 2


def test_old_messages_stop_the_kernel_where_they_begin() -> None:
    new, old = counted(0, 2).encode(), bytearray(counted(2, 1).encode())
    old[16] = 1
    found = read(new + old)
    assert (found.offsets, found.legacy, found.position) == ([0, 1], True, len(new))


def test_compacted_batches_have_gaps_and_may_be_empty() -> None:
    data = chunk(Batch(0, [record(3), record(7)], last_delta=9), Batch(10, last_delta=4), Batch(20, [record(0)]))
    found = read(data)
    assert (found.offsets, found.next_offset) == ([3, 7, 20], 21)


def long_chunk() -> bytes:
    """20,000 records in 20 MB. The base offset is outside the CRC, so one batch will do for all."""
    batch = Batch(0, [record(at, b"x" * 1000) for at in range(200)]).encode()
    return b"".join(struct.pack(">q", 200 * at) + batch[8:] for at in range(100))


def test_other_threads_run_while_the_kernel_decodes() -> None:
    data = long_chunk()
    decoder = Decoder(TOPIC, 0, COLUMNS)
    decoding, ticks = threading.Event(), 0
    done = threading.Event()

    def decode() -> None:
        decoding.set()
        for _ in range(20):
            decoder.open(data, start=0, stop=20_000, high_watermark=20_000, aligned=True, cut=False)
            while decoder.next_batch() is not None:
                pass
        done.set()

    thread = threading.Thread(target=decode)
    thread.start()
    decoding.wait()
    while not done.is_set():
        ticks += 1
    thread.join()
    # With the GIL held this thread would get a turn once per switch interval, some ten times in all.
    assert ticks > 1000


def test_a_decoder_refuses_two_threads_at_once() -> None:
    data = long_chunk()
    decoder = Decoder(TOPIC, 0, COLUMNS)
    decoder.open(data, start=0, stop=20_000, high_watermark=20_000, aligned=True, cut=False)
    outcomes: list[object] = []

    def drain() -> None:
        try:
            while decoder.next_batch() is not None:
                pass
            outcomes.append(None)
        except RuntimeError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=drain) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 2
    assert all(outcome is None or "borrowed" in str(outcome) for outcome in outcomes)
