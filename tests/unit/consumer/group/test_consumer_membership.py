"""A member whose coordinator assigns partitions, with simulated answers: what a real broker rarely does (H5, H7)."""

from __future__ import annotations

import threading
import uuid

import pytest

from fixtures.members import Recorder, wait_for
from penstock.config.consumer import parse_config
from penstock.consumer.group import consumer_membership, group_heartbeats
from penstock.consumer.group.consumer_membership import ConsumerMembership
from penstock.consumer.group.coordinator import Listing
from penstock.consumer.subscription import AllowTopics, DenyTopics, FilteredTopics, NamedTopics
from penstock.errors import AuthorizationFailed, BrokerError, CommitRefused
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.consumer_group_heartbeat import InstanceNotReleased
from penstock.wire.api.group_member import FencedInstance, GroupMember, MembershipLost
from penstock.wire.api.heartbeat_answer import HeartbeatAnswer
from penstock.wire.transport.connection import ConnectionLost

DEADLINE = 60.0
WORDS = uuid.UUID(int=1)
INTERVAL = 0.01


class Group:
    """A coordinator that gives one member what the test assigns."""

    def __init__(self):
        self.names = {WORDS: "words"}
        self.assigned: dict[uuid.UUID, frozenset[int]] = {}
        self.epoch = 0
        self.heartbeats = []
        self.errors = []
        """Answers of the next heartbeats."""
        self.listed = 0
        self.answering = threading.Event()
        self.answering.set()
        self._given = None

    def assign(self, *numbers, topic=WORDS):
        self.assigned = {topic: frozenset(numbers)} if numbers else {}
        self.epoch += 1

    def heartbeat(self, connection, group, heartbeat, timeout):
        self.heartbeats.append(heartbeat)
        assert self.answering.wait(DEADLINE)
        if heartbeat.epoch < 0:
            return HeartbeatAnswer(None, heartbeat.epoch, INTERVAL, None)
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        new = heartbeat.rebalance_timeout is not None or self.assigned != self._given
        self._given = self.assigned
        return HeartbeatAnswer(None, max(1, self.epoch), INTERVAL, self.assigned if new else None)

    def listing(self, topics, expected, timeout):
        self.listed += 1
        return Listing(dict.fromkeys(self.names.values(), 4), frozenset(), self.names)

    @property
    def owned(self):
        """The partitions that were acknowledged last."""
        said = [each.owned for each in self.heartbeats if each.owned is not None]
        return said[-1] if said else None


@pytest.fixture
def group(monkeypatch):
    group = Group()
    for module in (consumer_membership, group_heartbeats):
        monkeypatch.setattr(module, "ask_group_heartbeat", group.heartbeat)
        monkeypatch.setattr(module.Coordinator, "ask", lambda self, attempts, question: question(None))
        monkeypatch.setattr(module.Coordinator, "listing", lambda self, *arguments: group.listing(*arguments))
    return group


@pytest.fixture
def member(group):
    """`member(subscription, **settings)`: a membership that runs, and its recorder."""
    made = []

    def make(subscription=None, **settings):
        base = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "group.protocol": "consumer"}
        quick = {"retry.backoff.ms": 10, "retry.backoff.max.ms": 10, "rebalance.backoff.ms": 0}
        recorder = Recorder()
        config = parse_config(base | quick | settings)
        one = ConsumerMembership(config, "c", subscription or NamedTopics({"words": 2}), recorder)
        made.append(one)
        one.start()
        return one, recorder

    yield make
    for one in made:
        group.answering.set()
        one.close(DEADLINE)
        assert not one._life.is_alive
        assert not one._heartbeats._thread.is_alive()


def tps(*numbers):
    return [TopicPartition("words", number) for number in numbers]


def await_read(recorder, *numbers):
    wait_for(lambda: recorder.owned() == tps(*numbers), f"partitions {numbers}", DEADLINE)


def test_H7_partitions_that_stay_are_not_revoked_and_keep_their_streams(group, member):
    group.assign(0, 1, 2, 3)
    one, recorder = member()
    await_read(recorder, 0, 1, 2, 3)
    wait_for(lambda: one.state == "stable", "a stable member")
    before = dict(recorder.partitions)
    assert sorted(before.values()) == [0, 0, 1, 1]
    group.assign(1, 2)
    await_read(recorder, 1, 2)
    wait_for(lambda: group.owned == {WORDS: frozenset({1, 2})}, "an acknowledgement")
    wait_for(lambda: one.state == "stable", "a stable member")
    assert recorder.events == [("assigned", tps(0, 1, 2, 3)), ("revoked", tps(0, 3)), ("assigned", [])]
    assert set(recorder.assignments[-1].partitions) == set(tps(1, 2))
    assert recorder.partitions == {tp: before[tp] for tp in tps(1, 2)}
    group.assign(1, 2, 3)
    await_read(recorder, 1, 2, 3)
    assert recorder.assignments[-1].threads_of_group["words"] == {
        tp.partition: f"c-{stream}" for tp, stream in recorder.partitions.items()
    }
    wait_for(lambda: one.rebalances == 3, "three rebalances are counted")


