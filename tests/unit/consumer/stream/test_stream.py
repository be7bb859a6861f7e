"""A stream fed with forged chunks: records, positions and errors (H4, H8, H11, H14, F18)."""

import asyncio
import contextlib
import threading
import time

import pytest

import penstock
from hostile.record_batches import PARTITION, TOPIC, counted
from penstock.consumer.fetch.cursor import Cursor
from penstock.consumer.fetch.lease import Lease
from penstock.errors import ConsumerTimeout, CorruptBatch, RecordTooLarge
from penstock.formats.decoding import _KernelDecoder
from penstock.formats.plan import TypedSource
from penstock.formats.spec import RawBytes, Text
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.fetch import FetchedPartition
from support.configs import format_options
from support.fed_stream import TP, Fed

OTHER = TopicPartition(TOPIC, 4)


def batch(base, count=10):
    return counted(base, count)


def test_messages_come_in_order_and_the_position_moves_with_each_F18():
    fed = Fed()
    cursor = fed.cursor()
    fed.put(cursor, batch(0), batch(10))
    fed.put(cursor, batch(20))
    assert fed.reader.position(cursor) == 0
    seen = []
    with contextlib.suppress(ConsumerTimeout):
        for message in fed.stream:
            seen.append(message.offset)
            assert fed.reader.position(cursor) == message.offset + 1
            assert (message.topic, message.partition) == TP
    assert seen == list(range(30))
    assert fed.reader.position(cursor) == 30
    assert fed.given_back == 2


def test_H14_a_stream_that_timed_out_is_iterated_again():
    fed = Fed()
    cursor = fed.cursor()
    with pytest.raises(ConsumerTimeout, match="me-0"):
        next(fed.stream)
    fed.put(cursor, batch(0))
    assert next(fed.stream).offset == 0
    assert next(iter(fed.stream)).offset == 1, "an iteration left in the middle continues where it was"
    assert fed.offsets() == list(range(2, 10))


def test_batches_and_messages_may_alternate_and_nothing_comes_twice():
    fed = Fed()
    cursor = fed.cursor()
    fed.put(cursor, batch(0), batch(10))
    fed.put(cursor, batch(20))
    assert fed.offsets(3) == [0, 1, 2]
    first = next(fed.stream.batches(["offset"]))
    assert first.column("offset").to_pylist() == list(range(3, 20))
    assert fed.reader.position(cursor) == 20
    assert fed.offsets(2) == [20, 21]
    assert next(fed.stream.batches(["value"])).num_rows == 8
    assert fed.reader.position(cursor) == 30


def test_H4_a_full_queue_reports_it_and_announces_room():
    fed = Fed(queued_chunks=2)
    cursor = fed.cursor()
    for base in (0, 5000):
        assert not fed.reader.full
        fed.put(cursor, batch(base, 5000))
    assert fed.reader.full
    room = fed.room
    next(fed.stream)
    assert not fed.reader.full
    assert fed.room > room


def test_H4_small_chunks_count_together():
    fed = Fed(queued_chunks=2)
    cursor = fed.cursor()
    for at in range(999):
        fed.put(cursor, batch(at, 1))
        assert not fed.reader.full
    fed.put(cursor, batch(999, 1))
    assert fed.reader.full, "however small they are, there is a limit"


def test_H11_a_chunk_counts_only_if_its_offset_is_still_the_one_asked_for():
    fed = Fed()
    cursor = fed.cursor()
    assert fed.put(cursor, batch(0), at=0)
    assert not fed.put(cursor, batch(0), at=0), "asked for before the first one came"
    before = cursor.version
    fed.reader.move(cursor, 100)
    assert not fed.put(cursor, batch(100), at=100, version=before), "requested before a seek"
    assert fed.put(cursor, batch(100))
    assert fed.offsets() == list(range(100, 110))


def test_H8_no_record_of_a_revoked_partition_leaves_the_stream():
    fed = Fed()
    leaving, staying = fed.cursor(), fed.cursor(OTHER)
    fed.put(leaving, batch(0))
    fed.put(staying, batch(50), at=0)
    fed.put(leaving, batch(10))
    iteration = iter(fed.stream)
    assert [next(iteration).offset for _ in range(4)] == [0, 1, 2, 3]
    assert fed.reader.revoke(leaving) == 4, "its position is what was handed out"
    assert [next(iteration).offset for _ in range(3)] == [50, 51, 52]
    assert not fed.put(leaving, batch(20), at=20, version=0)
    assert fed.offsets() == list(range(53, 60))


