"""E3 in the consumer: which partitions are idle, and what happens to the others."""

from __future__ import annotations

import threading

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fixtures.consumer import eventually
from hostile.record_batches import BASE_TIME, TOPIC
from penstock.consumer.event_time.shared_tracker import SharedTracker
from penstock.consumer.event_time.timed_records import TimedRecords
from penstock.eventtime.times import EventTimes
from support.fed_event_stream import ALIGNED, IDLE, Fed, started, times_of, until_time_out
from support.own_logs import own_records


def test_E3_a_partition_is_not_idle_while_a_thread_works_on_its_last_batch():
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


def test_E3_partitions_that_were_held_back_continue_when_the_others_turn_idle():
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


def test_E3_a_partition_that_stops_being_idle_holds_the_others_again_and_sets_no_watermark_back():
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
    fed.event_time.check_idle(fed.cursors)
    assert fed.event_time.status().held == [fed.cursors[0].tp]
    assert [found[:3] for found in fed.batches()] == [(1, [450, 460], 699)], "the combined one stays, and one waits"
    assert fed.event_time.late == 2
    fed.put(1, 620)
    assert [found[:3] for found in fed.batches()] == [(1, [620], 699), (0, [710], 699)]


def test_E3_a_partition_is_not_idle_before_a_broker_has_answered_for_it():
    fed = Fed(IDLE)
    fed.put(0, 100)
    for _ in range(10):
        fed.clock.now += 4
        fed.look()
    assert [found[:3] for found in fed.batches()] == [(0, [100], None)]
    assert fed.idle == []


def test_E3_an_old_answer_makes_no_partition_idle_and_the_next_one_covers_the_time_between():
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


def test_E3_a_record_that_arrives_stops_the_idle_time_at_once():
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
    fed.event_time.resume_caught_up()
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
def test_E3_records_with_a_time_count_while_a_thread_works_on_them_even_if_earlier_ones_had_none(by):
    fed = Fed(IDLE.with_timestamps(timed_by_value))
    timeless(fed)
    fed.put(1, 15, 16)
    next(fed.stream if by == "messages" else fed.stream.batches())
    for _ in range(3):
        fed.look(0, 1)
        fed.clock.now += 4
        assert 1 not in fed.idle


def test_E3_a_partition_whose_records_are_all_skipped_is_idle_too_without_a_warning(caplog):
    fed = Fed(IDLE)
    nothing = TimedRecords(
        pa.record_batch({"value": pa.array([], pa.binary())}), EventTimes(pa.array([], pa.int64()), ""), None, None
    )
    fed.put(1, 5)
    fed.event_time.done_with(fed.cursors[1], nothing)
    fed.clock.now += 20
    fed.look(0)
    assert fed.idle == [1], "though it has records"
    assert not own_records(caplog)


def test_E3_a_partition_that_is_assigned_again_is_not_judged_by_its_earlier_records():
    fed = Fed(IDLE.with_timestamps(timed_by_value))
    timeless(fed)
    fed.event_time.set_partitions([fed.cursors[0].tp])
    fed.event_time.set_partitions([cursor.tp for cursor in fed.cursors])
    fed.clock.now += 6
    fed.look()
    assert 1 not in fed.idle


def test_E3_an_answer_counts_for_twice_the_time_that_a_broker_may_wait():
    fed = Fed(IDLE)
    slow_broker = SharedTracker(IDLE, fed.clock, fetch_max_wait=4.0)
    slow_broker.set_partitions([cursor.tp for cursor in fed.cursors])
    fed.answer(1)
    for _ in range(2):
        slow_broker.check_idle(fed.cursors)
        fed.clock.now += 3.9
    slow_broker.check_idle(fed.cursors)
    assert [tp.partition for tp in slow_broker.status().idle] == [1]
    fed.clock.now += 0.3
    slow_broker.check_idle(fed.cursors)
    assert slow_broker.status().idle == []


@pytest.mark.parametrize("moved", ["a record", "a seek", "a seek to where it was"])
def test_E3_the_idle_time_starts_again_when_a_partition_was_moved(moved):
    fed = Fed(IDLE)
    fed.look(1)
    fed.clock.now += 4
    if moved == "a record":
        fed.put(1, 7)
        fed.messages()
    else:
        fed.reader.move(fed.cursors[1], 0 if "was" in moved else 5)
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
    assert cursor.empty_since(0.0) is None
    for _ in range(3):
        fed.clock.now += 4
        cursor.answered_at = fed.clock.now
        fed.look()
    assert fed.idle == []


def test_E3_a_partition_that_an_error_has_stopped_holds_the_others_until_a_seek():
    fed = Fed(IDLE)
    fed.put(0, 100)
    fed.answer(1)
    fed.reader.fail(fed.cursors[1], ZeroDivisionError("damaged"), fed.cursors[1].version)
    with pytest.raises(ZeroDivisionError):
        next(fed.stream.batches())
    for _ in range(3):  # nothing is fetched of it
        assert not fed.cursors[1].wants_more
        fed.clock.now += 6
        fed.look()
    assert fed.batches() == [(0, [100], None, 99)]
    fed.reader.move(fed.cursors[1], 5)
    assert fed.cursors[1].wants_more
    fed.look(1)
    fed.clock.now += 6
    fed.look(1)
    assert (fed.idle, fed.combined) == ([1], 99)
