"""F26: what a worker counts for each of its queries."""

import os

import pytest

from penstock.model.worker_figures import WorkerFigures
from penstock.reader import worker_counters as module
from penstock.reader.worker_counters import MOST_QUERIES, REPORT_SECONDS, WorkerCounters, counters_of


@pytest.fixture(autouse=True)
def a_worker_that_knows_nothing_yet(monkeypatch):
    monkeypatch.setattr(module, "_by_query", {})
    monkeypatch.setattr(module.socket, "gethostname", lambda: "node-1")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_F26_figures_are_sums_since_the_first_task_and_the_slowest_since_the_last_report():
    clock = Clock()
    counters = WorkerCounters(clock)
    counters.fetched(0.25, 0.0)
    counters.fetched(0.125, 1.5)
    counters.fetched(None, 0.0)
    counters.retried()
    connections = module.POOL.open_count()
    name = f"node-1:{os.getpid()}"
    assert counters.take(always=False) == WorkerFigures(name, 3, 2, 0.375, 0.25, 1.5, 1, connections)
    counters.fetched(0.125, 0.0)
    clock.now += REPORT_SECONDS
    assert counters.take(always=False) == WorkerFigures(name, 4, 3, 0.5, 0.125, 1.5, 1, connections)


def test_F26_a_report_only_for_figures_is_due_once_a_second():
    clock = Clock()
    counters = WorkerCounters(clock)
    assert counters.take(always=False) is not None
    clock.now += REPORT_SECONDS / 2
    assert counters.take(always=False) is None
    assert counters.take(always=True) is not None, "they go along with a report that is sent anyway"
    clock.now += REPORT_SECONDS / 2
    assert counters.take(always=False) is None
    clock.now += REPORT_SECONDS / 2
    assert counters.take(always=False) is not None


def test_F26_queries_are_counted_apart_and_only_so_many():
    counters_of("a").retried()
    assert counters_of("b").take(always=True).retries == 0
    assert counters_of("a").take(always=True).retries == 1
    for number in range(MOST_QUERIES - 1):
        counters_of(f"other {number}")
    assert counters_of("a").take(always=True).retries == 1, "used later than b"
    assert len(module._by_query) == MOST_QUERIES
    assert "b" not in module._by_query
