"""Streams with event time, fed with forged chunks: watermarks, what is held back, and that nothing is lost by it
(E1 to E5, F19)."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import threading
import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from fix_consumer import eventually
from hostile.forge import BASE_TIME, TOPIC, Batch, record
from own_logs import own_records
from penstock import ConsumerTimeout, EventBatch, EventTimeError, TopicPartition, WatermarkStrategy
from penstock.consumer.chunk import Lease
from penstock.consumer.config import parse_config
from penstock.consumer.cursor import Cursor
from penstock.consumer.event_batch import as_datetime
from penstock.consumer.event_pieces import Piece
from penstock.consumer.event_stream import EventStream
from penstock.consumer.event_time import EventTime
from penstock.consumer.watermark_clock import WatermarkClock
from penstock.consumer.watermark_teller import MOST_WAITING, WatermarkTeller
from penstock.eventtime.times import EventTimes
from penstock.wire.config import ClientConfig
from penstock.wire.fetch import FetchedPartition

CONFIG = ClientConfig(bootstrap=(("localhost", 1),))
MONOTONOUS = WatermarkStrategy.monotonous()
ALIGNED = MONOTONOUS.with_alignment("100ms")
IDLE = MONOTONOUS.with_idleness("5s")


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Fed:
    """Some streams over one event time, their cursors, and a fetcher's part played by hand. Times are in milliseconds
    after BASE_TIME."""

    def __init__(self, strategy=MONOTONOUS, partitions=2, streams=1, **more):
        self.clock = Clock()
        self.room = 0
        self.event_time = EventTime(strategy, self.clock)
        more = {"timeout": 0.0, "on_room": self._room} | more
        self.streams = [EventStream(self.event_time, f"me-{at}", CONFIG, **more) for at in range(streams)]
        self.stream = self.streams[0]
        self.cursors = [Cursor(TopicPartition(TOPIC, at), self.streams[at % streams], 0) for at in range(partitions)]
        self.event_time.set_partitions([cursor.tp for cursor in self.cursors])

    def _room(self):
        self.room += 1

    def put(self, partition, *times):
        cursor = self.cursors[partition]
        base = cursor.fetched
        records = [record(at, b"%d" % each, time_delta=each) for at, each in enumerate(times)]
        data = bytearray(Batch(base, records, max_time=BASE_TIME + max(times)).encode())
        end = base + len(times)
        cursor.readable, cursor.answered = end, self.clock.now
        fetched = FetchedPartition(*cursor.tp, 0, 10**6, 10**6, [], -1, memoryview(data))
        lease = Lease(data, lambda buffer: None)
        assert cursor.stream.put(cursor, cursor.version, base, fetched, end, lease)
        lease.release()

    def answer(self, *partitions):
        """Brokers say that of these there is nothing more than what was fetched."""
        for cursor in [self.cursors[at] for at in partitions]:
            cursor.readable, cursor.answered = cursor.fetched, self.clock.now

    def look(self, *answered):
        self.answer(*answered)
        self.event_time.look(self.cursors)

    @property
    def idle(self):
        return [tp.partition for tp in self.event_time.status().idle]

    def batches(self, count=None, stream=0):
        """(partition, times, combined, the partition's) of batches until there are none, or so many."""
        found = []
        with contextlib.suppress(ConsumerTimeout):
            for batch in self.streams[stream].batches(["partition", "timestamp"]):
                found.append((batch["partition"][0].as_py(), times_of(batch), *map(after, marks_of(batch))))
                if len(found) == count:
                    break
        return found

    def ask_for_more(self, stream=0):
        """Readers are done with what they have when they ask for more; there is nothing more."""
        with pytest.raises(ConsumerTimeout):
            self.streams[stream].batch_source(None)(0.0)

    def messages(self, count=None):
        found = []
        with contextlib.suppress(ConsumerTimeout):
            for message in self.stream:
                found.append((message.partition, message.timestamp - BASE_TIME))
                if len(found) == count:
                    break
        return found

    @property
    def combined(self):
        return after(as_datetime(self.event_time.combined()))


def times_of(batch):
    return [each - BASE_TIME for each in batch.event_times.cast(pa.int64()).to_pylist()]


def marks_of(batch):
    return batch.watermark, batch.partition_watermark


def after(moment):
    return None if moment is None else (moment - as_datetime(BASE_TIME)) // timedelta(milliseconds=1)


# --- watermarks -------------------------------------------------------------------------------------------------------


def test_E2_a_batch_has_the_combined_watermark_after_it_and_that_of_its_partition():
    fed = Fed(WatermarkStrategy.bounded("10ms"))
    fed.put(0, 100, 130, 110)
    fed.put(1, 50)
    fed.put(0, 90)
    fed.put(1, 500)
    assert fed.batches() == [
        (0, [100, 130, 110], None, 119),
        (1, [50], 39, 39),
        (0, [90], 39, 119),
        (1, [500], 119, 489),
    ]
    assert fed.combined == 119


def test_F19_watermarks_are_of_the_connector_and_not_of_a_stream():
    fed = Fed(streams=2)
    fed.put(0, 100)
    fed.put(1, 70)
    assert fed.batches(stream=0) == [(0, [100], None, 99)]
    assert fed.batches(stream=1) == [(1, [70], 69, 69)]


def test_F19_the_watermark_covers_a_batch_when_its_reader_asks_for_more():
    fed = Fed(streams=2)
    for partition in range(2):
        fed.put(partition, 100)
    first, second = (next(stream.batches()) for stream in fed.streams)
    assert after(first.watermark) is after(second.watermark) is None, "each without what the other one has in hand"
    assert fed.combined is None
    fed.ask_for_more(0)
    assert fed.combined is None
    fed.ask_for_more(1)
    assert fed.combined == 99
    fed.put(0, 150)
    assert after(next(fed.stream.batches()).partition_watermark) == 149
    assert fed.event_time.status().partitions[fed.cursors[0].tp].watermark == BASE_TIME + 99


def test_E3_a_partition_is_not_idle_while_a_reader_has_its_last_batch_in_hand():
    fed = Fed(IDLE, streams=2)
    fed.put(0, 500)
    fed.batches()
    fed.put(1, 100)
    next(fed.streams[1].batches())
    for _ in range(5):
        fed.look(1)
        fed.clock.now += 4
    assert (fed.idle, fed.combined) == ([], None)
    fed.ask_for_more(1)
    assert fed.combined == 99
    fed.look(1)
    fed.clock.now += 6
    fed.look(1)
    assert (fed.idle, fed.combined) == ([1], 499)


def test_E2_what_a_batch_has_told_holds_though_a_partition_wakes_up_while_it_is_in_hand():
    fed = Fed(IDLE)
    fed.put(0, 100)
    fed.put(1, 100)
    fed.batches()
    fed.look(1)
    fed.clock.now += 6
    fed.look(1)
    fed.put(0, 500)
    batches = until_time_out(fed.stream.batches(["partition"]))
    assert after(next(batches).watermark) == 499, "the other one is idle"
    fed.put(1, 300)
    fed.look()
    batch = next(batches)
    assert (batch["partition"][0].as_py(), after(batch.watermark), batch.late) == (1, 499, 1)


def test_E2_a_batch_in_hand_of_a_partition_that_was_given_away_and_came_back_says_nothing_of_it():
    fed = Fed(partitions=1)
    fed.put(0, 500)
    tp = fed.cursors[0].tp
    next(fed.stream.batches())
    fed.stream.release(fed.cursors[0])
    fed.event_time.set_partitions([])
    fed.event_time.set_partitions([tp])
    fed.ask_for_more()
    assert fed.event_time.status().partitions[tp].watermark is None
    assert fed.combined == 499, "what was told stays told"


@pytest.mark.parametrize("call", range(1, 5))
def test_what_interrupts_the_look_for_those_who_may_go_on_loses_no_batch(call):
    fed = Fed(ALIGNED)
    for partition in range(2):
        fed.put(partition, 1)
    release, calls = fed.event_time.let_go_on, iter(range(1, 100))

    def interrupted():
        if next(calls) == call:
            raise KeyboardInterrupt
        return release()

    fed.event_time.let_go_on = interrupted
    found = []
    for _ in range(2):
        with contextlib.suppress(KeyboardInterrupt):
            for batch in until_time_out(fed.stream.batches(["partition"])):
                found.append(batch["partition"][0].as_py())
    assert found == [0, 1]


def test_what_interrupts_a_hand_out_loses_no_batch_and_counts_none_twice():
    fed = Fed(IDLE, partitions=1)
    fed.put(0, 7)
    fed.batches()
    fed.put(0, 5)
    count = fed.stream._on_consumed

    def interrupted(*_):
        fed.stream._on_consumed = count
        raise KeyboardInterrupt

    fed.stream._on_consumed = interrupted
    with pytest.raises(KeyboardInterrupt):
        next(fed.stream.batches())
    assert fed.batches() == [(0, [5], 6, 6)]
    assert fed.event_time.late == 1
    assert not fed.cursors[0].in_hand


def test_E2_a_partition_that_comes_or_goes_never_takes_the_combined_watermark_back():
    fed = Fed()
    fed.put(0, 100)
    fed.put(1, 70)
    fed.batches()
    assert fed.combined == 69
    fed.event_time.set_partitions([fed.cursors[0].tp])
    assert fed.combined == 99, "who has gone holds nobody"
    fed.event_time.set_partitions([cursor.tp for cursor in fed.cursors])
    fed.put(1, 80)
    assert fed.batches() == [(1, [80], 99, 79)]
    assert fed.event_time.late == 1


def test_E1_messages_move_the_watermark_when_all_that_are_handed_out_of_their_batch_are():
    fed = Fed(partitions=1)
    fed.put(0, 10, 20, 30)
    fed.put(0, 40)
    assert fed.messages(2) == [(0, 10), (0, 20)]
    assert fed.combined is None, "not for messages that nobody has got yet"
    fed.stream.pause(fed.cursors[0])
    assert fed.combined == 19, "and not for those that wait"
    fed.stream.resume(fed.cursors[0])
    assert fed.messages() == [(0, 30), (0, 40)]
    assert fed.combined == 39
    assert fed.stream.position(fed.cursors[0]) == 4


def test_E1_a_punctuated_watermark_comes_from_the_records_alone():
    fed = Fed(WatermarkStrategy.punctuated(odd), partitions=1)
    fed.put(0, 100, 101, 200)
    fed.put(0, 300)
    fed.put(0, 51)
    found = [(times_of(batch), after(batch.watermark)) for batch in until_time_out(fed.stream.batches())]
    assert found == [([100, 101, 200], 101), ([300], 101), ([51], 101)]


@pytest.mark.parametrize("by", ["batches", "messages"])
def test_E4_a_punctuated_strategys_function_gets_each_batch_once_and_batches_are_cut_by_what_it_said(by):
    sizes, threads = [], set()

    def marks(batch):
        sizes.append(batch.num_rows)
        threads.add(threading.current_thread())
        return odd(batch)

    fed = Fed(WatermarkStrategy.punctuated(marks).with_alignment("10ms"))
    for partition in range(2):
        fed.put(partition, *range(1, 101))
    if by == "batches":
        batches = list(until_time_out(fed.stream.batches()))
        found = [(batch["partition"][0].as_py(), each) for batch in batches for each in times_of(batch)]
        assert 10 < len(batches) < 50, "cut where they must be, and not into single records"
    else:
        found = fed.messages(3)
        pausing = threading.Thread(
            target=lambda: [act(fed.cursors[1]) for act in (fed.stream.pause, fed.stream.resume)]
        )
        pausing.start()
        pausing.join(60)
        found += fed.messages()
    for partition in range(2):
        assert [each for at, each in found if at == partition] == list(range(1, 101))
    carried = [(at, each) for at, each in found if each % 2]
    assert within(carried, 2, 10)
    assert sizes == ([100, 100] if by == "batches" else [100, 100, 98]), "what is paused is decoded again"
    assert threads == {threading.current_thread()}
    assert fed.combined == 99


def until_time_out(iteration):
    with contextlib.suppress(ConsumerTimeout):
        yield from iteration


def odd(batch):
    """The watermark that records with an odd time carry: that time."""
    values = pc.cast(pc.cast(batch["value"], pa.string()), pa.int64())
    return pc.if_else(pc.equal(pc.bit_wise_and(values, 1), 1), pc.add(values, BASE_TIME), None)


def test_E5_late_records_are_counted_with_their_batch_and_in_all():
    fed = Fed(partitions=1)
    fed.put(0, 100, 200)
    fed.put(0, 199, 200, 150, 201)
    late = [batch.late for batch in until_time_out(fed.stream.batches())]
    assert late == [0, 2]
    assert fed.event_time.late == 2


def test_a_function_that_fails_is_met_again_and_nothing_is_lost():
    broken = [True]

    def times(batch):
        if broken[0]:
            raise ZeroDivisionError("no")
        return batch["timestamp"]

    fed = Fed(MONOTONOUS.with_timestamps(times), partitions=1)
    fed.put(0, 10, 20)
    place = f"{TOPIC}-0, 2 records from offset 0 on: function .*ZeroDivisionError: no.*seek"
    for _ in range(2):
        with pytest.raises(EventTimeError, match=place) as caught:
            next(fed.stream.batches())
    assert "ZeroDivisionError" in pickle.loads(pickle.dumps(caught.value)).details
    broken[0] = False
    assert next(fed.stream.batches()).num_rows == 2
    broken[0] = True
    fed.put(0, 30)
    with pytest.raises(EventTimeError, match="1 record from offset 2 on"):
        next(fed.stream)
    fed.stream.move(fed.cursors[0], 3)
    fed.put(0, 40)
    broken[0] = False
    assert fed.messages() == [(0, 40)], "what was passed over is gone"


def test_what_is_handed_out_has_the_columns_that_were_asked_for():
    fed = Fed(MONOTONOUS.with_alignment("1h"), partitions=1)
    fed.put(0, 10)
    fed.put(0, 20)
    assert next(fed.stream.batches(["value"])).schema.names == ["value"]
    assert next(fed.stream.batches(["offset", "key"])).schema.names == ["offset", "key"]


def test_a_column_that_has_no_time_is_refused_when_streams_are_made_and_one_that_messages_lack_when_they_are_read():
    with pytest.raises(EventTimeError, match="value is of type binary and has no fields"):
        Fed(MONOTONOUS.with_timestamps("value.created"))
    with pytest.raises(EventTimeError, match="string"):
        Fed(MONOTONOUS.with_timestamps("topic"))
    fed = Fed(MONOTONOUS.with_timestamps("offset"))
    fed.put(0, 10)
    batch = next(fed.stream.batches(["key"]))
    assert (batch.schema.names, after(batch.partition_watermark)) == (["key"], -1 - BASE_TIME)


# --- alignment --------------------------------------------------------------------------------------------------------


def test_E4_a_batch_is_cut_behind_the_record_that_goes_too_far_and_the_rest_comes_when_the_others_have_caught_up():
    fed = Fed(ALIGNED)
    fed.put(0, *range(0, 500, 50))
    fed.put(1, *range(0, 500, 200))
    assert [found[:2] for found in fed.batches()] == [
        (0, [0]),  # nothing is known of the other yet
        (1, [0, 200]),
        (0, [50, 100, 150, 200, 250, 300, 350]),
        (1, [400]),
        (0, [400, 450]),
    ]
    assert [fed.stream.position(cursor) for cursor in fed.cursors] == [10, 3]
    assert fed.combined == 399


def test_E4_messages_are_held_back_as_batches_are_and_both_may_alternate():
    fed = Fed(ALIGNED)
    fed.put(0, *range(0, 500, 50))
    fed.put(1, *range(0, 500, 200))
    handed = fed.messages(5)
    handed += [(partition, each) for partition, times, *_ in fed.batches(1) for each in times]
    handed += fed.messages()
    assert within(handed, 2, 100)
    assert sorted(handed) == [(0, each) for each in range(0, 500, 50)] + [(1, each) for each in range(0, 500, 200)]


def test_E4_the_slowest_may_go_on_until_it_is_too_far_ahead_of_the_others_however_long_its_batch_is():
    fed = Fed(ALIGNED)
    fed.put(1, 1000)
    fed.put(0, *range(0, 1000, 100))
    assert [found[:2] for found in fed.batches()] == [(1, [1000]), (0, list(range(0, 1000, 100)))]


def test_E4_a_gap_in_time_in_all_partitions_holds_nobody_for_ever():
    fed = Fed(ALIGNED)
    for partition in range(2):
        fed.put(partition, 0, 1_000_000, 1_000_001)
    assert within(fed.messages(), 2, 100)
    assert fed.combined == 1_000_000


def within(handed, partitions, drift, reached=None, active=None):
    """Whether records came out as alignment says: when one comes, its partition was not too far ahead of the slowest of
    those that are active. Each is (partition, time)."""
    reached = {} if reached is None else reached
    active = range(partitions) if active is None else active
    for partition, moment in handed:
        mine = reached.get(partition)
        if mine is not None:
            slowest = [reached.get(at) for at in active if at != partition]
            assert None not in slowest, f"{partition} went on while nothing was known of another"
            assert mine <= min(slowest, default=mine) + drift, (partition, moment, reached)
        reached[partition] = moment if mine is None else max(mine, moment)
    return True


@settings(max_examples=40)
@given(st.data())
def test_E4_whatever_comes_each_record_is_handed_out_once_in_order_and_none_goes_too_far(data):
    chunks = data.draw(
        st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(0, 200), min_size=1, max_size=12)), min_size=1)
    )
    drift = data.draw(st.integers(0, 50))
    fed = Fed(MONOTONOUS.with_alignment(timedelta(milliseconds=drift)), 4)
    left = {at: [] for at in range(4)}
    for at, times in chunks:
        fed.put(at, *times)
        left[at] += times
    reached = {}
    while any(left.values()):
        active = [at for at in left if left[at]]
        for at in set(left) - set(active):
            fed.event_time._tracker.finish(fed.cursors[at].tp)
        came = 0
        while True:  # until all that is left is held back
            if data.draw(st.booleans()):
                handed = fed.messages(data.draw(st.integers(1, 5)))
            else:
                handed = [(at, each) for at, times, *_ in fed.batches(1) for each in times]
            if not handed:
                break
            came += len(handed)
            assert within(handed, 4, drift, reached, active)
            for at, each in handed:
                assert left[at].pop(0) == each
            if data.draw(st.integers(0, 5)) == 0:
                cursor = data.draw(st.sampled_from(fed.cursors))
                fed.stream.pause(cursor)
                fed.stream.resume(cursor)
        assert came, "somebody may always go on"


