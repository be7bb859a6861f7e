"""F21-F25: durable offsets reach the group, one commit at a time, and never hold up or fail the query."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from penstock.model.topic_partition import TopicPartition
from penstock.planner import group_committer as module
from penstock.planner.group_committer import Committer
from support.own_logs import own_records

NAME = "test-committer"
A = TopicPartition("orders", 0)
B = TopicPartition("orders", 1)
WAIT = 60.0
"""A deadline, not a measurement: everything below happens at once or not at all."""


class Group:
    """Replaces the network call: records commits, and hangs or fails on request."""

    def __init__(self) -> None:
        self.commits: list[Mapping[TopicPartition, int]] = []
        self.threads: set[str] = set()
        self.begun = threading.Semaphore(0)
        self.open = threading.Event()
        self.open.set()
        self.errors: list[Exception] = []

    def __call__(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.threads.add(threading.current_thread().name)
        self.begun.release()
        assert self.open.wait(WAIT), "the test never let the commit go on"
        if self.errors:
            raise self.errors.pop(0)
        self.commits.append(offsets)


@pytest.fixture
def group() -> Group:
    return Group()


@pytest.fixture
def make(group: Group) -> Iterator[Callable[..., Committer]]:
    made: list[Committer] = []

    def build(**options: object) -> Committer:
        made.append(Committer(group, name=NAME, **options))  # type: ignore[arg-type]
        return made[-1]

    yield build
    group.open.set()
    for each in made:
        each.close(WAIT)
    assert committing_threads() == []


def committing_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == NAME]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.002)


def test_F22_durable_offsets_are_committed_and_kept_for_metrics(make, group):
    committer = make()
    committer.durable({A: 5, B: 7})
    assert committer.flush(WAIT)
    assert group.commits == [{A: 5, B: 7}]
    assert (committer.succeeded, committer.failed) == (1, 0)
    assert committer.committed == {A: 5, B: 7}


def test_F24_the_network_call_is_made_in_a_thread_of_its_own(make, group):
    committer = make()
    assert committing_threads() == [], "nothing to commit, no thread"
    committer.durable({A: 5})
    assert committer.flush(WAIT)
    assert group.threads == {NAME}


def test_F24_one_in_flight_and_only_the_newest_of_those_that_wait(make, group, caplog):
    caplog.set_level(logging.INFO, logger="penstock")
    committer = make()
    group.open.clear()
    committer.durable({A: 1})
    assert group.begun.acquire(timeout=WAIT)
    for offset in range(2, 50):
        committer.durable({A: offset})
    assert not group.begun.acquire(timeout=0.05), "a second commit began while the first was in flight"
    group.open.set()
    assert committer.flush(WAIT)
    assert group.commits == [{A: 1}, {A: 49}]
    assert [r.message for r in caplog.records if "still in flight" in r.message] == [
        f"{NAME}: a commit is still in flight; only the newest of the waiting offsets are kept"
    ]


def test_F22_the_newest_wins_also_where_it_is_the_older_offset(make, group):
    committer = make()
    group.open.clear()
    committer.durable({A: 10})
    assert group.begun.acquire(timeout=WAIT)
    committer.durable({A: 20})
    committer.durable({A: 3})
    group.open.set()
    assert committer.flush(WAIT)
    assert group.commits == [{A: 10}, {A: 3}]


def test_F22_back_at_what_is_in_flight_nothing_waits_any_more(make, group):
    committer = make()
    group.open.clear()
    committer.durable({A: 10})
    assert group.begun.acquire(timeout=WAIT)
    committer.durable({A: 20})
    committer.durable({A: 10})
    group.open.set()
    assert committer.flush(WAIT)
    assert group.commits == [{A: 10}]


def test_F24_equal_offsets_are_not_sent_twice(make, group):
    committer = make()
    for _ in range(5):
        committer.durable({A: 5})
        assert committer.flush(WAIT)
    committer.durable({A: 5, B: 0})
    assert committer.flush(WAIT)
    assert group.commits == [{A: 5}, {A: 5, B: 0}]


def test_F24_equal_offsets_are_sent_again_before_kafka_forgets_them(make, group, monkeypatch):
    monkeypatch.setattr(module, "REFRESH_AFTER", 0.0)
    committer = make()
    for _ in range(2):
        committer.durable({A: 5})
        assert committer.flush(WAIT)
    assert group.commits == [{A: 5}, {A: 5}]


def test_F24_what_the_caller_does_to_its_mapping_later_changes_no_commit(make, group):
    committer = make()
    group.open.clear()
    offsets = {A: 1}
    committer.durable(offsets)
    assert group.begun.acquire(timeout=WAIT)
    offsets[A] = 99
    group.open.set()
    assert committer.flush(WAIT)
    assert group.commits == [{A: 1}]


@pytest.mark.parametrize("sentinel", [-1, -2, -915623761773])
def test_F23_a_negative_offset_is_an_error_and_nothing_is_committed(make, group, sentinel):
    committer = make()
    with pytest.raises(ValueError, match=rf"orders-1: {sentinel}"):
        committer.durable({A: 5, B: sentinel})
    assert committer.flush(WAIT)
    assert group.commits == []


def test_F23_offset_zero_is_an_offset(make, group):
    committer = make()
    committer.durable({A: 0})
    assert committer.flush(WAIT)
    assert group.commits == [{A: 0}]


def test_F21_without_offsets_nothing_is_committed(make, group):
    committer = make()
    committer.durable({})
    assert committer.flush(WAIT)
    assert group.commits == []
    assert committing_threads() == []


def test_F25_a_failed_commit_is_counted_and_logged_with_a_way_out(make, group, caplog):
    committer = make()
    group.errors.append(OSError("the coordinator is gone"))
    committer.durable({A: 5})
    assert committer.flush(WAIT), "failed is settled too"
    assert (committer.succeeded, committer.failed) == (0, 1)
    assert committer.committed == {}
    (record,) = own_records(caplog)
    assert record.levelno == logging.WARNING
    assert "the coordinator is gone" in record.message
    assert "commitMode" in record.message


def test_F25_a_failed_commit_is_sent_again_with_the_next_durable_and_not_by_itself(make, group, monkeypatch):
    monkeypatch.setattr(module, "FIRST_BACKOFF", 0.001)
    committer = make()
    group.errors.append(OSError("once"))
    committer.durable({A: 5})
    assert committer.flush(WAIT)
    assert group.begun.acquire(timeout=WAIT)
    assert not group.begun.acquire(timeout=0.05), "sent again by itself"
    committer.durable({A: 5})
    assert committer.flush(WAIT)
    assert group.commits == [{A: 5}]
    assert (committer.succeeded, committer.failed) == (1, 1)


def test_F25_polling_does_not_hammer_a_group_that_fails(make, group, caplog, monkeypatch):
    monkeypatch.setattr(module, "FIRST_BACKOFF", 3600.0)
    committer = make()
    group.errors += [OSError("no")] * 1000
    committer.durable({A: 0})
    assert committer.flush(WAIT)
    for offset in range(50):  # Spark polls, and each poll says what is durable
        committer.durable({A: offset})
        time.sleep(0.002)
    assert committer.failed == 1
    assert len(own_records(caplog)) == 1


def test_F25_after_a_failure_newer_offsets_are_committed_when_the_back_off_is_over(make, group, monkeypatch):
    monkeypatch.setattr(module, "FIRST_BACKOFF", 0.05)
    committer = make()
    group.errors.append(OSError("once"))
    committer.durable({A: 5})
    until(lambda: committer.failed == 1)
    committer.durable({A: 6})
    until(lambda: committer.succeeded == 1)
    assert group.commits == [{A: 6}]


def test_F21_periodic_commits_the_newest_after_the_interval(make, group):
    committer = make(interval=0.2)
    begun = time.monotonic()
    with committer._changed:  # so that its thread finds all of them, however long this takes
        for offset in range(10):
            committer.durable({A: offset})
    until(lambda: committer.succeeded == 1)
    assert time.monotonic() - begun >= 0.2
    assert group.commits == [{A: 9}]


def test_F21_periodic_waits_between_commits_and_flush_does_not(make, group):
    committer = make(interval=3600)
    committer.durable({A: 1})
    assert not group.begun.acquire(timeout=0.05)
    assert committer.flush(WAIT)
    assert group.begun.acquire(timeout=WAIT)
    committer.durable({A: 2})
    assert not group.begun.acquire(timeout=0.05)
    assert group.commits == [{A: 1}]
    committer.close(WAIT)
    assert group.commits == [{A: 1}, {A: 2}]


def test_F24_flush_gives_up_at_its_deadline_while_a_commit_hangs(make, group):
    committer = make()
    group.open.clear()
    committer.durable({A: 1})
    assert not committer.flush(0.05)
    group.open.set()
    assert committer.flush(WAIT)


def test_F24_close_commits_what_waits_and_ends_the_thread(make, group):
    committer = make()
    committer.durable({A: 1})
    committer.close(WAIT)
    assert group.commits == [{A: 1}]
    assert committing_threads() == []
    committer.durable({A: 2})
    committer.close(WAIT)
    assert group.commits == [{A: 1}], "nothing is committed after close"


@pytest.mark.parametrize("seconds", [0.4, 0.0], ids=["in time", "too late"])
def test_F24_close_wakes_a_commit_that_hangs(group, caplog, seconds):
    def abort() -> None:
        group.errors.append(ConnectionAbortedError("woken"))
        group.open.set()

    committer = Committer(group, abort=abort, name=NAME)
    group.open.clear()
    committer.durable({A: 1})
    assert group.begun.acquire(timeout=WAIT)
    committer.durable({A: 2})
    committer.close(seconds)  # of which the last quarter is for the waking
    until(lambda: committing_threads() == [])
    assert group.commits == []
    assert "closed before the offsets of 1 partitions" in caplog.text


def test_F24_close_returns_even_when_nothing_wakes_the_commit(group, caplog):
    committer = Committer(group, name=NAME)
    group.open.clear()
    committer.durable({A: 1})
    assert group.begun.acquire(timeout=WAIT)
    begun = time.monotonic()
    committer.close(0.2)
    assert time.monotonic() - begun < WAIT / 2
    assert "did not end within 0.2 s" in caplog.text
    group.open.set()
    until(lambda: committing_threads() == [])


def test_F24_a_committer_that_was_never_used_closes():
    Committer(lambda offsets: None, name=NAME).close(WAIT)
    assert committing_threads() == []