def test_H8_while_a_thread_reads_every_offset_is_either_handed_out_or_left():
    for _ in range(30):
        fed = Fed(timeout=30.0)
        cursor = fed.cursor()
        fed.put(cursor, *[batch(base, 100) for base in range(0, 5000, 100)])
        seen = []
        started = threading.Event()

        def read(fed=fed, seen=seen, started=started):
            for message in fed.stream:
                seen.append(message.offset)
                started.set()

        reader = threading.Thread(target=read)
        reader.start()
        assert started.wait(30)
        reached = fed.reader.revoke(cursor)
        fed.stream.close()
        reader.join(30)
        assert not reader.is_alive()
        assert seen == list(range(reached))


def test_records_below_the_consumed_offset_are_skipped_H14():
    fed = Fed()
    cursor = fed.cursor(position=7)
    fed.put(cursor, batch(0), at=7)
    assert fed.offsets() == [7, 8, 9]


def test_a_paused_partition_hands_out_nothing_and_keeps_what_was_fetched():
    fed = Fed()
    cursor, other = fed.cursor(), fed.cursor(OTHER)
    fed.put(cursor, batch(0))
    fed.put(cursor, batch(10))
    assert fed.offsets(3) == [0, 1, 2]
    fed.reader.pause(cursor)
    assert fed.reader.position(cursor) == 3
    fed.put(other, batch(500), at=0)
    assert fed.offsets() == list(range(500, 510))
    assert fed.reader.queue.size == 0, "what waits for a resume does not hold back the others"
    fed.reader.resume(cursor)
    assert fed.offsets() == list(range(3, 20))


def test_a_seek_drops_what_was_fetched_and_forgets_an_error():
    fed = Fed()
    cursor = fed.cursor()
    fed.put(cursor, batch(0))
    fed.reader.fail(cursor, RecordTooLarge(TOPIC, PARTITION, 10, 100), cursor.version)
    fed.reader.move(cursor, 40)
    assert not cursor.failed
    fed.put(cursor, batch(40))
    assert fed.offsets() == list(range(40, 50))


def test_H12_a_reset_hands_out_first_what_was_fetched_before():
    fed = Fed()
    cursor = fed.cursor()
    fed.put(cursor, batch(0))
    assert fed.offsets(2) == [0, 1]
    fed.reader.reset(cursor, 1000)
    assert cursor.fetched == 1000
    fed.put(cursor, batch(1000))
    assert fed.offsets() == [*range(2, 10), *range(1000, 1010)]
    fed.reader.reset(cursor, 5)
    assert (cursor.fetched, cursor.consumed) == (5, 5), "backwards both move at once"


def test_damaged_bytes_are_fetched_again_once_and_then_raise():
    fed = Fed()
    cursor = fed.cursor()
    fed.put(cursor, batch(0), damage=70)
    assert fed.offsets() == []
    assert (cursor.fetched, cursor.consumed) == (0, 0), "to be fetched again"
    fed.put(cursor, batch(0), damage=70)
    with pytest.raises(CorruptBatch, match=f"{TOPIC}-{PARTITION}"):
        next(fed.stream)
    assert cursor.failed, "until a seek"
    fed.reader.move(cursor, 10)
    fed.put(cursor, batch(10))
    assert fed.offsets() == list(range(10, 20))


def test_damage_after_good_batches_loses_none_of_them():
    fed = Fed()
    cursor = fed.cursor()
    whole = len(batch(0).encode())
    fed.put(cursor, batch(0), batch(10), damage=whole + 70)
    assert fed.offsets() == list(range(10))
    assert cursor.fetched == 10
    fed.put(cursor, batch(10))
    assert fed.offsets() == list(range(10, 20))


def test_batch_headers_that_promise_more_than_there_is_are_corrected():
    fed = Fed()
    cursor = fed.cursor()
    fed.put(cursor, batch(0), follows=500)
    fed.put(cursor, batch(500))
    assert fed.offsets() == list(range(10))
    assert cursor.fetched == 10, "what was fetched behind it is not what comes next"


def test_H14_a_record_that_fits_no_fetch_is_an_error_that_names_it():
    fed = Fed()
    cursor = fed.cursor(position=7)
    data = memoryview(bytearray(batch(7).encode()[:-5]))
    fetched = FetchedPartition(TOPIC, PARTITION, 0, 100, 100, [], -1, data)
    lease = Lease(bytearray(), lambda buffer: None)
    fed.reader.put(cursor, cursor.version, 7, fetched, 7, lease)
    with pytest.raises(RecordTooLarge, match=f"offset 7 of {TOPIC}-{PARTITION}"):
        next(fed.stream)