def test_E4_one_stream_waits_for_another_and_is_woken_by_its_reader():
    fed = Fed(ALIGNED, streams=2, timeout=90.0)
    fed.put(0, 0, 500)
    fed.put(0, 600)
    seen = []

    def read():
        for batch in fed.streams[0].batches():
            seen.extend(times_of(batch))

    reader = threading.Thread(target=read)
    reader.start()
    eventually(lambda: seen == [0], "the first")
    fed.put(1, 390)
    assert next(fed.streams[1].batches()).num_rows == 1
    assert seen == [0], "who reads it may not be done with it"
    fed.ask_for_more(1)
    eventually(lambda: seen == [0, 500], "held back until the other was read")
    fed.put(1, 450)
    next(fed.streams[1])
    assert seen == [0, 500], "messages count when more is asked for"
    fed.put(1, 460)
    next(fed.streams[1])
    eventually(lambda: seen == [0, 500, 600], "and then the rest")
    for stream in fed.streams:
        stream.close()
    reader.join(60)
    assert not reader.is_alive()


def test_E3_what_was_held_back_goes_on_when_the_others_turn_idle_though_nothing_arrives():
    fed = Fed(ALIGNED.with_idleness("5s"), streams=2, timeout=90.0)
    fed.put(0, 0, 500, 900)
    clock = started(fed)
    seen = []

    def read():
        for batch in fed.stream.batches():
            seen.extend(times_of(batch))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        eventually(lambda: fed.event_time.status().held == [fed.cursors[0].tp], "held back")
        assert seen == [0]
        fed.answer(1)
        eventually(lambda: fed.event_time._tracker._partitions[fed.cursors[1].tp].quiet_since, "looked at")
        fed.clock.now += 6
        fed.answer(1)
        eventually(lambda: fed.event_time.status().idle == [fed.cursors[1].tp], "idle")
        eventually(lambda: fed.combined == 899, "all of it is read")
    finally:
        fed.stream.close()
        reader.join(60)
        clock.close(60)
    assert seen == [0, 500, 900]