def test_H7_partitions_are_acknowledged_as_released_only_after_the_listener(group, member):
    group.assign(0, 1)
    _, recorder = member()
    await_read(recorder, 0, 1)
    wait_for(lambda: group.owned == {WORDS: frozenset({0, 1})}, "an acknowledgement")
    seen = []

    def on_revoke(partitions, lost):
        count = len(group.heartbeats)
        wait_for(lambda: len(group.heartbeats) > count + 2, "heartbeats while the listener runs")
        seen.append(group.owned)

    recorder.on_revoke = on_revoke
    group.assign(0)
    wait_for(lambda: group.owned == {WORDS: frozenset({0})}, "an acknowledgement")
    assert seen == [{WORDS: frozenset({0, 1})}]


@pytest.mark.parametrize("error", [MembershipLost("fenced"), MembershipLost("unknown", forgotten=True)])
def test_H5_a_fenced_member_loses_its_partitions_and_joins_again_under_its_id(group, member, error):
    group.assign(0, 1)
    one, recorder = member()
    await_read(recorder, 0, 1)
    group.errors = [error]
    wait_for(lambda: len(recorder.assignments) == 2, "another assignment")
    assert recorder.events == [("assigned", tps(0, 1)), ("lost", tps(0, 1)), ("assigned", tps(0, 1))]
    joins = [each for each in group.heartbeats if each.epoch == 0]
    assert len(joins) == 2
    assert {each.member_id for each in joins} == {one.member_id}


def test_H15_commits_are_of_the_newest_epoch_and_refused_while_fenced(group, member):
    group.assign(0)
    one, recorder = member(**{"group.instance.id": "i"})
    await_read(recorder, 0)
    group.epoch = 7
    wait_for(lambda: one.member_for(tps(0)) == GroupMember(one.member_id, 7, "i"), "the new epoch")
    assert one.offset_reader() == GroupMember(one.member_id, 7, "i")
    with pytest.raises(CommitRefused, match="words-1 is not assigned"):
        one.member_for(tps(1))
    group.answering.clear()  # it cannot join again
    wait_for(lambda: one._heartbeats._member._sent, "a heartbeat under way")
    with one._changed:
        one._member.fenced()
        one._on_identity(None)
        one._changed.notify_all()
    with pytest.raises(CommitRefused, match="not a member"):
        one.member_for(tps(0))
    with pytest.raises(MembershipLost):
        one.offset_reader()


@pytest.mark.parametrize("error", [AuthorizationFailed("no"), FencedInstance("replaced"), BrokerError("settings")])
def test_an_error_that_a_retry_cannot_fix_ends_the_membership(group, member, error):
    group.assign(0)
    one, recorder = member()
    await_read(recorder, 0)
    group.errors = [error]
    wait_for(lambda: one.state == "failed", "the end")
    assert recorder.errors == [error]
    assert recorder.events[-1] == ("lost" if isinstance(error, FencedInstance) else "revoked", tps(0))


def test_H5_failed_heartbeats_are_repeated_with_all_fields(group, member):
    group.errors = [ConnectionLost("gone"), None]
    group.assign(0)
    _, recorder = member()
    await_read(recorder, 0)
    wait_for(lambda: group.owned == {WORDS: frozenset({0})}, "an acknowledgement")
    begin = len(group.heartbeats)
    group.errors = [ConnectionLost("gone")] * 3
    full = wait_for(
        lambda: len(found := [each for each in group.heartbeats[begin:] if each.topics is not None]) == 3 and found,
        "three repetitions",
    )
    assert {(each.epoch, each.topics, each.rebalance_timeout) for each in full} == {(1, ("words",), 300.0)}
    assert all(each.owned == {WORDS: frozenset({0})} for each in full)
    assert recorder.events == [("assigned", tps(0))]  # nothing is lost


def test_H5_a_static_member_waits_for_the_session_of_its_predecessor(group, member, monkeypatch):
    group.errors = [InstanceNotReleased("held")] * 3
    group.assign(0)
    _, recorder = member(**{"group.instance.id": "i"})
    await_read(recorder, 0)
    monkeypatch.setattr(group_heartbeats, "INSTANCE_SECONDS", 0.0)
    group.errors = [InstanceNotReleased("held")]
    wait_for(lambda: recorder.errors, "an error")
    assert "Give each consumer of the group an id of its own" in str(recorder.errors[0])