def test_errors_are_raised_once_unless_they_ended_the_connector():
    fed = Fed()
    cursor, other = fed.cursor(), fed.cursor(OTHER)
    fed.reader.fail(cursor, RecordTooLarge(TOPIC, PARTITION, 10, 100), cursor.version)
    fed.put(other, batch(0))
    with pytest.raises(RecordTooLarge):
        next(fed.stream)
    assert fed.offsets() == list(range(10)), "the others continue (H13)"
    for _ in range(3):
        fed.reader.report(None, penstock.AuthenticationFailed("not now"))
    with pytest.raises(penstock.AuthenticationFailed):
        next(fed.stream)
    fed.put(other, batch(10))
    assert fed.offsets() == list(range(10, 20)), "a retriable error is raised once, however often it occurred meanwhile"
    fed.reader.queue.fail_all(penstock.AuthenticationFailed("no"))
    for _ in range(2):
        with pytest.raises(penstock.AuthenticationFailed):
            next(fed.stream)


def test_H14_a_shutdown_ends_the_iteration_of_a_blocked_reader():
    fed = Fed(timeout=None)
    ended = threading.Event()

    def read():
        assert list(fed.stream) == []
        ended.set()

    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(0.05)
    fed.stream.close()
    assert ended.wait(30)
    reader.join(30)
    assert list(fed.stream) == []


def wait_until_reading(fed):
    deadline = time.monotonic() + 30
    while not fed.reader.waiting and time.monotonic() < deadline:
        time.sleep(0.001)
    assert fed.reader.waiting


def test_H14_a_waiting_reader_misses_no_chunk():
    fed = Fed(timeout=30.0, queued_chunks=10)
    cursor = fed.cursor()
    count = 2000
    seen = []
    reader = threading.Thread(target=lambda: seen.extend(fed.offsets(count)))
    reader.start()
    for at in range(count):
        fed.put(cursor, batch(at, 1))
        if at % 3 == 0:
            wait_until_reading(fed)  # else the chunk comes while the reader is about to wait
    reader.join(60)
    assert seen == list(range(count))
    assert not fed.reader.waiting


def test_H14_an_announcement_after_a_time_out_disturbs_no_later_wait():
    fed = Fed(timeout=0.001)
    queue = fed.reader.queue
    acquire = queue._signal

    class LateAnnouncement:
        # Announces in the moment between a time-out and the reader's return.
        def acquire(self, blocking=True, timeout=-1):
            taken = acquire.acquire(blocking, timeout)
            if blocking and not taken:
                with queue.lock:
                    queue.announce()
            return taken

        def release(self):
            acquire.release()

    queue._signal = LateAnnouncement()
    for _ in range(3):
        with pytest.raises(ConsumerTimeout):
            next(fed.stream)
        assert not fed.reader.waiting
    fed.put(fed.cursor(), batch(0))
    assert next(fed.stream).offset == 0


def test_a_shutdown_keeps_the_position_of_a_stream_left_in_the_middle():
    fed = Fed()
    cursor = fed.cursor()
    fed.put(cursor, batch(0))
    assert fed.offsets(3) == [0, 1, 2]
    fed.stream.close()
    assert fed.reader.position(cursor) == 3
    assert fed.offsets() == []


def test_a_stream_is_for_one_thread_at_a_time():
    fed = Fed(timeout=30.0)
    reading = threading.Thread(target=lambda: fed.offsets())
    reading.start()
    deadline = time.monotonic() + 30
    while not fed.reader._is_read and time.monotonic() < deadline:
        time.sleep(0.001)
    with pytest.raises(RuntimeError, match="only one may read at a time"):
        next(fed.stream)
    fed.stream.close()
    reading.join(30)


def test_decoders_run_when_a_message_is_accessed_and_their_errors_stop_nothing():
    fed = Fed(value_decoder=lambda value: int(value), key_decoder=bytes.decode)
    cursor = fed.cursor()
    fed.put(cursor, batch(0))
    refused = 0
    with contextlib.suppress(ConsumerTimeout):
        for message in fed.stream:
            with pytest.raises(ValueError, match="invalid literal"):
                _ = message.value
            assert isinstance(message.key, str)
            refused += 1
    assert refused == 10


def test_an_async_stream_gives_the_same_and_ends_at_a_shutdown():
    fed = Fed(timeout=None)
    cursor = fed.cursor()

    async def read():
        seen = []
        async for message in penstock.AsyncStream(fed.stream):
            seen.append(message.offset)
            if message.offset == 9:
                fed.put(cursor, batch(10))
            if message.offset == 19:
                threading.Timer(0.05, fed.stream.close).start()
        return seen

    fed.put(cursor, batch(0))
    assert asyncio.run(asyncio.wait_for(read(), 60)) == list(range(20))


