"""Event time in a consumer group: watermarks per partition, alignment and idleness against a real broker (E1 to E5)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from fixtures.consumer import WAIT, Reading, eventually
from fixtures.produce import Rec
from penstock import ConsumerTimeout, TopicPartition, WatermarkStrategy

NOON = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1000)
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def at(milliseconds):
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


def every(partition, begin, count, step=MINUTE):
    return [Rec(b"%d" % n, timestamp=begin + n * step, partition=partition) for n in range(count)]


def read(stream, count, columns=None):
    """Read batches until this many rows have arrived, even if some arrive after the stream's time-out."""
    found, rows, deadline = [], 0, time.monotonic() + WAIT
    while time.monotonic() < deadline:
        with contextlib.suppress(ConsumerTimeout):
            for batch in stream.batches(columns):
                found.append(batch)
                rows += batch.num_rows
                if rows >= count:
                    return found
            break
    raise AssertionError(f"the iteration has ended after {rows} rows")


def handed(batches, column="partition"):
    """(partition, event time) of each record, in order of arrival."""
    return [
        pair
        for batch in batches
        for pair in zip(batch[column].to_pylist(), batch.event_times.cast(pa.int64()).to_pylist(), strict=True)
    ]


def assert_aligned(records, partitions, drift):
    """When a record arrives, its partition is ahead of the slowest one by the drift at most."""
    reached = {}
    for partition, moment in records:
        mine = reached.get(partition)
        if mine is not None:
            others = [reached.get(each) for each in range(partitions) if each != partition]
            assert None not in others, "one that is known went on before the others"
            assert mine <= min(others) + drift
        reached[partition] = max(moment, mine or moment)


@pytest.fixture
def skewed(topic, produce):
    """Two partitions of 20 hours each, minute by minute, the second one a day behind; that ends with an hour of the
    first."""
    name = topic(partitions=2)
    produce(name, [*every(0, NOON, 1200), *every(1, NOON - DAY, 1440 + 60)])
    return name


def test_E4_two_partitions_a_day_apart_come_out_side_by_side(consumers, skewed):
    strategy = WatermarkStrategy.bounded("1m").with_alignment("1h")
    connector = consumers.connector(watermarks=strategy)
    stream = connector.create_message_streams({skewed: 1})[skewed][0]
    batches = read(stream, 1500 + 121, ["partition", "offset"])
    records = handed(batches)
    assert_aligned(records, 2, HOUR)
    behind = [moment for partition, moment in records if partition == 1]
    assert behind == [NOON - DAY + n * MINUTE for n in range(1500)]
    first = [moment for partition, moment in records if partition == 0]
    assert first == [NOON + n * MINUTE for n in range(121)], "one record too far, and then it waits for the other"
    marks = [batch.watermark for batch in batches if batch.watermark is not None]
    assert marks == sorted(marks)
    ask_for_more(stream)
    assert marks[-1] == connector.watermark() == at(NOON + 59 * MINUTE - MINUTE - 1)
    assert sum(batch.late for batch in batches) == 0
    status = connector.event_time()
    assert status.held == [TopicPartition(skewed, 0)]
    assert connector.position() == {TopicPartition(skewed, 0): len(first), TopicPartition(skewed, 1): 1500}
    metrics = connector.metrics()
    assert metrics.watermark == NOON + 58 * MINUTE - 1
    assert metrics.event_time_lag > 0
    assert [(each.partition, each.held, each.idle) for each in metrics.partitions] == [
        (0, True, False),
        (1, False, False),
    ]