def test_E3_a_partition_that_wakes_up_holds_the_others_again_and_takes_nothing_back():
    fed = Fed(ALIGNED.with_idleness("5s"))
    fed.put(0, 500)
    fed.put(1, 400)
    fed.batches()
    fed.put(0, 700)
    fed.look(1)
    fed.clock.now += 6
    fed.look(1)
    assert [found[:3] for found in fed.batches()] == [(0, [700], 699)]
    fed.put(1, 450, 460)
    fed.put(0, 710)
    fed.event_time.look(fed.cursors)
    assert fed.event_time.status().held == [fed.cursors[0].tp]
    assert [found[:3] for found in fed.batches()] == [(1, [450, 460], 699)], "the combined one stays, and one waits"
    assert fed.event_time.late == 2
    fed.put(1, 620)
    assert [found[:3] for found in fed.batches()] == [(1, [620], 699), (0, [710], 699)]


def test_E3_a_partition_that_no_broker_has_spoken_of_is_not_idle_however_long_it_takes():
    fed = Fed(IDLE)
    fed.put(0, 100)
    for _ in range(10):
        fed.clock.now += 4
        fed.look()
    assert [found[:3] for found in fed.batches()] == [(0, [100], None)]
    assert fed.idle == []


def test_E3_an_answer_that_is_old_makes_nobody_idle_and_the_next_one_tells_of_the_time_between():
    fed = Fed(IDLE)
    fed.look(1)
    fed.clock.now += 3
    fed.look(1)
    for _ in range(10):  # paused, or its stream is full, or its leader is gone
        fed.clock.now += 4
        fed.look()
        assert fed.idle == []
    fed.look(1)
    assert fed.idle == [1], "nothing came all the while"
    fed.clock.now += 0.9
    fed.look()
    assert fed.idle == [1]
    fed.clock.now += 0.2
    fed.look()
    assert fed.idle == [], "what is known of it is old again"
    fed.look(1)
    assert fed.idle == [1]