def test_an_async_stream_times_out_and_can_be_cancelled_while_it_waits():
    fed = Fed(timeout=0.05)

    async def batches():
        return [found async for found in penstock.AsyncStream(fed.stream).batches(["offset"])]

    with pytest.raises(ConsumerTimeout):
        asyncio.run(batches())

    waiting = Fed(timeout=None)

    async def cancelled():
        task = asyncio.ensure_future(anext(aiter(penstock.AsyncStream(waiting.stream))))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(cancelled(), 60))
    assert waiting.reader.queue.on_ready is None


def test_pausing_or_revoking_the_partition_that_fills_the_queue_makes_room_for_others():
    for leave in ("pause", "revoke", "move"):
        fed = Fed(queued_chunks=2)
        cursor, other = fed.cursor(), fed.cursor(OTHER)
        for base in (0, 5000):
            fed.put(cursor, batch(base, 5000))
        assert fed.reader.full, "and so a fetcher holds back"
        room = fed.room
        getattr(fed.reader, leave)(*((cursor, 0) if leave == "move" else (cursor,)))
        assert fed.room > room, leave
        assert not fed.reader.full
        fed.put(other, batch(0))
        assert fed.offsets() == list(range(10))


def test_H8_a_revoked_cursor_never_comes_back():
    fed = Fed()
    cursor = fed.cursor()
    fed.put(cursor, batch(0))
    fed.reader.revoke(cursor)
    fed.reader.reset(cursor, 5)
    fed.reader.move(cursor, 5)
    fed.reader.fail(cursor, RecordTooLarge(TOPIC, PARTITION, 5, 1), cursor.version)
    fed.reader.report(cursor, penstock.AuthorizationFailed("no"))
    assert cursor.fetched is None
    assert not fed.put(cursor, batch(5), at=5)
    assert fed.offsets() == []


def test_a_seek_forgets_the_epoch_under_which_the_old_position_was_reached():
    fed = Fed()
    cursor = Cursor(TP, fed.reader, 900, epoch=5)
    fed.reader.move(cursor, 1200)
    assert cursor.epoch == -1


def test_H12_a_reset_to_an_earlier_offset_fetches_from_there():
    fed = Fed()
    cursor = fed.cursor(position=100)
    fed.put(cursor, batch(100, 100))
    fed.reader.reset(cursor, 150)
    assert (cursor.consumed, cursor.fetched) == (100, 100), "offsets from 150 on are other records now"


def test_H12_the_position_is_the_new_offset_once_the_records_fetched_before_are_handed_out():
    fed = Fed()
    cursor = fed.cursor()
    fed.put(cursor, batch(0))
    fed.reader.reset(cursor, 1000)
    assert fed.offsets() == list(range(10))
    assert fed.reader.position(cursor) == 1000


def test_records_that_an_exception_kept_from_the_caller_are_handed_out_afterwards(monkeypatch):
    for kind in ("messages", "batches"):
        fed = Fed()
        cursor = fed.cursor()
        fed.put(cursor, batch(0), batch(10))
        honest = fed.reader.still_wanted

        def interrupted(chunk, fed=fed, honest=honest):
            fed.reader.still_wanted = honest
            raise KeyboardInterrupt

        fed.reader.still_wanted = interrupted
        with pytest.raises(KeyboardInterrupt):
            next(fed.stream) if kind == "messages" else next(fed.stream.batches())
        assert fed.offsets() == list(range(20))


def test_an_async_stream_that_is_cancelled_loses_nothing():
    fed = Fed(timeout=None)
    cursor = fed.cursor()

    async def read():
        stream = penstock.AsyncStream(fed.stream)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(stream.batches(["offset"])), 0.05)
        fed.put(cursor, batch(0))
        return (await anext(stream.batches(["offset"]))).column("offset").to_pylist()

    assert asyncio.run(asyncio.wait_for(read(), 60)) == list(range(10))


@pytest.mark.parametrize("by", ["messages", "batches"])
def test_an_async_stream_lets_other_tasks_run_between_two_batches(by):
    fed = Fed(timeout=None)
    cursor = fed.cursor()
    for start in range(0, 50, 10):
        fed.put(cursor, batch(start))

    async def read():
        turns, seen = 0, []

        async def other():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.ensure_future(other())
        stream = penstock.AsyncStream(fed.stream)
        async for one in stream if by == "messages" else stream.batches(["offset"]):
            if by == "batches" or one.offset % 10 == 0:
                seen.append(turns)
            if len(seen) == 5:
                break
        beside.cancel()
        return seen

    seen = asyncio.run(asyncio.wait_for(read(), 60))
    assert seen == sorted(set(seen)), "another task ran before each batch"


