"""Heartbeats and held-back joins, where a real broker cannot be made to fail in just that way: answers are made up."""

import threading
import time

import pytest

from penstock.config.consumer import parse_config
from penstock.consumer.group.heartbeat_thread import HeartbeatThread
from penstock.consumer.group.membership import Membership
from penstock.consumer.subscription import NamedTopics
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
def heart(monkeypatch):
    """`heart(answers)`: one that gets these answers, the last of them again and again; and what it tells."""
    made = []

    def make(answers, **settings):
        told, said = [], threading.Event()

        def tell(member, news):
            told.append((member, news))
            said.set()

        one = HeartbeatThread(config(**settings), tell)
        coming = iter(answers)
        last = [None]

        def ask(attempts, question):
            last[0] = next(coming, last[0])
            if last[0] is not None:
                raise last[0]

        monkeypatch.setattr(one._coordinator, "ask", ask)
        made.append(one)
        one.send_for(MEMBER)
        return one, told, said

    yield make
    for one in made:
        one.close(DEADLINE)
        assert not one._thread.is_alive()


def test_H5_a_session_is_lost_when_no_heartbeat_is_answered_for_its_time(heart):
    started = time.monotonic()
    # Of one text: on a busy machine the first of them may come when the time is over.
    _, told, said = heart([None, RetriableError("gone"), ConnectionLost("gone")])
    assert said.wait(DEADLINE)
    assert time.monotonic() - started >= 0.3
    ((member, news),) = told
    assert member == MEMBER
    assert isinstance(news, MembershipLost)
    assert not news.forgotten  # whether the coordinator has forgotten us is for it to say
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
def test_a_heart_that_waits_for_an_answer_is_woken_however_little_time_there_is(monkeypatch, seconds):
    one = HeartbeatThread(config(), lambda member, news: None)
    asked, woken = hold_back(one, monkeypatch, Interrupted())
    monkeypatch.setattr(one._coordinator, "abort", woken.set)
    one.send_for(MEMBER)
    assert asked.wait(DEADLINE)
    one.close(seconds)
    one._thread.join(DEADLINE)
    assert not one._thread.is_alive()
    assert woken.is_set()


def test_H5_a_rebalance_is_told_and_the_heart_goes_on(heart):
    one, told, said = heart([None, Rebalancing("now"), None])
    assert said.wait(DEADLINE)
    before = one.last_heartbeat
    deadline = time.monotonic() + DEADLINE
    while one.last_heartbeat <= before:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert [type(news) for _, news in told] == [Rebalancing]


@pytest.mark.parametrize("news", [MembershipLost("unknown", forgotten=True), RuntimeError("a bug")])
def test_H5_what_ends_a_membership_is_told_once(heart, news):
    _, told, said = heart([news])
    assert said.wait(DEADLINE)
    time.sleep(0.1)  # ten more beats, if it went on
    assert told == [(MEMBER, news)]


def test_a_heart_at_rest_does_not_beat_and_begins_again(heart):
    one, _, _ = heart([None])
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
def test_H5_what_a_beat_brings_back_to_a_heart_at_rest_is_not_told(heart, monkeypatch, news):
    """It speaks of a generation that has been left behind: the member that joins anew is not lost by it."""
    one, told, _ = heart([None], **{"heartbeat.interval.ms": 100_000, "session.timeout.ms": 300_000})
    asked, answers = hold_back(one, monkeypatch, news)
    one.send_now()
    assert asked.wait(DEADLINE)
    one.suspend()
    answers.set()
    one.close(DEADLINE)
    assert not one._thread.is_alive()
    assert told == []


class Nobody:
    def owned(self):
        return []


class Broken(Nobody):
    def revoke(self, partitions, lost):
        raise RuntimeError("a bug")


@pytest.mark.parametrize(("interval", "seen"), [(100_000, False), (10, True)])
def test_H5_a_join_that_is_cut_off_while_it_is_held_back_has_kept_the_membership_until_then(
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
    """A SyncGroup that fails after it would else find a session without a heartbeat."""
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
    """`leaving(ownership, answers)`: a member whose heart beats, and what it is answered when it leaves."""
    made = []

    def make(ownership, answers):
        membership = Membership(config(), "c", NamedTopics({"t": 1}), ownership)
        membership._member = MEMBER
        membership._owned.streams = {TopicPartition("t", 0): 0}
        farewells = iter(answers)

        def ask(attempts, question):
            if (answer := next(farewells)) is not None:
                raise answer

        monkeypatch.setattr(membership._heartbeats._coordinator, "ask", lambda attempts, question: None)
        monkeypatch.setattr(membership._leave_coordinator, "ask", ask)
        membership._heartbeats.send_for(MEMBER)
        made.append(membership)
        return membership, farewells

    yield make
    for membership in made:
        membership._heartbeats.close(DEADLINE)


def test_H5_a_member_leaves_and_its_heart_ends_whatever_its_release_has_met(leaving):
    """A heart that beats on would make every rebalance of the group wait for a member that is not there."""
    membership, farewells = leaving(Broken(), [None])
    with pytest.raises(RuntimeError, match="a bug"):
        membership._end(lost=False)
    assert list(farewells) == [], "it has left"
    assert not membership._heartbeats._thread.is_alive()


def test_H5_a_farewell_that_a_lost_connection_swallowed_is_said_again(leaving):
    class Released(Nobody):
        def revoke(self, partitions, lost):
            pass

    membership, farewells = leaving(Released(), [ConnectionLost("cut off"), None, None])
    membership._end(lost=False)
    assert list(farewells) == [None], "twice, not three times"