def test_E3_a_record_that_has_come_stops_the_idle_clock_before_anybody_looks():
    fed = Fed(IDLE)
    for partition in range(2):
        fed.put(partition, 100)
    fed.batches()
    fed.look(0, 1)
    fed.clock.now += 4.9
    fed.put(0, 900)
    fed.put(1, 150)
    fed.clock.now += 0.2
    assert fed.idle == []
    assert [found[:3] for found in fed.batches()] == [(0, [900], 99), (1, [150], 149)]
    assert fed.event_time.late == 0


def timed_by_value(batch):
    """The time is in the value; none in those above 1000."""
    times = pc.add(pc.cast(pc.cast(batch["value"], pa.string()), pa.int64()), BASE_TIME)
    return pc.if_else(pc.less(times, BASE_TIME + 1000), times, None)


@pytest.mark.parametrize("by", ["batches", "messages"])
def test_E3_a_partition_whose_records_have_no_time_counts_as_one_without_records(by, caplog):
    fed = Fed(ALIGNED.with_idleness("5s").with_timestamps(timed_by_value))

    def read():
        if by == "messages":
            return fed.messages()
        batches = [batch.to_pydict() for batch in until_time_out(fed.stream.batches(["partition", "value"]))]
        return [(at, int(value)) for each in batches for at, value in zip(*each.values(), strict=True)]

    fed.put(0, 10, 20)
    found = []
    for number in range(3):
        fed.put(1, 1001 + number)
        found += read()
        fed.look(0)
        fed.clock.now += 2
    assert found == [(0, 10), *((1, 1001 + number) for number in range(3))], "one waits"
    fed.put(1, 1005)
    fed.look(0)
    assert fed.idle == [1], "though it has records"
    fed.event_time.let_go_on()
    assert sorted(read()) == [(0, 20), (1, 1005)]
    assert not own_records(caplog)
    fed.clock.now += 4
    fed.look(0)
    fed.look(0)
    assert len(own_records(caplog)) == 1
    assert f"{TOPIC}-1 have had no event time" in caplog.text
    fed.put(1, 15)
    assert fed.idle == [1], "what it has may have no time, either"
    assert read() == [(1, 15)]
    assert (fed.idle, fed.combined) == ([], 19)
    assert fed.event_time.late == 1
    fed.put(0, 300, 301)
    assert read() == [(0, 300)], "it counts again"


