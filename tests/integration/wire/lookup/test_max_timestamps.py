"""The largest timestamps of logs, from a real broker, compared with reading all records."""

import random
import time

import pytest

import penstock
from fixtures.cluster import cluster_of
from fixtures.produce import Rec
from penstock.model.topic_partition import TopicPartition
from penstock.wire.lookup.offset_windows import OffsetWindow

START = 1_700_000_000_000
HOUR = 3_600_000
COMPRESSION = "compression.type"


@pytest.fixture
def read(kafka):
    """`read(topic, isolation)`: (offset, timestamp in ms) of all records, by partition."""

    def run(name, isolation="read_uncommitted"):
        options = kafka.client_options() | {"subscribe": name, "kafka.isolation.level": isolation}
        table = penstock.read_batches(options, columns=["partition", "offset", "timestamp"]).read_all()
        found = {}
        for row in table.to_pylist():
            at = None if row["timestamp"] is None else round(row["timestamp"].timestamp() * 1000)
            found.setdefault(TopicPartition(name, row["partition"]), []).append((row["offset"], at))
        return found

    return run


def brute_force(records, before):
    return max((at for offset, at in records if offset < before and at is not None), default=None)


def wait_for(condition, problem):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, problem
        time.sleep(0.2)


def assert_right_everywhere(cluster, logs, step=1):
    """Each position of every log, and beyond its end; all partitions in one call."""
    longest = max(records[-1][0] for records in logs.values()) + 3
    for before in range(0, longest, step):
        expected = {tp: brute_force(records, before) for tp, records in logs.items()}
        assert cluster.max_timestamps(dict.fromkeys(logs, before)) == expected, before
    assert cluster.newest_timestamps(logs) == {tp: brute_force(records, longest) for tp, records in logs.items()}


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_F19_records_out_of_order_over_many_segments(kafka, cluster, topic, produce, read, codec):
    """Four logs: in order, out of order by little, in any order, and one whose latest record came first."""
    name = topic(partitions=4, segment_ms=HOUR, index_interval_bytes=256)
    chance = random.Random(codec)
    times = {
        0: [START + i * HOUR // 20 for i in range(160)],
        1: [START + i * HOUR // 20 + chance.randint(0, HOUR) for i in range(160)],
        2: [START + chance.randint(0, 8 * HOUR) for _ in range(160)],
        3: [START + 9 * HOUR, *(START + i for i in range(120))],
    }
    for some in range(0, 160, 20):  # batches of 20 at most, or the broker's index has one entry
        rows = [Rec(b"x" * 40, timestamp=t, partition=p) for p in times for t in times[p][some : some + 20]]
        produce(name, rows, **{COMPRESSION: codec})
    logs = read(name)
    assert {tp.partition: [at for _, at in records] for tp, records in logs.items()} == times
    segments = list(kafka._work_dir.glob(f"*/data/{name}-*/*.log"))
    assert len(segments) > 8, "one segment each: nothing was tested"
    assert_right_everywhere(cluster, logs, step=7)


def test_F19_the_broker_is_asked_twice_for_any_number_of_partitions(cluster, topic, produce, asked):
    name = topic(partitions=20)
    produce(name, [Rec(b"v", timestamp=START + i, partition=i % 20) for i in range(200)])
    before = {TopicPartition(name, p): 1 + p % 10 for p in range(20)}
    cluster.end(before)  # connects
    asked.clear()
    assert cluster.max_timestamps(before) == {TopicPartition(name, p): START + p + (p % 10) * 20 for p in range(20)}
    assert asked == ["FetchRequest", "ListOffsetsRequest"]


def test_F19_batches_larger_than_the_window_are_looked_into_all_the_same(cluster, topic, produce, read):
    name = topic(partitions=3)
    chance = random.Random(3)
    rows = [Rec(chance.randbytes(5000), timestamp=START + chance.randint(0, 1000), partition=i % 3) for i in range(90)]
    produce(name, rows, **{"linger.ms": 200})
    assert_right_everywhere(cluster, read(name), step=4)


def test_F19_empty_logs_and_logs_whose_beginning_is_gone(cluster, topic, produce, read, operator):
    name, never = topic(partitions=2), topic()
    produce(name, [Rec(b"v", timestamp=START + i, partition=i % 2) for i in range(40)])
    operator.delete_records(name, {0: 20, 1: 12})
    gone, cut, empty = TopicPartition(name, 0), TopicPartition(name, 1), TopicPartition(never, 0)
    logs = read(name)
    assert cluster.begin([gone, cut]) == {gone: 20, cut: 12}
    for before in (0, 1, 12, 13, 19, 20, 25):
        assert cluster.max_timestamps(dict.fromkeys([gone, cut, empty], before)) == {
            gone: None,
            cut: brute_force(logs[cut], before),
            empty: None,
        }
    assert cluster.newest_timestamps([gone, cut, empty]) == {gone: None, cut: START + 39, empty: None}


def test_F19_a_deleted_record_that_was_the_latest_is_forgotten(cluster, topic, produce, operator):
    name = topic()
    produce(name, [Rec(b"v", timestamp=START + HOUR), *(Rec(b"v", timestamp=START + i) for i in range(20))])
    tp = TopicPartition(name, 0)
    assert cluster.newest_timestamps([tp]) == {tp: START + HOUR}
    operator.delete_records(name, {0: 1})
    assert cluster.newest_timestamps([tp]) == {tp: START + 19}
    assert cluster.max_timestamps({tp: 5}) == {tp: START + 3}


def test_F19_log_append_time_is_what_the_broker_wrote(cluster, topic, produce, read):
    name = topic(message_timestamp_type="LogAppendTime")
    for _ in range(5):
        produce(name, [Rec(b"v", timestamp=START + HOUR - i) for i in range(4)])
    logs = read(name)
    assert min(at for _, at in logs[TopicPartition(name, 0)]) > START + 2 * HOUR
    assert_right_everywhere(cluster, logs)


def test_F19_a_compacted_log_has_what_is_left_of_it(cluster, topic, produce, read):
    """Few keys, so that most offsets are gone, and whole batches among them."""
    name = topic(cleanup_policy="compact", segment_ms=HOUR, min_cleanable_dirty_ratio=0.01, max_compaction_lag_ms=100)
    tp, chance = TopicPartition(name, 0), random.Random(5)
    times = [START + chance.randint(0, 6 * HOUR) for _ in range(300)]
    for some in range(0, 300, 25):
        produce(name, [Rec(b"v", key=b"%d" % chance.randint(0, 8), timestamp=t) for t in times[some : some + 25]])
    wait_for(lambda: len(read(name)[tp]) < 100, "the log was not compacted")
    before = range(0, 305, 4)
    while True:
        log = read(name)[tp]
        found = {each: cluster.max_timestamps({tp: each})[tp] for each in before}
        if read(name)[tp] == log:  # the cleaner was not at work meanwhile
            break
    assert found == {each: brute_force(log, each) for each in before}


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_F19_markers_and_aborted_records_do_not_count(kafka, topic, produce, transaction, read, isolation):
    """Old records written now, as in a replay: the markers bear the time of today."""
    name = topic(partitions=2)
    for number in range(6):
        with transaction(f"{name}-{number}", commit=number % 2 == 0) as send:
            # What is aborted lies a day ahead of what is committed.
            late = 0 if number % 2 == 0 else 24 * HOUR
            send(name, [Rec(b"v", timestamp=START + late + number * 100 + i) for i in range(5)])
    produce(name, [Rec(b"v", timestamp=START + i, partition=1) for i in range(5)])
    cluster, tp = cluster_of(kafka, **{"kafka.isolation.level": isolation}), TopicPartition(name, 0)
    wait_for(lambda: cluster.end([tp]) == {tp: 36}, "the markers did not come")
    logs = read(name, isolation)
    assert len(logs[tp]) == (30 if isolation == "read_uncommitted" else 15)
    assert_right_everywhere(cluster, logs)


def test_F19_an_open_transaction_is_not_there_yet_for_those_who_read_committed(kafka, topic, produce, transaction):
    name = topic()
    tp = TopicPartition(name, 0)
    produce(name, [Rec(b"v", timestamp=START + i) for i in range(5)])
    committed, uncommitted = cluster_of(kafka, **{"kafka.isolation.level": "read_committed"}), cluster_of(kafka)
    with transaction(name) as send:
        send(name, [Rec(b"v", timestamp=START + HOUR)])
        assert uncommitted.newest_timestamps([tp]) == {tp: START + HOUR}
        assert committed.newest_timestamps([tp]) == {tp: START + 4}
        assert committed.max_timestamps({tp: 6}) == {tp: START + 4}
    wait_for(lambda: committed.end([tp]) == {tp: 7}, "the marker did not come")
    assert committed.newest_timestamps([tp]) == {tp: START + HOUR}


def test_F19_times_come_with_the_offset_and_markers_are_told_from_records(cluster, topic, transaction):
    name = topic()
    tp = TopicPartition(name, 0)
    with transaction(name) as send:
        send(name, [Rec(b"v", timestamp=START + i * 10) for i in range(5)])
    wait_for(lambda: cluster.end([tp]) == {tp: 6}, "the marker did not come")
    assert cluster.times_at({tp: START + 15}) == {tp: (2, START + 20)}
    (marker,) = cluster.times_at({tp: START + 41}).values()
    assert marker[0] == 5
    assert marker[1] > START + HOUR
    assert cluster.times_at({tp: marker[1] + 1}) == {tp: None}
    assert cluster.timestamps_in({tp: OffsetWindow(2, 2, 3)}) == {tp: START + 20}
    assert cluster.timestamps_in({tp: OffsetWindow(5, 5, 6)}) == {tp: None}
    assert cluster.timestamps_in({tp: OffsetWindow(99, 99, 100)}) == {tp: None}