def test_E4_messages_and_two_streams_are_aligned_too_and_continue_when_the_other_is_idle(consumers, skewed):
    strategy = WatermarkStrategy.monotonous().with_alignment("1h").with_idleness("2s")
    connector = consumers.connector(watermarks=strategy)
    streams = connector.create_message_streams({skewed: 2})[skewed]
    seen, lock = [], threading.Lock()

    def drain(stream):
        for message in stream:
            with lock:
                seen.append((message.partition, message.timestamp))

    threads = [threading.Thread(target=drain, args=[stream]) for stream in streams]
    for thread in threads:
        thread.start()
    eventually(lambda: len(seen) == 2700, "all of both")
    # The order in which two threads note is not quite that in which they are given, so look for the gist of it: the
    # one that was a day behind is at its end before the other is two hours further.
    with lock:
        order = list(seen)
    ahead = order.index((0, NOON + 2 * HOUR + 2 * MINUTE))
    assert order.index((1, NOON + 59 * MINUTE)) < ahead
    eventually(lambda: connector.watermark() == at(NOON + 1199 * MINUTE - 1), "idle partitions do not hold it back")
    assert connector.metrics().late_records == 0
    connector.shutdown()
    for thread in threads:
        thread.join(30)


def test_E3_an_empty_partition_holds_the_watermark_until_it_is_idle_and_never_sets_it_back(consumers, topic, produce):
    name = topic(partitions=2)
    produce(name, every(0, NOON, 100))
    notified = []
    connector = consumers.connector(watermarks=WatermarkStrategy.monotonous().with_idleness("1h"))
    connector.set_watermark_listener(notified.append)
    stream = connector.create_message_streams({name: 1})[name][0]
    batches = read(stream, 100)
    assert {batch.watermark for batch in batches} == {None}
    assert batches[-1].partition_watermark == at(NOON + 99 * MINUTE - 1)
    reached = at(NOON + 199 * MINUTE - 1)
    set_idleness(connector, 0.5)  # an hour is over
    eventually(lambda: TopicPartition(name, 1) in connector.event_time().idle, "the other one is idle")
    produce(name, every(0, NOON + 199 * MINUTE, 1))
    assert read(stream, 1)[0].watermark == reached
    ask_for_more(stream)
    eventually(lambda: notified[-1:] == [reached], "the listener was called")
    set_idleness(connector, 3600)
    produce(name, every(1, NOON, 10))
    (batch,) = read(stream, 10)
    assert (batch.watermark, batch.late) == (reached, 10)
    assert batch.partition_watermark == at(NOON + 9 * MINUTE - 1)
    produce(name, every(1, NOON + 201 * MINUTE, 1))
    produce(name, every(0, NOON + 300 * MINUTE, 1))
    read(stream, 2)
    ask_for_more(stream)
    assert connector.watermark() == at(NOON + 201 * MINUTE - 1), "and it holds it again"
    assert notified == sorted(set(notified)), "each once, and none goes back"


def set_idleness(connector, seconds):
    """From now on: what is idle or not must not depend on how busy the machine is."""
    connector._tracker._tracker._idleness = seconds


def test_E3_a_paused_partition_is_not_idle_because_its_records_are_unknown(consumers, topic, produce):
    name = topic(partitions=2)
    first, second = (TopicPartition(name, number) for number in range(2))
    produce(name, [*every(0, NOON, 1), *every(1, NOON, 1)])
    connector = consumers.connector(watermarks=WatermarkStrategy.monotonous().with_idleness("500ms"))
    stream = connector.create_message_streams({name: 1})[name][0]
    read(stream, 2)
    ask_for_more(stream)
    eventually(lambda: connector.event_time().idle == [first, second], "both are at their end")
    connector.pause([second])
    eventually(lambda: connector.event_time().idle == [first], "what was known of it is old")
    produce(name, [*every(0, NOON + DAY, 1), *every(1, NOON + MINUTE, 9)])
    assert read(stream, 1)[0].watermark == at(NOON - 1)
    connector.resume([second])
    assert sum(batch.late for batch in read(stream, 9)) == 0


def ask_for_more(stream):
    """Records count as read when their reader asks for more. Here it gets no more."""
    with pytest.raises(ConsumerTimeout):
        stream.batch_source(None)(0.0)


