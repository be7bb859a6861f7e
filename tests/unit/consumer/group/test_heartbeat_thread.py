"""Heartbeats and joins that the coordinator holds back. Answers are simulated: a real broker does not fail in these
ways."""

import threading
import time

import pytest

from penstock.config.consumer import parse_config
from penstock.consumer.group.heartbeat_thread import HeartbeatThread
from penstock.consumer.group.membership import Membership
from penstock.consumer.subscription import NamedTopics
from penstock.metrics.group_counters import GroupCounters
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import RetriableError
from penstock.wire.api.group_member import GroupMember, MembershipLost, Rebalancing
from penstock.wire.api.group_membership import Joined
from penstock.wire.transport.connection import ConnectionLost
from penstock.wire.transport.retry import Interrupted

DEADLINE = 60.0
MEMBER = GroupMember("m", 3)


def config(**more):
    times = {"session.timeout.ms": 300, "heartbeat.interval.ms": 10, "retry.backoff.max.ms": 10, **more}
    return parse_config({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", **times})


@pytest.fixture
def heartbeats(monkeypatch):
    """`heartbeats(answers)`: a thread that gets these answers, the last of them repeatedly; and its notifications."""
    made = []

    def make(answers, **settings):
        notified, was_notified = [], threading.Event()

        def notify(member, news):
            notified.append((member, news))
            was_notified.set()

        one = HeartbeatThread(config(**settings), notify, GroupCounters())
        coming = iter(answers)
        last = [None]

        def ask(attempts, question):
            last[0] = next(coming, last[0])
            if last[0] is not None:
                raise last[0]

        monkeypatch.setattr(one._coordinator, "ask", ask)
        made.append(one)
        one.send_for(MEMBER)
        return one, notified, was_notified

    yield make
    for one in made:
        one.close(DEADLINE)
        assert not one._thread.is_alive()


def test_H5_a_session_is_lost_when_no_heartbeat_is_answered_for_its_time(heartbeats):
    started = time.monotonic()
    # Of one text: on a busy machine the first of them may come when the time is over.
    _, notified, was_notified = heartbeats([None, RetriableError("gone"), ConnectionLost("gone")])
    assert was_notified.wait(DEADLINE)
    assert time.monotonic() - started >= 0.3
    ((member, news),) = notified
    assert member == MEMBER
    assert isinstance(news, MembershipLost)
    assert not news.forgotten  # only the coordinator knows whether it has forgotten the member
    assert "0.3 s (session.timeout.ms): gone" in str(news)


def hold_back(one, monkeypatch, news):
    """From now on the coordinator's answer is `news`: events of a question, and to let it answer."""
    asked, answers = threading.Event(), threading.Event()

    def ask(attempts, question):
        asked.set()
        assert answers.wait(DEADLINE)
        raise news

    monkeypatch.setattr(one._coordinator, "ask", ask)
    return asked, answers


@pytest.mark.parametrize("seconds", [0.0, DEADLINE])
def test_closing_aborts_a_heartbeat_however_short_the_time_out_is(monkeypatch, seconds):
    one = HeartbeatThread(config(), lambda member, news: None, GroupCounters())
    asked, woken = hold_back(one, monkeypatch, Interrupted())
    monkeypatch.setattr(one._coordinator, "abort", woken.set)
    one.send_for(MEMBER)
    assert asked.wait(DEADLINE)
    one.close(seconds)
    one._thread.join(DEADLINE)
    assert not one._thread.is_alive()
    assert woken.is_set()


def test_H5_a_rebalance_is_notified_and_heartbeats_continue(heartbeats):
    one, notified, was_notified = heartbeats([None, Rebalancing("now"), None])
    assert was_notified.wait(DEADLINE)
    before = one.last_heartbeat
    deadline = time.monotonic() + DEADLINE
    while one.last_heartbeat <= before:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert [type(news) for _, news in notified] == [Rebalancing]


@pytest.mark.parametrize("news", [MembershipLost("unknown", forgotten=True), RuntimeError("a bug")])
def test_H5_the_end_of_a_membership_is_notified_once(heartbeats, news):
    _, notified, was_notified = heartbeats([news])
    assert was_notified.wait(DEADLINE)
    time.sleep(0.1)  # ten more heartbeats, if they continued
    assert notified == [(MEMBER, news)]


def test_no_heartbeats_are_sent_while_suspended(heartbeats):
    one, _, _ = heartbeats([None])
    one.suspend()
    time.sleep(0.05)
    before = one.last_heartbeat
    time.sleep(0.1)
    assert one.last_heartbeat == before
    one.send_for(GroupMember("m", 4))
    assert one.last_heartbeat > before


@pytest.mark.parametrize(
    "news", [Rebalancing("now"), MembershipLost("the group has gone on without this member")], ids=["moving", "lost"]
)
def test_H5_an_answer_that_comes_while_suspended_is_not_notified(heartbeats, monkeypatch, news):
    """It belongs to an earlier generation: the member that joins again must not lose its membership by it."""
    one, notified, _ = heartbeats([None], **{"heartbeat.interval.ms": 100_000, "session.timeout.ms": 300_000})
    asked, answers = hold_back(one, monkeypatch, news)
    one.send_now()
    assert asked.wait(DEADLINE)
    one.suspend()
    answers.set()
    one.close(DEADLINE)
    assert not one._thread.is_alive()
    assert notified == []


class Nobody:
    def owned(self):
        return []


class Broken(Nobody):
    def revoke(self, partitions, lost):
        raise RuntimeError("a bug")


@pytest.mark.parametrize(("interval", "seen"), [(100_000, False), (10, True)])
def test_H5_a_join_that_is_cut_off_while_the_coordinator_holds_it_has_kept_the_membership_until_then(
    monkeypatch, interval, seen
):
    settings = config(**{"heartbeat.interval.ms": interval, "session.timeout.ms": interval * 3})
    membership = Membership(settings, "c", NamedTopics({"t": 1}), Nobody())

    def ask(attempts, question):
        time.sleep(0.05)
        raise ConnectionLost("cut off")

    monkeypatch.setattr(membership._coordinator, "ask", ask)
    with pytest.raises(ConnectionLost):
        membership._ask_join(b"", "")
    assert (membership.last_heartbeat > float("-inf")) is seen


def test_H5_a_join_that_is_answered_late_has_kept_the_membership_until_then(monkeypatch):
    """Otherwise a SyncGroup that fails after it would find a session without a heartbeat."""
    membership = Membership(config(), "c", NamedTopics({"t": 1}), Nobody())
    answered = Joined(MEMBER, "range", leader=False, members=(), skip_assignment=False)
    monkeypatch.setattr(membership._coordinator, "ask", lambda attempts, question: answered)
    before = time.monotonic()
    assert membership._join(b"") is answered
    assert membership.last_heartbeat >= before


def test_a_wait_ends_at_once_when_closing():
    membership = Membership(config(), "c", NamedTopics({"t": 1}), Nobody())
    membership.close(0)
    with pytest.raises(Interrupted):
        membership._pause(DEADLINE)


@pytest.fixture
def leaving(monkeypatch):
    """`leaving(owner, answers)`: a member with heartbeats, and the answers to its leave requests."""
    made = []

    def make(owner, answers):
        membership = Membership(config(), "c", NamedTopics({"t": 1}), owner)
        membership._member = MEMBER
        membership._owned.streams = {TopicPartition("t", 0): 0}
        leave_answers = iter(answers)

        def ask(attempts, question):
            if (answer := next(leave_answers)) is not None:
                raise answer

        monkeypatch.setattr(membership._heartbeats._coordinator, "ask", lambda attempts, question: None)
        monkeypatch.setattr(membership._leave_coordinator, "ask", ask)
        membership._heartbeats.send_for(MEMBER)
        made.append(membership)
        return membership, leave_answers

    yield make
    for membership in made:
        membership._heartbeats.close(DEADLINE)


def test_H5_a_member_leaves_and_its_heartbeats_end_even_if_revoking_fails(leaving):
    """Heartbeats that continue would make every rebalance of the group wait for a missing member."""
    membership, leave_answers = leaving(Broken(), [None])
    with pytest.raises(RuntimeError, match="a bug"):
        membership._end(lost=False)
    assert list(leave_answers) == [], "it has left"
    assert not membership._heartbeats._thread.is_alive()


def test_H5_a_leave_request_on_a_lost_connection_is_sent_again(leaving):
    class Revoked(Nobody):
        def revoke(self, partitions, lost):
            pass

    membership, leave_answers = leaving(Revoked(), [ConnectionLost("cut off"), None, None])
    membership._end(lost=False)
    assert list(leave_answers) == [None], "twice, not three times"
