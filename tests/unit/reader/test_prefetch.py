"""F16 and F17: one slot, errors reach the reader, closing wakes all waiting threads, no thread is left."""

import threading
import time

import pytest

from penstock.reader.prefetch import prefetch


def fetch_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name == "test-fetch"]


def no_wake() -> None:
    pass


def test_F16_items_arrive_in_order_and_the_thread_ends():
    assert list(prefetch(lambda: iter(range(100)), no_wake, "test-fetch")) == list(range(100))
    assert fetch_threads() == []


def test_F16_the_fetcher_blocks_with_one_item_in_the_slot_and_one_in_hand():
    made: list[int] = []

    def produce():
        for i in range(10):
            made.append(i)
            yield i

    taken = prefetch(produce, no_wake, "test-fetch")
    for i in range(5):
        assert next(taken) == i
        ahead = i + 3  # what was taken, one in the slot, one waiting to be put there
        deadline = time.monotonic() + 60
        while len(made) < ahead and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.02)  # time enough to run further ahead, if anything let it
        assert len(made) == ahead
    taken.close()
    assert fetch_threads() == []


def test_F16_an_error_in_the_fetching_thread_is_raised_where_records_are_awaited():
    cause = OSError("the wire")

    def produce():
        yield 1
        raise ValueError("decoding") from cause

    taken = prefetch(produce, no_wake, "test-fetch")
    assert next(taken) == 1
    with pytest.raises(ValueError, match="decoding") as caught:
        next(taken)
    assert caught.value.__cause__ is cause
    assert fetch_threads() == []


def test_F17_stopping_early_wakes_a_blocked_fetch_and_joins_it():
    woken = threading.Event()

    def produce():
        yield 1
        yield 2
        assert woken.wait(60), "the fetch was not woken"
        yield 3

    taken = prefetch(produce, woken.set, "test-fetch")
    assert next(taken) == 1
    taken.close()
    assert woken.is_set()
    assert fetch_threads() == []


def test_F17_stopping_early_wakes_a_fetch_that_waits_for_the_slot():
    taken = prefetch(lambda: iter(range(1000)), no_wake, "test-fetch")
    assert next(taken) == 0
    taken.close()
    assert fetch_threads() == []