def test_a_topic_that_no_broker_knows_yet_is_looked_up_again(group, member, monkeypatch):
    monkeypatch.setattr(consumer_membership, "MISSING_TOPIC_SECONDS", 0.01)
    group.names = {}
    group.assign(0)
    one, recorder = member()
    wait_for(lambda: group.listed > 3, "look-ups")
    assert group.owned == {}
    assert one.state != "stable"
    group.names = {WORDS: "words"}
    await_read(recorder, 0)


def test_H5_a_recreated_topic_is_revoked_and_assigned(group, member):
    group.assign(0)
    _, recorder = member()
    await_read(recorder, 0)
    again = uuid.UUID(int=2)
    group.names = {again: "words"}
    group.assign(0, topic=again)
    wait_for(lambda: len(recorder.events) == 3, "the new topic")
    assert recorder.events[1:] == [("revoked", tps(0)), ("assigned", tps(0))]


def test_H3_the_coordinator_gets_a_pattern_that_it_can_evaluate(group, member):
    group.assign(0)
    _, recorder = member(FilteredTopics(AllowTopics("wor.*"), 3))
    await_read(recorder, 0)
    assert (group.heartbeats[0].topics, group.heartbeats[0].pattern) == ((), "(?:wor.*)")


@pytest.mark.parametrize("chosen", [DenyTopics("other"), AllowTopics(".*")], ids=["a denial", "also internal topics"])
def test_H3_other_filters_are_names_that_the_member_watches(group, member, chosen):
    one, _ = member(FilteredTopics(chosen), **{"metadata.max.age.ms": 20})
    wait_for(lambda: one.state == "stable", "a stable member")
    assert (group.heartbeats[0].topics, group.heartbeats[0].pattern) == (("words",), None)
    group.names = {WORDS: "words", uuid.UUID(int=2): "more"}
    wait_for(lambda: any(each.topics == ("more", "words") for each in list(group.heartbeats)), "new names")


def test_topics_that_do_not_exist_are_named(group, member):
    group.names = {}
    one, _ = member(NamedTopics({"nowhere": 1}))
    wait_for(lambda: one.status().missing == ("nowhere",), "a reason")


@pytest.mark.parametrize(("instance", "epoch"), [({}, -1), ({"group.instance.id": "i"}, -2)], ids=["dynamic", "static"])
def test_H5_a_member_revokes_and_leaves_when_it_is_closed(group, member, instance, epoch):
    group.assign(0)
    one, recorder = member(**instance)
    await_read(recorder, 0)
    one.close(DEADLINE)
    assert one.state == "closed"
    assert recorder.events == [("assigned", tps(0)), ("revoked", tps(0))]
    assert group.heartbeats[-1].epoch == epoch
    assert [each.epoch for each in group.heartbeats].count(epoch) == 1


def test_a_listener_that_fails_to_start_partitions_is_retried_and_ends_the_membership(group, member):
    group.assign(0)

    def on_assign(assignment):
        raise RuntimeError("no")

    _, recorder = member(**{"rebalance.max.retries": 0, "group.id": "h"})
    await_read(recorder, 0)
    recorder.on_assign = on_assign
    group.assign(0, 1)
    wait_for(lambda: recorder.errors, "an error")
    assert str(recorder.errors[0]) == "no"


def test_H8_a_fenced_member_that_reads_offsets_loses_its_partitions_and_joins_again(group, member):
    group.assign(0)
    one, recorder = member()
    await_read(recorder, 0)
    fenced = [MembershipLost("offsets are refused")]

    def on_assign(assignment):
        if fenced:
            raise fenced.pop()

    recorder.on_assign = on_assign
    group.assign(0, 1)
    await_read(recorder, 0, 1)
    assert recorder.events == [("assigned", tps(0)), ("lost", tps(0)), ("assigned", tps(0, 1))]
    assert one.state != "failed"


def test_H8_a_partition_that_is_given_away_during_a_look_up_is_not_taken(group, member, monkeypatch):
    group.assign(0)
    one, recorder = member()
    await_read(recorder, 0)
    wait_for(lambda: one.state == "stable", "a stable member")
    other, honest = uuid.UUID(int=2), group.listing

    def listing(*arguments):
        begin = len(group.heartbeats)
        group.assigned = {WORDS: frozenset({0})}  # another member has it now
        wait_for(lambda: len(group.heartbeats) > begin + 2, "heartbeats during the look-up")
        group.names[other] = "more"
        return honest(*arguments)

    monkeypatch.setattr(one._coordinator, "listing", listing)
    group.assigned = {WORDS: frozenset({0}), other: frozenset({0})}
    wait_for(lambda: other in group.names, "a look-up")
    wait_for(lambda: one.state == "stable", "a stable member")
    assert recorder.owned() == tps(0)
    assert all(other not in (each.owned or {}) for each in group.heartbeats)
