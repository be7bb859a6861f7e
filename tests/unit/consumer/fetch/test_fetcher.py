"""How a fetcher distributes a response, which the tests build by hand."""

from types import SimpleNamespace

import pytest

from hostile.record_batches import Batch as Forged
from hostile.record_batches import counted, record
from penstock.consumer.fetch.cursor import Cursor
from penstock.consumer.fetch.fetch_plan import FetchPlan, HeldCursor
from penstock.consumer.fetch.fetcher import HAND_OVER_SECONDS, Fetcher
from penstock.consumer.fetch.lease import Lease
from penstock.consumer.stream_factory import make_stream
from penstock.errors import ConsumerTimeout
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.fetch import FetchedPartition, FetchPosition, FetchResponse
from penstock.wire.api.metadata import Broker
from support.configs import client_config

CONFIG = client_config(bootstrap=(("localhost", 1),))
SESSION = SimpleNamespace(key=lambda position: (position.topic, position.partition))


class Fetching:
    """A fetcher whose broker's part is played by hand."""

    def __init__(self) -> None:
        self.given_back = 0
        self.lost: Cursor | None = None
        """Taken away while the answer is on its way."""
        self.fetcher = Fetcher(Broker(1, "localhost", 1), 0, CONFIG, SimpleNamespace())

    def held(self, cursor: Cursor) -> HeldCursor:
        self.fetcher.add([(cursor, -1)])
        return next(held for held in self.fetcher.cursors() if held.cursor is cursor)

    def receive(
        self,
        *parts: tuple[Cursor, Forged],
        left_out: tuple[Cursor, ...] = (),
        throttle: float = 0.0,
        error_code: int = 0,
    ) -> None:
        """One response with these batches, in a buffer that must be returned; `left_out` cursors were requested,
        too."""
        encoded = [batch.encode() for _, batch in parts]
        buffer = bytearray(b"".join(encoded))
        wanted, partitions, at = FetchPlan(), [], 0
        for (cursor, _), data in zip(parts, encoded, strict=True):
            position = FetchPosition(cursor.tp.topic, cursor.tp.partition, cursor.fetched, None, -1)
            wanted.add(position, self.held(cursor), cursor.version)
            view = memoryview(buffer)[at : at + len(data)]
            partitions.append(FetchedPartition(*cursor.tp, error_code, 10**6, 10**6, [], -1, view))
            at += len(data)
        for cursor in left_out:
            wanted.add(FetchPosition(*cursor.tp, cursor.fetched, None, -1), self.held(cursor), cursor.version)
        if self.lost is not None:
            assert self.fetcher.remove_if_held(self.held(self.lost)), "it had it"
        lease = Lease(buffer, lambda _: setattr(self, "given_back", self.given_back + 1))
        response = FetchResponse(throttle, 0, partitions)
        self.fetcher._distribute(response, wanted, wanted.by_key(SESSION), SESSION, lease)


def test_H4_a_small_unread_chunk_does_not_keep_a_large_response_in_memory():
    """Up to a thousand small chunks count together, so each must take no more memory than it holds."""
    slow, fast = (make_stream(f"me-{n}", CONFIG, queued_chunks=2, timeout=0.0) for n in range(2))
    trickle = Cursor(TopicPartition("t", 0), slow.reader, 0)
    flood = Cursor(TopicPartition("t", 1), fast.reader, 0)
    fetching = Fetching()
    for n in range(10):
        large = Forged(n, [record(0, b"v" * 100_000)])
        fetching.receive((trickle, counted(n, 1)), (flood, large))
        assert next(fast).offset == n
    with pytest.raises(ConsumerTimeout):  # which releases the last chunk
        next(fast)
    assert fetching.given_back == 10
    assert [next(slow).offset for _ in range(10)] == list(range(10)), "and they are still whole"


