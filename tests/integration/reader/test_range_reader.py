"""Ranges read from a real broker: every codec, every shape of record, every kind of log."""

import random
import time

import pyarrow as pa
import pytest

from fixtures.produce import Rec
from penstock.config.source import parse_options
from penstock.model.offset_range import OffsetRange
from penstock.planner.batch import plan_batch
from support.reading import range_reader

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


@pytest.fixture
def options(kafka):
    def make(topic, **more):
        return parse_options(kafka.client_options() | {"subscribe": topic} | more)

    return make


def read(options, columns=COLUMNS):
    """All rows of a batch read, in offset order per partition."""
    rows = []
    for r in plan_batch(options):
        for batch in range_reader(r, columns, options.client, fail_on_data_loss=options.fail_on_data_loss).prefetched():
            batch.validate(full=True)
            rows += batch.to_pylist()
    return rows


def shapes(count=300, seed=7):
    """Records with nulls, empties, headers of every kind and values from nothing to several kilobytes."""
    rng = random.Random(seed)
    keys = [None, b"", b"k", b"key-" * 20]
    headers = [(), (("h", b"1"),), (("h", None), ("h", b""), ("größe", b"\x00\xff"))]
    for i in range(count):
        value = rng.choice([None, b"", b"v", rng.randbytes(rng.randrange(3000)), b"text " * rng.randrange(500)])
        yield Rec(value, rng.choice(keys), rng.choice(headers), timestamp=1_700_000_000_000 + i * 7)


def as_written(row):
    headers = None if row["headers"] is None else [(h["key"], h["value"]) for h in row["headers"]]
    return row["key"], row["value"], headers, round(row["timestamp"].timestamp() * 1000)


def as_expected(record):
    return record.key, record.value, list(record.headers) or None, record.timestamp


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_shape_of_record_in_every_codec(topic, produce, options, codec):
    name, records = topic(), list(shapes())
    produce(name, records, **{"compression.type": codec})
    rows = read(options(name))
    assert [as_written(row) for row in rows] == [as_expected(record) for record in records]
    assert [row["offset"] for row in rows] == list(range(len(records)))
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in rows} == {(name, 0, 0)}


def test_only_the_columns_asked_for_are_built_in_the_order_asked_for(topic, produce, options):
    name = topic()
    produce(name, [Rec(b"v", b"k")])
    chosen = options(name)
    (r,) = plan_batch(chosen)
    (batch,) = range_reader(r, ["offset", "value"], chosen.client)
    assert batch.schema == pa.schema([("offset", pa.int64()), ("value", pa.binary())])


def test_log_append_time_is_the_brokers_time_for_every_record(topic, produce, options):
    name = topic(message_timestamp_type="LogAppendTime")
    before = time.time()
    produce(name, [Rec(b"v", timestamp=1000) for _ in range(10)])
    rows = read(options(name))
    assert {row["timestampType"] for row in rows} == {1}
    assert all(before - 5 <= row["timestamp"].timestamp() <= time.time() + 5 for row in rows)


def test_ten_megabyte_records_between_small_ones(topic, produce, options):
    name = topic(max_message_bytes=12_000_000)
    big = random.Random(1).randbytes(10_000_000)
    records = [Rec(b"small"), Rec(big), Rec(b"small again"), Rec(big[::-1]), Rec(None)]
    produce(name, records, **{"message.max.bytes": 12_000_000})
    small_fetches = options(name, **{"kafka.max.partition.fetch.bytes": "10000"})
    for chosen in (options(name), small_fetches):
        assert [row["value"] for row in read(chosen)] == [record.value for record in records]


def test_empty_partitions_give_no_rows_and_no_tasks(topic, produce, options):
    name = topic(partitions=5)
    produce(name, [Rec(b"v", partition=3)])
    chosen = options(name)
    assert [r.partition for r in plan_batch(chosen)] == [3]
    assert len(read(chosen)) == 1
    assert plan_batch(options(topic())) == []