def test_handed_out_records_are_counted():
    counted_messages = []
    fed = Fed(on_consumed=lambda topic, messages, size: counted_messages.append(messages))
    cursor = fed.cursor()
    fed.put(cursor, batch(0, 1000))
    assert fed.offsets(3) == [0, 1, 2]
    fed.reader.pause(cursor)
    fed.reader.resume(cursor)
    assert fed.offsets(2) == [3, 4]
    fed.reader.revoke(cursor)
    assert sum(counted_messages) == 5


def test_decoders_of_many_partitions_are_not_kept():
    fed = Fed()
    for number in range(20):
        cursor = fed.cursor(TopicPartition(TOPIC, number))
        fed.put(cursor, batch(0))
        assert len(fed.offsets()) == 10
    assert len(fed.reader._decoders._kept) <= 4


def test_H8_the_reader_and_a_revocation_use_the_decoders_under_the_lock():
    """Otherwise a reader or a membership may remove an entry that is gone, and end with a KeyError."""
    fed = Fed()

    def guarded(name):
        def method(self, *arguments):
            assert fed.reader.lock._is_owned(), f"{name} without the lock"
            return getattr(dict, name)(self, *arguments)

        return method

    names = ["__iter__", "__setitem__", "__delitem__", "pop"]
    Guarded = type("Guarded", (dict,), {name: guarded(name) for name in names})  # noqa: N806
    fed.reader._decoders._kept = Guarded()
    cursors = [fed.cursor(TopicPartition(TOPIC, number)) for number in range(6)]
    for cursor in cursors:
        fed.put(cursor, batch(0))
        assert len(fed.offsets()) == 10
    for cursor in cursors:
        fed.reader.revoke(cursor)
    assert dict.__len__(fed.reader._decoders._kept) == 0


def test_typed_batches_that_come_in_pieces_lose_and_repeat_nothing(monkeypatch):
    """The kernel decodes the first rows alone if all would take too much memory."""
    whole = _KernelDecoder.decode
    monkeypatch.setattr(_KernelDecoder, "decode", lambda self, records: whole(self, records.slice(0, 3)))
    fed = Fed(typed=TypedSource(RawBytes(), Text(), format_options()))
    cursor = fed.cursor()
    fed.put(cursor, batch(0, 5), batch(5, 5))
    found, positions = [], []
    with contextlib.suppress(ConsumerTimeout):
        for made in fed.stream.batches(["value"]):
            found.append(made.num_rows)
            positions.append(cursor.consumed)
    assert found == [3, 3, 3, 1]
    assert positions == [3, 6, 9, 10]


def test_F28_a_predicate_filters_batches_and_positions_move_past_rows_that_do_not_meet_it():
    counts = []
    fed = Fed(on_converted=lambda *each: counts.append(each))
    cursor = fed.cursor()
    for base in (0, 10, 20):
        fed.put(cursor, batch(base))
    found = []
    with contextlib.suppress(ConsumerTimeout):
        for each in fed.stream.batches(["offset"], where="value LIKE 'offset 1_' AND offset <> 13"):
            found += each.column("offset").to_pylist()
            assert each.schema.names == ["offset"]
    assert found == [10, 11, 12, 14, 15, 16, 17, 18, 19]
    assert fed.reader.position(cursor) == 30
    assert [each[3:] for each in counts] == [(10, 0), (10, 9), (10, 0)]


def test_H14_F28_a_stream_times_out_if_no_row_meets_the_predicate():
    fed = Fed(timeout=0.01, queued_chunks=200)
    cursor = fed.cursor()
    for base in range(0, 1000, 10):
        fed.put(cursor, batch(base))
    with pytest.raises(ConsumerTimeout):
        next(fed.stream.batches(where="offset < 0"))
    assert fed.reader.position(cursor) > 0


def test_F28_a_wrong_predicate_fails_at_once_and_messages_have_none():
    fed = Fed()
    with pytest.raises(penstock.OptionError, match=r"column ofset does not exist\. Did you mean offset"):
        next(fed.stream.batches(where="ofset < 0"))


def test_F28_asyncio_reads_the_same_rows():
    fed = Fed()
    fed.put(fed.cursor(), batch(0))

    async def read():
        batches = penstock.AsyncStream(fed.stream).batches(["offset"], where="offset >= 8")
        return (await anext(batches)).column("offset").to_pylist()

    assert asyncio.run(read()) == [8, 9]