def timeless(fed):
    """Partition 1 has had records without a time for so long that it is idle."""
    fed.put(1, 1001)
    fed.messages()
    fed.clock.now += 6
    fed.look(0)
    assert 1 in fed.idle


@pytest.mark.parametrize("by", ["batches", "messages"])
def test_E3_records_with_a_time_count_while_they_are_in_hand_also_if_those_before_had_none(by):
    fed = Fed(IDLE.with_timestamps(timed_by_value))
    timeless(fed)
    fed.put(1, 15, 16)
    next(fed.stream if by == "messages" else fed.stream.batches())
    for _ in range(3):
        fed.look(0, 1)
        fed.clock.now += 4
        assert 1 not in fed.idle


def test_E3_a_partition_of_which_a_users_class_skips_all_is_idle_too_and_nobody_is_warned(caplog):
    fed = Fed(IDLE)
    nothing = Piece(
        pa.record_batch({"value": pa.array([], pa.binary())}), EventTimes(pa.array([], pa.int64()), ""), None, None
    )
    fed.put(1, 5)
    fed.event_time.done_with(fed.cursors[1], nothing)
    fed.clock.now += 20
    fed.look(0)
    assert fed.idle == [1], "though it has records"
    assert not own_records(caplog)


def test_E3_a_partition_that_comes_back_is_not_judged_by_what_it_had_before():
    fed = Fed(IDLE.with_timestamps(timed_by_value))
    timeless(fed)
    fed.event_time.set_partitions([fed.cursors[0].tp])
    fed.event_time.set_partitions([cursor.tp for cursor in fed.cursors])
    fed.clock.now += 6
    fed.look()
    assert 1 not in fed.idle


def test_E3_a_broker_that_may_wait_for_long_is_given_twice_that_time():
    fed = Fed(IDLE)
    patient = EventTime(IDLE, fed.clock, fetch_max_wait=4.0)
    patient.set_partitions([cursor.tp for cursor in fed.cursors])
    fed.answer(1)
    for _ in range(2):
        patient.look(fed.cursors)
        fed.clock.now += 3.9
    patient.look(fed.cursors)
    assert [tp.partition for tp in patient.status().idle] == [1]
    fed.clock.now += 0.3
    patient.look(fed.cursors)
    assert patient.status().idle == []


