"""How many records a fetch acquires for a stream (Q1)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock.consumer.share import share_queue
from penstock.consumer.share.share_queue import AHEAD_SECONDS, MOST_RECORDS, ShareQueue


class Clock:
    def __init__(self, monkeypatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(share_queue, "time", SimpleNamespace(monotonic=lambda: self.now))


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def chunk(records):
    return SimpleNamespace(acquired=SimpleNamespace(first=7, last=6 + records), is_over=False)


def read(queue, clock, records, seconds):
    """The stream takes a chunk, and reads it in this time. It is in the queue's figures with the next one."""
    queue.put(chunk(records))
    queue.take(None, None)
    clock.now += seconds


def test_Q1_a_fetch_fills_the_free_places_of_the_queue(clock):
    queue = ShareQueue("s", 3, 500)
    assert queue.wanted == 1500
    queue.put(chunk(500))
    assert queue.wanted == 1000
    queue.put(chunk(500))
    queue.put(chunk(500))
    assert queue.wanted == 0
    queue.take(None, None)
    assert queue.wanted == 500
    queue.close()
    assert queue.wanted == 0


def test_Q1_a_fast_stream_gets_as_many_records_as_it_reads_in_a_short_time(clock):
    queue = ShareQueue("s", 1, 500)
    for _ in range(3):
        assert queue.wanted == 500
        read(queue, clock, 1000, 0.01)
    queue.put(chunk(1000))
    queue.take(None, None)
    assert queue.wanted == pytest.approx(100_000 * AHEAD_SECONDS, abs=1)


def test_Q1_the_slower_of_the_last_two_chunks_counts(clock):
    queue = ShareQueue("s", 1, 10)
    for seconds, wanted in [(0.01, 10), (0.01, 10), (1.0, 5000), (0.01, 50), (0.01, 50), (0.01, 5000)]:
        read(queue, clock, 1000, 0.0)
        assert queue.wanted == pytest.approx(wanted, abs=1)
        clock.now += seconds


def test_Q1_a_stream_that_waits_does_not_count_as_slow(clock):
    queue = ShareQueue("s", 1, 10)
    for _ in range(3):
        read(queue, clock, 1000, 0.01)
        queue.report(ValueError("the queue is empty, and the stream comes back much later"))
        with pytest.raises(ValueError, match="much later"):
            queue.take(None, None)
        clock.now += 3600
    assert queue.wanted == pytest.approx(5000, abs=1)


def test_Q1_no_request_exceeds_the_largest_number(clock):
    queue = ShareQueue("s", 2, 2**31 - 1)
    assert queue.wanted == MOST_RECORDS
