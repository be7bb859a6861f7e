"""F26: how long requests take, in all and within the window."""

import threading

import pytest

from penstock.metrics.latency import NO_REQUESTS, WINDOW_SECONDS, Latency, LatencyMeter


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_F26_sum_last_average_and_slowest(clock):
    meter = LatencyMeter(clock)
    assert meter.snapshot() == NO_REQUESTS
    for seconds in (1.0, 3.0, 2.0):
        meter.add(seconds)
        clock.now += 1
    assert meter.snapshot() == Latency(3, 6.0, 2.0, 2.0, 3.0)


def test_F26_what_is_older_than_the_window_is_in_the_sums_only(clock):
    meter = LatencyMeter(clock)
    meter.add(5.0)
    clock.now += WINDOW_SECONDS - 1
    meter.add(1.0)
    assert meter.snapshot().slowest == 5.0
    clock.now += 1
    assert meter.snapshot() == Latency(2, 6.0, 1.0, 1.0, 1.0)
    clock.now += WINDOW_SECONDS
    assert meter.snapshot() == Latency(2, 6.0, 1.0)
    meter.add(2.0)
    assert meter.snapshot() == Latency(3, 8.0, 2.0, 2.0, 2.0), "a slot is used again"


def test_F26_nothing_is_lost_when_many_threads_measure():
    meter = LatencyMeter()
    threads = [threading.Thread(target=lambda: [meter.add(0.5) for _ in range(1000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found = meter.snapshot()
    assert (found.count, found.seconds) == (4000, 2000.0)
