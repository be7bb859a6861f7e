"""E4 in the consumer: which partitions are held back, until when, and that no record is lost."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from fixtures.consumer import eventually
from hostile.record_batches import BASE_TIME, TOPIC
from penstock import TopicPartition, WatermarkStrategy
from penstock.consumer.fetch.cursor import Cursor
from penstock.consumer.stream_factory import make_stream
from penstock.formats.decoding import _KernelDecoder
from penstock.formats.plan import TypedSource
from penstock.formats.spec import RawBytes, Text
from support.configs import format_options
from support.examples import examples
from support.fed_event_stream import ALIGNED, CONFIG, MONOTONOUS, Fed, after, odd, times_of, until_time_out


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


def test_E4_a_batch_is_cut_after_the_record_that_goes_too_far_and_the_rest_comes_when_others_have_caught_up():
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
    assert [fed.reader.position(cursor) for cursor in fed.cursors] == [10, 3]
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


def test_E4_the_slowest_partition_continues_until_it_is_too_far_ahead_of_the_others():
    fed = Fed(ALIGNED)
    fed.put(1, 1000)
    fed.put(0, *range(0, 1000, 100))
    assert [found[:2] for found in fed.batches()] == [(1, [1000]), (0, list(range(0, 1000, 100)))]


def test_E4_a_gap_in_time_in_all_partitions_does_not_hold_them_forever():
    fed = Fed(ALIGNED)
    for partition in range(2):
        fed.put(partition, 0, 1_000_000, 1_000_001)
    assert within(fed.messages(), 2, 100)
    assert fed.combined == 1_000_000


@settings(max_examples=examples(40))
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
                fed.reader.pause(cursor)
                fed.reader.resume(cursor)
        assert came, "one partition may always continue"


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
    assert seen == [0], "its thread may still work on it"
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


def test_E4_chunks_that_are_held_back_make_room_for_others():
    fed = Fed(ALIGNED, queued_chunks=2)
    ahead, slow = fed.cursors
    fed.put(0, 0)
    fed.batches()
    for base in (10, 20_010):
        fed.put(0, *range(base, base + 20_000))
    assert fed.reader.full, "only reading decides which partition is held back"
    room = fed.room
    assert fed.batches() == []
    assert fed.room > room
    assert not fed.reader.full
    assert (ahead.wants_more, slow.wants_more) == (False, True)
    assert fed.reader.queue.size == 0
    fed.put(1, 100_000)
    assert len(fed.batches()) > 2
    assert (ahead.wants_more, slow.wants_more) == (True, True)


def test_E4_a_partition_that_is_held_back_keeps_one_chunk_ready():
    fed = Fed(ALIGNED)
    fed.put(0, 0)
    fed.batches()
    assert fed.event_time.holds_back(fed.cursors[0])
    assert fed.cursors[0].wants_more
    fed.put(0, 500)
    assert not fed.cursors[0].wants_more


def test_E4_a_partition_held_back_while_the_limit_is_low_continues_when_the_limit_returns():
    fed = Fed(ALIGNED, partitions=4)
    slowest, ahead, waking, between = fed.cursors
    tracker = fed.event_time._tracker
    for cursor, reached in zip(fed.cursors, (0, 150, -50, 80), strict=True):
        tracker.observe(cursor.tp, reached, fed.clock.now)
    tracker.finish(waking.tp)
    assert fed.event_time.holds_back(ahead)
    assert not fed.event_time.resume_caught_up()
    tracker.has_records(waking.tp, fed.clock.now)
    assert fed.event_time.holds_back(between)
    tracker.finish(waking.tp)
    assert fed.event_time.resume_caught_up()
    assert (slowest.held_back, ahead.held_back, between.held_back) == (False, True, False)


def test_E4_a_partition_that_may_continue_in_the_middle_of_a_check_still_begins_with_its_first_chunk():
    fed = Fed(ALIGNED, partitions=1)
    fed.put(0, 1)
    fed.put(0, 2)
    answers = iter([True, False])
    fed.reader.queue._holds_back = lambda cursor: next(answers)
    assert fed.reader.queue._take_first() is None
    assert fed.reader.queue._take_first().start == 0


def test_E4_pausing_and_holding_back_are_independent():
    fed = Fed(ALIGNED)
    fed.put(0, 0, 10, 20)
    assert [found[:2] for found in fed.batches()] == [(0, [0])]
    fed.reader.pause(fed.cursors[0])
    fed.put(1, 0)
    assert [found[:2] for found in fed.batches()] == [(1, [0])]
    fed.reader.resume(fed.cursors[0])
    assert [found[:2] for found in fed.batches()] == [(0, [10, 20])]


def test_E4_a_seek_drops_records_that_were_held_back():
    fed = Fed(ALIGNED)
    fed.put(0, 0, 10, 20)
    fed.put(0, 30)
    assert [found[:2] for found in fed.batches()] == [(0, [0])]
    fed.reader.move(fed.cursors[0], 100)
    fed.put(0, 5)
    fed.put(1, 0)
    assert [found[:2] for found in fed.batches()] == [(1, [0]), (0, [5])]
    assert fed.reader.position(fed.cursors[0]) == 101


def test_E4_a_chunk_that_a_seek_has_made_obsolete_is_released():
    fed = Fed(ALIGNED)
    fed.put(0, 0, 500, 900)
    assert [found[:2] for found in fed.batches(1)] == [(0, [0])]
    fed.reader.move(fed.cursors[0], 100)
    fed.ask_for_more()
    assert not fed.reader.queue._chunks
    assert fed.reader._opened is None


def test_E4_a_partition_that_may_continue_is_fetched_again():
    fed = Fed(ALIGNED)
    fed.put(0, 0, 500)
    assert [found[:2] for found in fed.batches()] == [(0, [0])]
    fed.put(1, 450)
    room = fed.room
    assert [found[:2] for found in fed.batches()] == [(1, [450]), (0, [500])]
    assert fed.room > room, "its fetcher does not ask for what is held back, and waits"


def test_E4_revoking_a_partition_resumes_those_that_waited_for_it():
    connector = penstock.ConsumerConnector({"bootstrap.servers": "localhost:1", "group.id": "g"}, watermarks=ALIGNED)
    event_time = connector._tracker
    stream = make_stream("me-0", CONFIG, tracker=event_time, queued_chunks=2)
    ahead, slow = (Cursor(TopicPartition(TOPIC, at), stream.reader, 0) for at in range(2))
    connector._assigned.cursors = {cursor.tp: cursor for cursor in (ahead, slow)}
    connector._rebalancer._update_tracker()
    event_time._tracker.observe(ahead.tp, 1, 0.0)
    assert event_time.holds_back(ahead)
    connector._assigned.cursors = {ahead.tp: ahead}
    connector._rebalancer._update_tracker()
    assert not ahead.held_back


def test_E4_a_revoked_partition_is_not_held_back():
    fed = Fed(ALIGNED)
    fed.put(0, 0)
    fed.batches()
    assert fed.event_time.holds_back(fed.cursors[0])
    fed.reader.revoke(fed.cursors[0])
    fed.event_time.set_partitions([fed.cursors[1].tp])
    assert not fed.event_time._held_back


def test_E4_no_records_of_a_revoked_partition_are_kept():
    fed = Fed(ALIGNED)
    fed.put(0, 0, 10, 20)
    assert fed.reader.revoke(fed.cursors[0]) == 0
    fed.event_time.set_partitions([fed.cursors[1].tp])
    fed.put(1, 0, 1000)
    assert [found[:2] for found in fed.batches()] == [(1, [0, 1000])]
    assert not fed.event_time._held_back


@pytest.mark.parametrize("by", ["batches", "messages"])
def test_E4_a_punctuated_strategys_function_gets_each_batch_once_and_batches_are_cut_by_its_watermarks(by):
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
            target=lambda: [act(fed.cursors[1]) for act in (fed.reader.pause, fed.reader.resume)]
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


@pytest.mark.parametrize("call", range(1, 5))
def test_an_interrupt_while_partitions_are_resumed_loses_no_batch(call):
    fed = Fed(ALIGNED)
    for partition in range(2):
        fed.put(partition, 1)
    resume, calls = fed.event_time.resume_caught_up, iter(range(1, 100))

    def interrupted():
        if next(calls) == call:
            raise KeyboardInterrupt
        return resume()

    fed.event_time.resume_caught_up = interrupted
    found = []
    for _ in range(2):
        with contextlib.suppress(KeyboardInterrupt):
            for batch in until_time_out(fed.stream.batches(["partition"])):
                found.append(batch["partition"][0].as_py())
    assert found == [0, 1]


def test_an_async_stream_has_event_time_and_waits_for_partitions_that_are_held_back():
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


def test_async_messages_have_event_time_and_wait_for_partitions_that_are_held_back():
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


def test_E4_typed_batches_that_come_in_pieces_lose_and_repeat_nothing(monkeypatch):
    """The kernel decodes the first rows alone if all would take too much memory."""
    whole = _KernelDecoder.decode
    monkeypatch.setattr(_KernelDecoder, "decode", lambda self, records: whole(self, records.slice(0, 3)))
    fed = Fed(ALIGNED, typed=TypedSource(RawBytes(), Text(), format_options()))
    fed.put(0, *range(0, 500, 50))
    fed.put(1, *range(0, 500, 200))
    found = [[], []]
    for batch in until_time_out(fed.stream.batches(["value", "partition"])):
        found[batch["partition"][0].as_py()].append([int(value) for value in batch["value"].to_pylist()])
    assert max(len(piece) for pieces in found for piece in pieces) == 3
    assert [*itertools.chain(*found[0])] == list(range(0, 500, 50))
    assert [*itertools.chain(*found[1])] == list(range(0, 500, 200))
    assert [fed.reader.position(cursor) for cursor in fed.cursors] == [10, 3]