def test_E5_records_are_late_by_the_watermark_that_was_reached_when_they_were_handed_out():
    fed = Fed(streams=2)
    fed.put(0, 200)
    fed.put(1, 50)
    for stream in range(2):
        fed.batches(stream=stream)
    fed.put(0, 150)
    assert next(fed.streams[0].batches()).late == 0
    fed.put(1, 180)
    fed.batches(stream=1)
    fed.ask_for_more(0)
    assert (fed.combined, fed.event_time.late) == (179, 0)


@pytest.mark.parametrize("moved", ["a record", "a seek", "a seek to where it was"])
def test_E3_the_idle_clock_begins_anew_when_a_partition_has_moved(moved):
    fed = Fed(IDLE)
    fed.look(1)
    fed.clock.now += 4
    if moved == "a record":
        fed.put(1, 7)
        fed.messages()
    else:
        fed.stream.move(fed.cursors[1], 0 if "was" in moved else 5)
        fed.look()
    fed.look(1)
    fed.clock.now += 4
    fed.look(1)
    assert fed.idle == []
    fed.clock.now += 2
    fed.look(1)
    assert fed.idle == [1]


@pytest.mark.parametrize("state", ["queued", "at the broker", "no position", "never fetched", "end unknown"])
def test_E3_a_partition_is_at_its_end_only_if_all_of_it_was_handed_out(state):
    fed = Fed(IDLE)
    cursor = fed.cursors[1]
    fed.answer(1)
    match state:
        case "queued":
            fed.put(1, 7)
        case "at the broker":
            cursor.readable = 1
        case "no position":
            cursor.consumed = cursor.fetched = None
        case "never fetched":
            cursor.readable = None
        case "end unknown":
            cursor.fetched = None
    assert cursor.nothing_since(0.0) is None
    for _ in range(3):
        fed.clock.now += 4
        cursor.answered = fed.clock.now
        fed.look()
    assert fed.idle == []


def test_E4_what_is_held_back_makes_room_for_others():
    fed = Fed(ALIGNED, queued_chunks=2)
    ahead, slow = fed.cursors
    fed.put(0, 0)
    fed.batches()
    for base in (10, 20_010):
        fed.put(0, *range(base, base + 20_000))
    assert fed.stream.full, "who holds is found out by reading"
    room = fed.room
    assert fed.batches() == []
    assert fed.room > room
    assert not fed.stream.full
    assert (ahead.wants_more, slow.wants_more) == (False, True)
    assert fed.stream.queue_size == 0
    fed.put(1, 100_000)
    assert len(fed.batches()) > 2
    assert (ahead.wants_more, slow.wants_more) == (True, True)


def test_E4_what_is_held_back_and_has_nothing_at_hand_is_fetched():
    fed = Fed(ALIGNED)
    fed.put(0, 0)
    fed.batches()
    assert fed.event_time.is_ahead(fed.cursors[0])
    assert fed.cursors[0].wants_more
    fed.put(0, 500)
    assert not fed.cursors[0].wants_more


def test_E4_whoever_is_held_back_while_the_limit_is_low_goes_on_when_it_is_again_what_it_was():
    fed = Fed(ALIGNED, partitions=4)
    slowest, ahead, waking, between = fed.cursors
    tracker = fed.event_time._tracker
    for cursor, reached in zip(fed.cursors, (0, 150, -50, 80), strict=True):
        tracker.observe(cursor.tp, reached, fed.clock.now)
    tracker.finish(waking.tp)
    assert fed.event_time.is_ahead(ahead)
    assert not fed.event_time.let_go_on()
    tracker.has_records(waking.tp, fed.clock.now)
    assert fed.event_time.is_ahead(between)
    tracker.finish(waking.tp)
    assert fed.event_time.let_go_on()
    assert (slowest.ahead, ahead.ahead, between.ahead) == (False, True, False)


def test_E4_a_partition_that_may_go_on_in_the_middle_of_a_look_still_begins_with_its_first_chunk():
    fed = Fed(ALIGNED, partitions=1)
    fed.put(0, 1)
    fed.put(0, 2)
    answers = iter([True, False])
    fed.stream._must_wait = lambda cursor: next(answers)
    assert fed.stream._first() is None
    assert fed.stream._first().start == 0


def test_E4_pausing_is_the_users_and_holding_back_is_ours():
    fed = Fed(ALIGNED)
    fed.put(0, 0, 10, 20)
    assert [found[:2] for found in fed.batches()] == [(0, [0])]
    fed.stream.pause(fed.cursors[0])
    fed.put(1, 0)
    assert [found[:2] for found in fed.batches()] == [(1, [0])]
    fed.stream.resume(fed.cursors[0])
    assert [found[:2] for found in fed.batches()] == [(0, [10, 20])]


def test_E4_a_seek_forgets_what_was_held_back():
    fed = Fed(ALIGNED)
    fed.put(0, 0, 10, 20)
    fed.put(0, 30)
    assert [found[:2] for found in fed.batches()] == [(0, [0])]
    fed.stream.move(fed.cursors[0], 100)
    fed.put(0, 5)
    fed.put(1, 0)
    assert [found[:2] for found in fed.batches()] == [(1, [0]), (0, [5])]
    assert fed.stream.position(fed.cursors[0]) == 101