def test_two_hundred_partitions(topic, produce, options):
    name = topic(partitions=200)
    produce(name, [Rec(b"%d" % (i // 200), partition=i % 200) for i in range(2000)])
    rows = read(options(name), ["partition", "offset", "value"])
    assert {(row["partition"], row["offset"]): row["value"] for row in rows} == {
        (p, o): b"%d" % o for p in range(200) for o in range(10)
    }
    assert len(rows) == 2000


def test_small_fetches_and_many_batches_give_the_same_rows(topic, produce, options):
    name = topic()
    records = [Rec(b"value %d" % i, timestamp=i + 1) for i in range(20_000)]
    produce(name, records, **{"batch.num.messages": 50, "compression.type": "lz4"})
    rows = read(options(name, **{"kafka.max.partition.fetch.bytes": "5000"}))
    assert [row["value"] for row in rows] == [record.value for record in records]


def test_a_range_is_cut_to_the_record_wherever_it_begins_and_ends(topic, produce, options):
    name = topic()
    produce(name, [Rec(b"%d" % i) for i in range(1000)], **{"linger.ms": 100})
    for start, stop in [(0, 1), (1, 2), (500, 777), (999, 1000), (3, 3)]:
        chosen = options(name, startingOffsets=f'{{"{name}": {start}}}', endingOffsets=f'{{"{name}": {{"0": {stop}}}}}')
        assert [row["offset"] for row in read(chosen)] == list(range(start, stop))


def test_splitting_reads_every_record_once(topic, produce, options):
    name = topic(partitions=2)
    produce(name, [Rec(b"%d" % i, partition=i % 2) for i in range(5000)])
    chosen = options(name, minPartitions="7", maxRecordsPerPartition="400")
    assert len(plan_batch(chosen)) >= 13
    rows = read(chosen)
    assert sorted(int(row["value"]) for row in rows) == list(range(5000))


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.2)


def test_a_compacted_topic_has_gaps_and_loses_nothing_else(topic, produce, options):
    name = topic(
        cleanup_policy="compact",
        segment_bytes=1_048_576,
        segment_ms=100,
        min_cleanable_dirty_ratio=0.001,
        max_compaction_lag_ms=200,
    )
    produce(name, [Rec(b"kept", b"first")])
    for generation in range(3):
        produce(name, [Rec(b"%d-%d" % (generation, i), b"key-%d" % i) for i in range(100)])
    chosen = options(name)

    def compacted():
        produce(name, [Rec(b"roll", b"roll")])  # closes the segment before it, so that it can be cleaned
        return len(read(chosen)) < 250

    wait_for(compacted)
    latest = {row["key"]: row["value"] for row in read(chosen) if row["key"] != b"roll"}
    assert latest == {b"first": b"kept"} | {b"key-%d" % i: b"2-%d" % i for i in range(100)}
    offsets = [row["offset"] for row in read(chosen)]
    assert offsets == sorted(set(offsets))
    assert offsets[-1] - offsets[0] + 1 > len(offsets), "there is no gap: nothing was compacted"


def test_transactions_are_read_by_isolation_level(topic, produce, transaction, options):
    name = topic()
    with transaction(f"{name}-a", commit=True) as write:
        write(name, [Rec(b"committed %d" % i) for i in range(10)])
    with transaction(f"{name}-b", commit=False) as write:
        write(name, [Rec(b"aborted %d" % i) for i in range(10)])
    produce(name, [Rec(b"plain")])
    with transaction(f"{name}-b", commit=True) as write:
        write(name, [Rec(b"committed later")])
    committed = [b"committed %d" % i for i in range(10)] + [b"plain", b"committed later"]
    everything = committed[:10] + [b"aborted %d" % i for i in range(10)] + committed[10:]
    assert [row["value"] for row in read(options(name))] == everything
    chosen = options(name, **{"kafka.isolation.level": "read_committed"})
    wait_for(lambda: plan_batch(chosen)[0].stop == len(everything) + 3)  # the markers follow a moment later
    assert [row["value"] for row in read(chosen)] == committed


def test_an_open_transaction_hides_what_follows_it_from_read_committed(topic, produce, transaction, options):
    name = topic()
    produce(name, [Rec(b"before")])
    with transaction(f"{name}-open", commit=True) as write:
        write(name, [Rec(b"in doubt")])
        produce(name, [Rec(b"after")])
        committed = options(name, **{"kafka.isolation.level": "read_committed"})
        assert [row["value"] for row in read(committed)] == [b"before"]
        assert [row["value"] for row in read(options(name))] == [b"before", b"in doubt", b"after"]


def test_a_range_of_nothing_but_aborted_records_ends(topic, transaction, options):
    name = topic()
    with transaction(f"{name}-x", commit=False) as write:
        write(name, [Rec(b"gone") for _ in range(100)])
    chosen = options(name, **{"kafka.isolation.level": "read_committed"})
    # The marker follows a moment after the abort.
    wait_for(lambda: [(r.start, r.stop) for r in plan_batch(chosen)] == [(0, 101)])
    assert read(chosen) == []


def test_F16_a_read_that_is_given_up_leaves_no_thread_and_no_connection(topic, produce, options):
    import threading

    from penstock.wire.transport.pool import POOL

    name = topic()
    produce(name, [Rec(bytes(1000)) for _ in range(30_000)])
    chosen = options(name)
    (r,) = plan_batch(chosen)
    POOL.close()
    reader = range_reader(r, COLUMNS, chosen.client)
    batches = reader.prefetched()
    next(batches)
    batches.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("penstock-fetch")]
    assert POOL.idle_count() == 0, "a connection with an unread response must not be used again"


def test_a_connection_is_kept_for_the_next_read(topic, produce, options):
    from penstock.wire.transport.pool import POOL

    name = topic()
    produce(name, [Rec(b"v")])
    POOL.close()
    for _ in range(3):
        assert len(read(options(name))) == 1
    assert POOL.idle_count() == 1


def test_an_idle_connection_is_closed_after_a_while(topic, produce, options):
    from penstock.wire.transport.pool import POOL

    name = topic()
    produce(name, [Rec(b"v")])
    POOL.close()
    # Long enough that a busy machine gets from the read to the next line before the connection's time is over.
    read(options(name, **{"kafka.connections.max.idle.ms": "3000"}))
    assert POOL.idle_count() == 1
    wait_for(lambda: POOL.idle_count() == 0)


def test_a_hint_that_points_nowhere_is_corrected_by_the_cluster(topic, produce, options):
    name = topic()
    produce(name, [Rec(b"v")])
    chosen = options(name)
    stale = OffsetRange(name, 0, 0, 1, host="127.0.0.1", port=1)
    (batch,) = range_reader(stale, ["value"], chosen.client)
    assert batch.to_pylist() == [{"value": b"v"}]