def marked(batch):
    """The time in the value of records whose key is `mark`."""
    times = pc.cast(pc.cast(batch["value"], pa.string()), pa.int64())
    return pc.if_else(pc.equal(batch["key"], b"mark"), times, None)


def test_E1_punctuated_watermarks_are_notified_at_once(consumers, topic, produce):
    name = topic()
    notified = []
    connector = consumers.connector(
        watermarks=WatermarkStrategy.punctuated(marked), **{"auto.watermark.interval.ms": 600_000}
    )
    connector.set_watermark_listener(notified.append)
    stream = connector.create_message_streams({name: 1})[name][0]
    for number in range(3):
        produce(name, [Rec(b"%d" % (NOON + number + 5)), Rec(b"%d" % (NOON + number), key=b"mark"), Rec(b"1")])
        read(stream, 3, ["key", "value"])
        ask_for_more(stream)
        eventually(lambda number=number: notified[-1:] == [at(NOON + number)], "notified at once")
    assert notified == [at(NOON + number) for number in range(3)]


SCHEMA = "id INT, created TIMESTAMP"


def orders(partition, begin, count):
    return [
        Rec(
            json.dumps({"id": n, "created": at(begin + n * MINUTE).isoformat()}).encode(),
            timestamp=NOON + 7 * DAY,
            partition=partition,
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("flatten", [False, True])
def test_F19_a_field_of_a_typed_value_is_the_event_time_even_if_it_is_not_selected(consumers, topic, produce, flatten):
    name = topic(partitions=2)
    produce(name, [*orders(0, NOON, 300), Rec(b"no json", partition=0), *orders(1, NOON - DAY, 200)])
    settings = {"valueFormat": "json", "valueSchema": SCHEMA, "flatten": flatten, "mode": "DROPMALFORMED"}
    strategy = WatermarkStrategy.bounded("1m").with_timestamps("created" if flatten else "value.created")
    connector = consumers.connector(watermarks=strategy.with_alignment("1h"), **settings)
    stream = connector.create_message_streams({name: 1})[name][0]
    column = "kafka_partition" if flatten else "partition"
    batches = read(stream, 201, [column])
    assert {tuple(batch.schema.names) for batch in batches} == {(column,)}
    assert_aligned(handed(batches, column), 2, HOUR)
    ask_for_more(stream)
    assert connector.watermark() == at(NOON - DAY + 199 * MINUTE - MINUTE - 1)
    with pytest.raises(penstock.EventTimeError, match=r"messages.*batches\(\)"):
        next(stream)


def test_F19_messages_have_the_event_time_that_a_function_reads_from_their_bytes(consumers, topic, produce):
    name = topic()
    produce(name, [Rec(b"%d" % (NOON + n), timestamp=1) for n in range(100)])

    def said(batch):
        return batch["value"].cast(pa.string()).cast(pa.int64())

    connector = consumers.connector(watermarks=WatermarkStrategy.monotonous().with_timestamps(said))
    stream = connector.create_message_streams({name: 1})[name][0]
    messages = list(itertools.islice(stream, 100))
    assert [message.event_time for message in messages] == [NOON + n for n in range(100)]
    assert {message.timestamp for message in messages} == {1}


def test_F19_typed_batches_have_the_records_own_time_by_default_whatever_their_fields_are_called(
    consumers, topic, produce
):
    name = topic()
    produce(name, [Rec(b'{"timestamp": 5}', timestamp=NOON + n) for n in range(10)])
    settings = {"valueFormat": "json", "valueSchema": "timestamp BIGINT", "flatten": True}
    connector = consumers.connector(watermarks=WatermarkStrategy.monotonous(), **settings)
    stream = connector.create_message_streams({name: 1})[name][0]
    (batch,) = read(stream, 10, ["timestamp"])
    assert batch["timestamp"].to_pylist() == [5] * 10
    assert batch.watermark == at(NOON + 8)


class UpToTen:
    def schema(self):
        return "n INT"

    def deserialize_record(self, record):
        return {"n": int(record.value)}

    def is_end_of_stream(self, row):
        return row["n"] == 10


def test_F4_a_stream_that_a_record_ends_stops_after_it_even_if_its_last_batch_is_cut(consumers, topic, produce):
    name = topic(partitions=2)
    produce(name, [*every(0, NOON, 20), *every(1, NOON, 6, 2 * MINUTE)])
    strategy = WatermarkStrategy.monotonous().with_alignment("3m")
    connector = consumers.connector(watermarks=strategy, valueFormat=f"{__name__}:UpToTen")
    stream = connector.create_message_streams({name: 1})[name][0]
    batches = list(stream.batches(["partition", "value"]))
    assert_aligned(handed(batches), 2, 3 * MINUTE)
    found = [row["n"] for batch in batches for row in batch["value"].to_pylist() if batch["partition"][0].as_py() == 0]
    assert found == list(range(10))
    assert len(batches) > 3
    assert connector.position()[TopicPartition(name, 0)] == 11
    assert connector.watermark() == batches[-1].watermark, "the reader has come to the end"
    (batch,) = read(stream, 1, ["partition", "value"])
    assert batch.to_pylist()[0] == {"partition": 0, "value": {"n": 11}}, "another read gets the following records"


class Even:
    """Every other one is skipped."""

    def schema(self):
        return "n INT"

    def deserialize_record(self, record):
        return None if int(record.value) % 2 else {"n": int(record.value)}


def test_F3_async_typed_batches_have_event_time_and_fully_skipped_ones_are_not_handed_out(consumers, topic, produce):
    name = topic()
    for number in range(4):
        produce(name, [Rec(b"%d" % number, timestamp=NOON + number)])
    connector = consumers.connector(
        watermarks=WatermarkStrategy.monotonous(), valueFormat=f"{__name__}:Even", max_partition_fetch_bytes=1
    )
    stream = connector.create_message_streams({name: 1})[name][0]

    async def batches():
        found = []
        async for batch in penstock.AsyncStream(stream).batches(["value"]):
            found.append(([row["n"] for row in batch["value"].to_pylist()], batch.watermark))
            if sum(len(rows) for rows, _ in found) == 2:
                return found
        return found

    found = asyncio.run(asyncio.wait_for(batches(), WAIT))
    assert found == [([0], at(NOON - 1)), ([2], at(NOON + 1))]


class Watched(Reading):
    """Notes the watermarks, too."""

    def __init__(self, connector, streams):
        self.marks = [[] for _ in streams]
        super().__init__(connector, streams, "batches")

    def _batches(self, stream, seen):
        marks = self.marks[self.streams.index(stream)]
        for batch in stream.batches(["topic", "partition", "offset"]):
            seen.extend(zip(*(column.to_pylist() for column in batch.columns), strict=True))
            marks.append(batch.watermark)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_E2_no_rebalance_sets_a_connectors_watermark_back(consumers, topic, produce, assignor):
    name = topic(partitions=4)
    strategy = WatermarkStrategy.monotonous().with_idleness("1s").with_alignment("2h")
    settings = {"partition_assignment_strategy": assignor}
    notified = {}

    def join(who):
        connector = consumers.connector(watermarks=strategy, **settings)
        notified[who] = []
        connector.set_watermark_listener(notified[who].append)
        reading = Watched(connector, connector.create_message_streams({name: 2})[name])
        consumers.readings.append(reading)
        return reading

    sent = 0

    def more():
        nonlocal sent
        produce(name, [rec for partition in range(4) for rec in every(partition, NOON + sent * MINUTE, 50)])
        sent += 50

    more()
    one = join("one")
    eventually(lambda: consumers.records().total() == 4 * sent, "one alone")
    two = join("two")
    for _ in range(3):
        more()
    eventually(lambda: len(two.connector.assignment()) == 2, "both")
    more()
    eventually(lambda: consumers.records().total() >= 4 * sent, "both read")
    eventually(lambda: one.connector.watermark() == at(NOON + (sent - 1) * MINUTE - 1), "one is there")
    eventually(lambda: notified["two"], "the other listener was called, too")
    two.connector.shutdown()
    more()
    eventually(lambda: consumers.records().total() >= 4 * sent, "one alone again")
    eventually(lambda: one.connector.watermark() == at(NOON + (sent - 1) * MINUTE - 1), "and there again")
    assert set(consumers.records().values()) == {1}, "and nothing came twice"
    for marks in (*one.marks, *two.marks, *notified.values()):
        known = [mark for mark in marks if mark is not None]
        assert known == sorted(known)
    assert notified["one"]
    assert not one.errors + two.errors


def test_asyncio_and_pause_seek_and_resume_with_event_time(consumers, skewed):
    strategy = WatermarkStrategy.monotonous().with_alignment("1h")
    connector = consumers.connector(watermarks=strategy, consumer_timeout_ms=1000)
    stream = connector.create_message_streams({skewed: 1})[skewed][0]
    eventually(lambda: len(connector.lag()) == 2, "both are fetched")  # joining takes a while
    first, second = (TopicPartition(skewed, number) for number in range(2))

    async def batches(count):
        found = []
        async for batch in penstock.AsyncStream(stream).batches(["partition", "offset"]):
            found.append(batch)
            if len(found) == count:
                break
        return found

    assert [batch.num_rows for batch in asyncio.run(batches(1))] == [1], "nothing is known of the other yet"
    connector.pause([second])
    assert connector.paused() == [second], "what is held back is not paused"
    with contextlib.suppress(ConsumerTimeout):
        for batch in stream.batches(["partition"]):
            assert batch["partition"][0].as_py() == 0
    assert connector.position()[first] == 1, "others wait for a partition that the user has paused, too"
    connector.seek({second: 1440})
    connector.resume([second])
    batches = read(stream, 60 + 60, ["partition", "offset"])
    assert connector.position()[second] == 1500
    assert connector.position()[first] > 60
    assert sum(batch.late for batch in batches) == 0


def test_methods_that_need_a_strategy_raise_without_one(consumers, topic, produce):
    name = topic()
    produce(name, every(0, NOON, 3))
    connector = consumers.connector()
    stream = connector.create_message_streams({name: 1})[name][0]
    assert isinstance(next(stream.batches()), pa.RecordBatch)
    for call in (connector.watermark, connector.event_time, lambda: connector.set_watermark_listener(print)):
        with pytest.raises(RuntimeError, match="ConsumerConnector\\(config, watermarks="):
            call()
    assert connector.metrics().watermark is None
    with pytest.raises(penstock.OptionError, match="is not a WatermarkStrategy"):
        consumers.connector(watermarks="bounded")
    wrong = consumers.connector(watermarks=WatermarkStrategy.monotonous().with_timestamps("timestmp"))
    with pytest.raises(penstock.EventTimeError, match="Did you mean timestamp"):
        wrong.create_message_streams({name: 1})
    with pytest.raises(TypeError, match="must be a function"):
        consumers.connector(watermarks=WatermarkStrategy.none()).set_watermark_listener("print")


def test_a_connector_with_event_time_leaves_no_thread(consumers, topic, produce, left):
    name = topic()
    produce(name, every(0, NOON, 3))
    connector = consumers.connector(watermarks=WatermarkStrategy.monotonous().with_alignment("1h"))
    connector.set_watermark_listener(print)
    stream = connector.create_message_streams({name: 1})[name][0]
    assert read(stream, 3)[-1].watermark == at(NOON + 2 * MINUTE - 1)
    ask_for_more(stream)
    assert any("event-time" in thread for thread in left.threads())
    connector.shutdown()
    left.nothing()
    assert connector.watermark() == at(NOON + 2 * MINUTE - 1), "what was reached stays known"