def test_E2_a_seek_back_takes_no_watermark_back_and_what_comes_again_is_late():
    fed = Fed(partitions=1)
    fed.put(0, 100, 200)
    fed.batches()
    fed.stream.move(fed.cursors[0], 0)
    fed.put(0, 100, 200)
    batch = next(fed.stream.batches())
    assert (after(batch.watermark), after(batch.partition_watermark), batch.late) == (199, 199, 1)
    fed.ask_for_more()
    assert (fed.combined, fed.event_time.late) == (199, 1)


def test_E3_a_partition_that_stands_still_by_an_error_holds_the_others_until_somebody_seeks():
    fed = Fed(IDLE)
    fed.put(0, 100)
    fed.answer(1)
    fed.stream.fail(fed.cursors[1], ZeroDivisionError("damaged"), fed.cursors[1].version)
    with pytest.raises(ZeroDivisionError):
        next(fed.stream.batches())
    for _ in range(3):  # nothing is fetched of it
        assert not fed.cursors[1].wants_more
        fed.clock.now += 6
        fed.look()
    assert fed.batches() == [(0, [100], None, 99)]
    fed.stream.move(fed.cursors[1], 5)
    assert fed.cursors[1].wants_more
    fed.look(1)
    fed.clock.now += 6
    fed.look(1)
    assert (fed.idle, fed.combined) == ([1], 99)


def test_E4_a_chunk_that_a_seek_has_made_void_is_let_go_and_not_set_aside():
    fed = Fed(ALIGNED)
    fed.put(0, 0, 500, 900)
    assert [found[:2] for found in fed.batches(1)] == [(0, [0])]
    fed.stream.move(fed.cursors[0], 100)
    fed.ask_for_more()
    assert not fed.stream._queue
    assert fed.stream._opened is None


def test_E4_who_may_go_on_is_fetched_again():
    fed = Fed(ALIGNED)
    fed.put(0, 0, 500)
    assert [found[:2] for found in fed.batches()] == [(0, [0])]
    fed.put(1, 450)
    room = fed.room
    assert [found[:2] for found in fed.batches()] == [(1, [450]), (0, [500])]
    assert fed.room > room, "its fetcher does not ask for what is held back, and waits"


def test_E4_a_rebalance_lets_those_go_on_who_have_waited_for_what_has_gone():
    connector = penstock.Connector({"bootstrap.servers": "localhost:1", "group.id": "g"}, watermarks=ALIGNED)
    event_time = connector._event_time
    stream = EventStream(event_time, "me-0", CONFIG)
    ahead, slow = (Cursor(TopicPartition(TOPIC, at), stream, 0) for at in range(2))
    connector._cursors = {cursor.tp: cursor for cursor in (ahead, slow)}
    connector._tell_event_time()
    event_time._tracker.observe(ahead.tp, 1, 0.0)
    assert event_time.is_ahead(ahead)
    connector._cursors = {ahead.tp: ahead}
    connector._tell_event_time()
    assert not ahead.ahead


def test_E4_a_released_partition_is_not_waited_with():
    fed = Fed(ALIGNED)
    fed.put(0, 0)
    fed.batches()
    assert fed.event_time.is_ahead(fed.cursors[0])
    fed.stream.release(fed.cursors[0])
    fed.event_time.set_partitions([fed.cursors[1].tp])
    assert not fed.event_time._ahead


def test_E4_nothing_is_held_of_a_partition_that_was_released():
    fed = Fed(ALIGNED)
    fed.put(0, 0, 10, 20)
    assert fed.stream.release(fed.cursors[0]) == 0
    fed.event_time.set_partitions([fed.cursors[1].tp])
    fed.put(1, 0, 1000)
    assert [found[:2] for found in fed.batches()] == [(1, [0, 1000])]
    assert not fed.event_time._ahead


def test_an_async_stream_has_event_time_and_waits_for_what_is_held_back():
    fed = Fed(ALIGNED, timeout=None)
    fed.put(0, 0, 10)

    async def read():
        found = []
        async for batch in penstock.AsyncStream(fed.stream).batches(["value"]):
            found.append((times_of(batch), after(batch.watermark)))
            if len(found) == 1:
                asyncio.get_running_loop().call_later(0.05, fed.put, 1, 5)
            if len(found) == 3:
                return found
        return found

    assert asyncio.run(asyncio.wait_for(read(), 60)) == [([0], None), ([5], -1), ([10], 4)]


def test_async_messages_have_event_time_and_wait_for_what_is_held_back():
    fed = Fed(ALIGNED, timeout=None)
    fed.put(0, 0, 500, 501)

    async def read():
        found = []
        async for message in penstock.AsyncStream(fed.stream):
            found.append((message.partition, message.event_time - BASE_TIME))
            if len(found) == 1:
                asyncio.get_running_loop().call_later(0.05, fed.put, 1, 5, 450)
            if len(found) == 5:
                break
        return found

    found = asyncio.run(asyncio.wait_for(read(), 60))
    assert found == [(0, 0), (1, 5), (1, 450), (0, 500), (0, 501)]
    fed.ask_for_more()
    assert fed.combined == 449


# --- who is told ------------------------------------------------------------------------------------------------------


def started(fed, listener=None, **config):
    settings = {"bootstrap.servers": "x:1", "group.id": "g"} | config
    clock = WatermarkClock(parse_config(settings), fed.event_time, lambda: fed.cursors)
    clock.teller.listener = listener
    clock.start()
    return clock


