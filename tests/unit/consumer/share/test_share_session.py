"""Share sessions: epochs, and which partitions a request names (Q4)."""

from __future__ import annotations

import uuid

from penstock.consumer.share.share_session import LAST_EPOCH, SessionChange, ShareSession
from penstock.model.acknowledgement import SharedPartition

A, B, C = (SharedPartition(uuid.UUID(int=1), number) for number in range(3))


def test_Q4_a_session_is_opened_by_a_fetch_with_all_partitions():
    session = ShareSession()
    assert not session.is_open
    assert session.fetch([A, B]) == SessionChange(0, (A, B), ())
    assert not session.is_open, "not before the broker has answered"
    session.answered()
    assert session.is_open
    assert session.epoch == 1


def test_Q4_later_fetches_name_changes_only():
    session = ShareSession()
    session.fetch([A, B])
    session.answered()
    assert session.fetch([B, A]) == SessionChange(1, (), ())
    session.answered()
    assert session.fetch([B, C]) == SessionChange(2, (C,), (A,))
    session.answered()
    assert session.fetch([]) == SessionChange(3, (), (B, C))


def test_Q4_each_request_has_the_next_epoch_and_the_last_one_is_followed_by_1():
    session = ShareSession()
    session.fetch([A])
    session.answered()
    session.answered()
    assert session.epoch == 2
    session._epoch = LAST_EPOCH
    session.answered()
    assert session.epoch == 1


def test_Q4_a_session_that_the_broker_does_not_know_is_opened_again():
    session = ShareSession()
    session.fetch([A, B])
    session.answered()
    session.restart()
    assert not session.is_open
    assert session.fetch([B]) == SessionChange(0, (B,), ())


def test_Q4_the_last_request_closes_the_session():
    session = ShareSession()
    session.fetch([A])
    session.answered()
    assert session.close() == -1
    assert not session.is_open
