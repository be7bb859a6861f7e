"""W5, W6, W7: tasks and the driver's commit against a real broker, without Spark."""

from __future__ import annotations

import logging
import re
import time
from dataclasses import replace

import pytest

from penstock.errors import ReplayError, TransactionLost
from penstock.wire.producer.transactions import end_transactions
from penstock.writer.note import Note
from penstock.writer.report import log_written
from support.called_sink import Sink

pytestmark = pytest.mark.broker


@pytest.fixture
def sink(kafka, topic):
    def make(**options):
        return Sink(kafka, topic(partitions=2), **options)

    return make


def test_W5_rows_are_visible_after_the_commit_and_not_before(sink):
    one = sink()
    outcomes = one.tasks(0, ("a", "b"), (), ("c",))
    assert [outcome.transaction is None for outcome in outcomes] == [False, True, False]
    one.commit(0, outcomes)
    assert one.visible == ["a", "b", "c"]
    one.commit(1, one.tasks(1, ("d",), ("e",)))
    assert one.visible == ["a", "b", "c", "d", "e"]


def test_W6_a_later_attempt_fences_an_earlier_one(sink):
    one = sink()
    zombie = one.tasks(0, ("a",))
    retried = one.tasks(0, ("a",))
    with pytest.raises(TransactionLost, match="Start the query again: it replays batch 0"):
        one.commit(0, zombie)
    one.commit(0, retried)
    assert one.visible == ["a"]


def test_W6_a_driver_that_died_before_the_commit_replays(sink):
    one = sink()
    one.tasks(0, ("a",), ("b",))
    one.commit(0, one.tasks(0, ("a",), ("b",)))
    assert one.visible == ["a", "b"]


@pytest.mark.parametrize("committed", [0, 1, 2, 3])
def test_W6_a_driver_that_died_in_the_commit_rolls_forward(sink, committed):
    one = sink()
    rows = (("a",), ("b", "c"), ("d",))
    outcomes = one.tasks(0, *rows)
    one.write_intent(0, outcomes)
    ended = [outcome.transaction for outcome in outcomes[:committed]]
    end_transactions(one.options.client, ended, committed=True, timeout=30)
    replayed = one.tasks(0, *rows)
    assert [outcome.note is not None for outcome in replayed] == [number < committed for number in range(3)]
    one.commit(0, replayed)
    assert one.visible == ["a", "b", "c", "d"]


def test_W6_a_failed_commit_is_completed_by_the_abort(sink):
    one = sink()
    outcomes = one.tasks(0, ("a",), ("b",))
    one.write_intent(0, outcomes)
    end_transactions(one.options.client, [outcomes[0].transaction], committed=True, timeout=30)
    one.committer(0).abort(outcomes)
    assert one.visible == ["a", "b"]
    one.commit(0, one.tasks(0, ("a",), ("b",)))
    assert one.visible == ["a", "b"]


def test_W6_a_failed_task_aborts_the_others(sink):
    one = sink()
    outcomes = one.tasks(0, ("a",))
    one.committer(0).abort([*outcomes, None])
    assert one.visible == []
    with pytest.raises(TransactionLost):
        one.commit(0, outcomes)


def test_W6_a_replay_with_other_rows_is_refused(sink):
    one = sink()
    outcomes = one.tasks(0, ("a",), ("b",))
    one.write_intent(0, outcomes)
    end_transactions(one.options.client, [outcomes[0].transaction], committed=True, timeout=30)
    with pytest.raises(ReplayError, match="its replay has other contents"):
        one.commit(0, one.tasks(0, ("a",), ("x",)))
    with pytest.raises(ReplayError, match="1 of 2 tasks of batch 0 are committed, and its replay has 3 tasks"):
        one.commit(0, one.tasks(0, ("a",), (), ("b",)))
    with pytest.raises(ReplayError, match="task 0 of batch 0"):
        one.commit(0, one.tasks(0, ("b",), ("a",)))
    assert one.visible == ["a"]


def test_W6_a_whole_batch_may_come_again_in_other_tasks(sink):
    one = sink()
    one.commit(0, one.tasks(0, ("a",), ("b",)))
    one.commit(0, one.tasks(0, (), (), ("b", "a")))
    one.commit(0, one.tasks(0, ("b", "a")))
    assert one.visible == ["a", "b"]


def test_W6_a_replaced_driver_that_is_still_alive_writes_no_intent(sink):
    """Its tasks beyond those of the new driver are not fenced: with an intent it could commit them."""
    one = sink()
    outcomes = one.tasks(0, ("a",), ("b",))
    old = one.committer(0)
    with old._taken_intent() as driver:
        one.commit(0, one.tasks(0, ("a", "b")))
        with pytest.raises(TransactionLost):
            old._write_intent(outcomes, driver)
    assert one.visible == ["a", "b"]


def test_W6_an_older_checkpoint_is_refused(sink):
    one = sink()
    one.commit(3, one.tasks(3, ("a",)))
    with pytest.raises(ReplayError, match="batch 3 is already committed"):
        one.commit(2, one.tasks(2, ("b",)))
    assert one.visible == ["a"]


@pytest.mark.parametrize("batch", [0, None])
def test_W6_and_W7_a_transaction_that_timed_out_leads_to_an_error_and_nothing_is_visible(sink, batch):
    """The coordinator looks for transactions to abort every ten seconds."""
    short = sink(**{"kafka.transaction.timeout.ms": 1})
    late = short.task(1, batch, "b")
    one = short
    one.options = replace(one.options, producer=replace(one.options.producer, transaction_timeout=600))
    outcomes = [one.task(0, batch, "a"), late]
    committer = one.committer(batch)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            committer._check_open([late.transaction])
        except TransactionLost:
            break
        time.sleep(0.2)
    with pytest.raises(TransactionLost, match=r"transaction\.timeout\.ms"):
        committer.commit(outcomes)
    committer.abort(outcomes)
    assert one.visible == []
    if batch is not None:
        one.commit(batch, one.tasks(batch, ("a",), ("b",)))
        assert one.visible == ["a", "b"]


def test_W7_a_batch_write_has_no_notes_and_is_all_or_nothing(sink):
    one = sink()
    outcomes = one.tasks(None, ("a",), ("b",))
    one.committer(None).abort(outcomes)
    assert one.visible == []
    one.commit(None, one.tasks(None, ("a",), ("b",)))
    assert one.visible == ["a", "b"]


def test_W5_the_note_says_what_was_written(sink, kafka):
    one = sink()
    outcomes = one.tasks(7, ("a", "b"))
    one.commit(7, outcomes)
    again = one.task(0, 7, "b", "a")
    assert again.note == Note(7, outcomes[0].content)
    assert again.content == outcomes[0].content
    assert again.written == {}


def test_W10_a_batch_is_reported_with_rows_bytes_requests_and_offsets(sink, caplog):
    one = sink(deliveryGuarantee="at-least-once")
    outcomes = [replace(one.task(0, None, "a", "b"), task=0)]
    with caplog.at_level(logging.INFO, "penstock"):
        log_written(outcomes, 4)
    (record,) = caplog.records
    text = record.getMessage()
    assert text.startswith("batch 4: 2 rows, ")
    assert re.search(r", \d+ bytes, \d+ requests, \d+ retries; offsets ", text)
    assert text.endswith(": 0 to 1")