def test_the_fetcher_leaves_the_gil_to_a_waiting_reader_after_a_small_chunk_only(monkeypatch):
    """At full speed chunks are large or the reader is busy, and a pause would cost throughput."""
    pauses = []
    monkeypatch.setattr("penstock.consumer.fetch.fetcher.time.sleep", pauses.append)
    stream = make_stream("me-0", CONFIG, queued_chunks=9, timeout=0.0)
    cursor = Cursor(TopicPartition("t", 0), stream.reader, 0)
    fetching, queue = Fetching(), stream.reader.queue

    def receive(batch: Forged, waiting: bool) -> int:
        with queue.lock:  # as a reader leaves it in `ChunkQueue._wait`
            queue._signal.acquire(blocking=False)
            queue.waiting = waiting
        fetching.receive((cursor, batch))
        assert not queue.waiting, "it was woken"
        return len(pauses)

    assert receive(counted(0, 1), waiting=True) == 1
    assert receive(counted(1, 1), waiting=False) == 1
    assert receive(Forged(2, [record(0, b"v" * 100_000)]), waiting=True) == 1
    assert pauses == [HAND_OVER_SECONDS]


def test_E3_an_answer_covers_all_requested_partitions_unless_the_broker_throttles():
    stream = make_stream("me-0", CONFIG, queued_chunks=2, timeout=0.0)
    some, unchanged, moved = (Cursor(TopicPartition("t", number), stream.reader, 0) for number in range(3))
    fetching = Fetching()
    fetching.receive(left_out=(unchanged,), throttle=0.1)
    assert unchanged.answered_at is None, "an empty answer, because the broker throttles"
    fetching.receive((some, counted(0, 1)), left_out=(unchanged,))
    assert some.answered_at == unchanged.answered_at is not None
    wanted = FetchPlan()
    for cursor in (some, unchanged, moved):
        wanted.add(FetchPosition(*cursor.tp, 0, None, -1), fetching.held(cursor), cursor.version)
    stream.reader.move(moved, 5)
    wanted.note_answer(7.0, {some}, {held.cursor: held for held in fetching.fetcher.cursors()})
    assert unchanged.answered_at == 7.0
    assert some.answered_at != 7.0, "the broker has refused it"
    assert moved.answered_at is None, "the answer is for where it was"


def test_H13_a_late_answer_is_dropped_when_another_broker_has_the_partition():
    """A leader that hung does not know yet that it has been replaced: its end of the log is outdated."""
    stream = make_stream("me-0", CONFIG, queued_chunks=2, timeout=0.0)
    late, kept = (Cursor(TopicPartition("t", number), stream.reader, 0) for number in range(2))
    fetching = Fetching()
    fetching.lost = late
    fetching.receive((late, counted(0, 1)), (kept, counted(0, 1)))
    assert (late.fetched, late.readable, late.answered_at) == (0, None, None)
    assert next(stream).partition == kept.tp.partition
    with pytest.raises(ConsumerTimeout):
        next(stream)
    assert fetching.given_back == 1


def test_H13_a_late_refusal_does_not_take_the_partition_from_its_new_fetcher():
    stream = make_stream("me-0", CONFIG, queued_chunks=2, timeout=0.0)
    late = Cursor(TopicPartition("t", 0), stream.reader, 0)
    fetching = Fetching()
    fetching.lost = late
    fetching.receive((late, counted(0, 1)), error_code=6)  # NOT_LEADER_OR_FOLLOWER; its owner would be notified
    assert not late.failed


def test_H13_a_fetcher_whose_broker_does_not_answer_notifies_its_owner_and_waits_until_it_is_ended():
    notified = []
    fetcher = Fetcher(Broker(1, "localhost", 1), 0, CONFIG, SimpleNamespace(overdue=notified.append))
    assert (fetcher._on_slow_answer(), notified) == (None, [fetcher])
    fetcher.end()
    assert fetcher._on_slow_answer() is not None
    assert notified == [fetcher]