def test_a_listener_is_told_of_each_watermark_of_a_punctuated_strategy_at_once():
    fed = Fed(WatermarkStrategy.punctuated(odd), partitions=1)
    told = []
    clock = started(fed, told.append, **{"auto.watermark.interval.ms": 600_000})
    for moment in (11, 12, 13, 9, 15):
        fed.put(0, moment)
    fed.messages()
    try:
        eventually(lambda: len(told) >= 3, "told")
    finally:
        clock.close(60)
    assert [after(moment) for moment in told] == [11, 13, 15]


def test_a_listener_is_told_every_interval_of_what_is_new_and_its_errors_stop_nothing():
    fed = Fed(partitions=1)
    told = []

    def listener(moment):
        told.append(after(moment))
        raise ZeroDivisionError

    clock = started(fed, listener, **{"auto.watermark.interval.ms": 10})
    try:
        for moment in (11, 13):
            fed.put(0, moment)
            fed.batches()
            eventually(lambda moment=moment: told[-1:] == [moment - 1], "told")
        time.sleep(0.05)
    finally:
        clock.close(60)
    assert told == [10, 12], "and not twice of the same"


def test_a_listener_that_is_slow_holds_up_nobody_and_is_told_what_is_newest():
    fed = Fed(ALIGNED.with_idleness("5s"))
    told, entered, goes_on = [], threading.Event(), threading.Event()

    def listener(moment):
        told.append(after(moment))
        entered.set()
        assert goes_on.wait(60)

    clock = started(fed, listener, **{"auto.watermark.interval.ms": 10})
    try:
        for partition in range(2):
            fed.put(partition, 11)
        fed.batches()
        assert entered.wait(60)
        fed.put(0, 500)
        fed.batches()
        fed.put(0, 900)
        assert fed.batches() == []
        fed.answer(1)
        eventually(lambda: fed.event_time._tracker._partitions[fed.cursors[1].tp].quiet_since, "looked at")
        fed.clock.now += 6
        fed.answer(1)
        eventually(lambda: not fed.cursors[0].ahead, "let go on, though the listener has not returned")
        assert told == [10]
        fed.batches()
        for moment in range(1000, 5000, 100):
            fed.put(0, moment)
            fed.batches()
        eventually(lambda: list(clock.teller._to_tell) == [BASE_TIME + 4899], "one waits, and not each")
        goes_on.set()
        eventually(lambda: told == [10, 4899], "the newest")
    finally:
        goes_on.set()
        clock.close(60)


def test_a_listener_is_told_when_a_punctuated_watermark_moves_because_a_partition_is_idle():
    fed = Fed(WatermarkStrategy.punctuated(odd).with_idleness("5s"))
    told = []
    clock = started(fed, told.append, **{"auto.watermark.interval.ms": 600_000})
    try:
        fed.put(0, 11)
        fed.put(1, 5)
        fed.messages()
        eventually(lambda: [after(moment) for moment in told] == [5], "told")
        eventually(lambda: clock._tell_at > time.monotonic(), "not to be told again for long")
        fed.answer(1)
        eventually(lambda: fed.event_time._tracker._partitions[fed.cursors[1].tp].quiet_since, "looked at")
        fed.clock.now += 6
        fed.answer(1)
        eventually(lambda: [after(moment) for moment in told] == [5, 11], "told")
    finally:
        clock.close(60)


def test_nobody_is_told_once_it_is_closed_and_of_those_that_wait_the_oldest_go():
    told, entered, goes_on = [], threading.Event(), threading.Event()
    teller = WatermarkTeller("g", each=True)
    teller.tell(1)
    teller.start()

    def listener(moment):
        told.append(moment)
        entered.set()
        assert goes_on.wait(60)

    teller.listener = listener
    teller.tell(2)
    assert entered.wait(60)
    for watermark in range(3, 3 + 2 * MOST_WAITING):
        teller.tell(watermark)
    assert list(teller._to_tell) == list(range(3 + MOST_WAITING, 3 + 2 * MOST_WAITING))
    closing = threading.Thread(target=teller.close, args=[60])
    closing.start()
    eventually(lambda: teller._stopped, "closing")
    goes_on.set()
    closing.join(60)
    assert not closing.is_alive()
    assert told == [as_datetime(2)]


# --- the batch itself -------------------------------------------------------------------------------------------------


def test_a_batch_is_arrow_for_whoever_takes_arrow():
    records = pa.record_batch({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    batch = EventBatch(records, EventTimes(pa.array([1, None, 2000], pa.int64()), "test"), 1999, 1999, late=1)
    assert pa.record_batch(batch) == records
    assert pa.schema(batch) == records.schema
    assert batch.watermark == batch.partition_watermark == datetime(1970, 1, 1, 0, 0, 1, 999000, tzinfo=UTC)
    assert batch.event_times.to_pylist()[1:] == [None, datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)]
    assert (len(batch), batch.num_rows, batch.num_columns, batch.schema.names) == (3, 3, 2, ["a", "b"])
    assert batch["a"] == batch.column("a") == batch.columns[0] == records["a"]
    assert batch.slice(1, 1) == records.slice(1, 1)
    assert batch.select(["b"]).to_pylist() == [{"b": "x"}, {"b": "y"}, {"b": "z"}]
    assert batch.to_pydict() == {"a": [1, 2, 3], "b": ["x", "y", "z"]}
    assert batch.to_pandas().shape == (3, 2)
    assert "3 rows" in repr(batch)
    with pytest.raises(AttributeError):
        _ = batch.nothing


def test_a_watermark_that_python_has_no_year_for_is_its_last_one():
    assert as_datetime(2**62) == datetime.max.replace(tzinfo=UTC)
    assert as_datetime(-(2**62)) == datetime.min.replace(tzinfo=UTC)
