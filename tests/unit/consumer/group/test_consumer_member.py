"""The state machine of a member whose coordinator assigns partitions, with plain values (H5, H7, KIP-848)."""

from __future__ import annotations

import random
import uuid

import pytest

from penstock.consumer.group.consumer_member import ConsumerMember, Interest, Revoke, State, Take
from penstock.wire.api.consumer_group_heartbeat import MemberHeartbeat
from penstock.wire.api.group_member import GroupMember
from penstock.wire.api.heartbeat_answer import HeartbeatAnswer

A, B = uuid.UUID(int=1), uuid.UUID(int=2)
WORDS = Interest(("words",))


def parts(*numbers, topic=A):
    return {topic: frozenset(numbers)} if numbers else {}


def new(**more):
    return ConsumerMember("m", WORDS, rebalance_timeout=300.0, **more)


def beat(member, epoch, assigned=None):
    sent = member.heartbeat()
    member.answered(sent, HeartbeatAnswer(None, epoch, 5.0, assigned))
    return sent


def carry_out(member):
    """Carry out the next step; returns it."""
    match step := member.step():
        case Revoke(partitions):
            member.revoked(partitions)
        case Take(partitions):
            member.taking(partitions)
            member.taken(partitions)
    return step


def stable(*numbers, **more):
    member = new(**more)
    beat(member, 1, parts(*numbers))
    while member.step():
        carry_out(member)
        beat(member, 1)
    assert member.state is State.STABLE
    return member


def test_a_member_joins_with_all_fields_and_takes_what_it_gets():
    member = new(instance_id="i", rack="r", assignor="uniform")
    assert member.state is State.JOINING
    assert member.identity is None
    assert member.sends_now
    assert beat(member, 4, parts(0, 1)) == MemberHeartbeat(
        "m", 0, "i", "r", 300.0, ("words",), None, "uniform", owned={}
    )
    assert member.state is State.RECONCILING
    assert member.identity == GroupMember("m", 4, "i")
    assert not member.sends_now  # it has nothing to acknowledge yet
    assert carry_out(member) == Take(parts(0, 1))
    assert member.sends_now
    assert beat(member, 4) == MemberHeartbeat("m", 4, "i", owned=parts(0, 1))
    assert member.state is State.STABLE
    assert not member.sends_now
    assert beat(member, 4) == MemberHeartbeat("m", 4, "i")


def test_a_member_without_partitions_takes_none():
    member = new()
    beat(member, 1, {})
    assert member.state is State.RECONCILING
    assert carry_out(member) == Take({})
    assert member.state is State.STABLE
    assert not member.sends_now  # there is nothing to acknowledge


def test_H7_what_left_is_revoked_and_acknowledged_before_new_partitions_are_taken():
    member = stable(0, 1, 2)
    beat(member, 1, parts(2, 3))
    assert member.state is State.RECONCILING
    assert carry_out(member) == Revoke(parts(0, 1))
    assert member.step() is None  # others wait for the acknowledgement
    sent = member.heartbeat()
    assert sent.owned == parts(2)
    assert member.step() is None
    member.answered(sent, HeartbeatAnswer(None, 2, 5.0, None))
    assert carry_out(member) == Take(parts(3))
    assert beat(member, 2).owned == parts(2, 3)
    assert member.state is State.STABLE


def test_partitions_that_stay_are_in_no_step():
    member = stable(0, 1, 2, 3)
    beat(member, 2, parts(0, 1))
    assert carry_out(member) == Revoke(parts(2, 3))
    beat(member, 2)
    assert carry_out(member) == Take({})  # an assignment ends with one
    assert member.step() is None
    assert member.state is State.STABLE


def test_the_epoch_may_change_without_an_assignment():
    member = stable(0)
    assert not member.answered(member.heartbeat(), HeartbeatAnswer(None, 1, 5.0, None))
    assert member.answered(member.heartbeat(), HeartbeatAnswer(None, 9, 5.0, None))
    assert member.identity == GroupMember("m", 9)
    assert member.state is State.STABLE


def test_a_heartbeat_that_was_not_answered_is_repeated_with_all_fields_and_all_partitions():
    member = stable(0, 1)
    member.unanswered(member.heartbeat())
    assert member.sends_now
    again = member.heartbeat()
    assert (again.epoch, again.topics, again.rebalance_timeout, again.owned) == (1, ("words",), 300.0, parts(0, 1))


def test_no_partition_is_taken_while_the_coordinator_may_have_given_it_away():
    member = stable(0)
    member.unanswered(member.heartbeat())
    sent = member.heartbeat()  # says that the member owns partition 0 only
    assert sent.owned == parts(0)
    member.unanswered(sent)
    member._target = parts(0, 1)  # of an older answer
    assert member.step() is None
    beat(member, 2, parts(0))
    assert member.step() is None
    assert member.state is State.STABLE


def test_partitions_are_owned_from_before_they_are_read():
    member = stable(0)
    beat(member, 2, parts(0, 1))
    member.taking(member.step().partitions)
    member.unanswered(member.heartbeat())
    assert member.heartbeat().owned == parts(0, 1)


def test_a_recreated_topic_is_revoked_before_the_new_one_is_taken():
    member = stable(0)
    beat(member, 2, parts(0, topic=B))
    assert carry_out(member) == Revoke(parts(0))
    beat(member, 2)
    assert carry_out(member) == Take(parts(0, topic=B))


def test_an_assignment_that_changes_while_it_is_carried_out_is_followed():
    member = stable()
    beat(member, 2, parts(0, 1))
    member.taking(member.step().partitions)
    beat(member, 2, parts(0))  # partition 1 must go again, and is not ours to leave out before it is revoked
    member.taken(parts(0, 1))
    assert beat(member, 2).owned == parts(0, 1)
    assert carry_out(member) == Revoke(parts(1))
    assert beat(member, 3).owned == parts(0)
    assert carry_out(member) == Take({})
    assert member.state is State.STABLE


def test_a_fenced_member_sends_nothing_until_it_joins_again_under_its_id():
    member = stable(0)
    sent = member.heartbeat()
    assert member.fenced(sent)
    assert member.state is State.FENCED
    assert member.identity is None
    assert not member.sends
    assert not member.sends_now
    assert member.step() is None
    member.rejoin()
    assert member.state is State.JOINING
    again = member.heartbeat()
    assert (again.member_id, again.epoch, again.owned, again.topics) == ("m", 0, {}, ("words",))


def test_answers_to_a_membership_that_has_ended_are_ignored():
    member = stable(0)
    sent = member.heartbeat()
    member.fenced()  # by another answer: that to a request for offsets
    member.rejoin()
    assert not member.answered(sent, HeartbeatAnswer(None, 5, 5.0, parts(0)))
    assert not member.fenced(sent)
    assert member.state is State.JOINING
    assert member.epoch == 0


def test_a_coordinator_may_name_the_member():
    member = new()
    member.answered(member.heartbeat(), HeartbeatAnswer("theirs", 1, 5.0, {}))
    assert member.heartbeat().member_id == "theirs"


def test_a_changed_subscription_is_sent_once():
    member = stable(0)
    member.subscribe(Interest(("words", "more")))
    assert member.sends_now
    sent = beat(member, 2)
    assert (sent.topics, sent.owned, sent.rebalance_timeout) == (("words", "more"), None, None)
    assert not member.sends_now
    assert beat(member, 2).topics is None


def test_a_pattern_is_sent_with_an_empty_list_of_names():
    member = ConsumerMember("m", Interest((), "w.*"), rebalance_timeout=1.0)
    sent = beat(member, 1, {})
    assert (sent.topics, sent.pattern) == ((), "w.*")
    assert beat(member, 1).pattern is None


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_a_member_leaves_and_a_static_one_says_that_it_returns(instance_id, epoch):
    member = stable(0, instance_id=instance_id)
    assert member.leave() == MemberHeartbeat("m", epoch, instance_id)
    assert member.state is State.LEFT
    assert not member.sends
    assert member.identity is None
    assert member.leave() is None


def test_a_member_that_the_coordinator_may_know_leaves_before_it_has_joined():
    assert new().leave() is None
    member = new()
    member.unanswered(member.heartbeat())
    assert member.leave() == MemberHeartbeat("m", -1)


def test_a_fenced_member_has_left_already():
    member = stable(0)
    member.fenced()
    assert member.leave() is None


class Coordinator:
    """Assigns partitions to members as brokers do: a partition is given to another member when a heartbeat says that
    its owner does not have it."""

    def __init__(self, count):
        self.holders = dict.fromkeys(range(count))
        self.target = {}
        self.epochs = {}

    def answer(self, name, sent):
        mine = {number for number, holder in self.holders.items() if holder == name}
        owned = mine if sent.owned is None else {n for each in sent.owned.values() for n in each}
        for number in mine - owned:
            if self.target.get(number) != name:
                self.holders[number] = None
        for number, wanted in self.target.items():
            if wanted == name and self.holders[number] is None:
                self.holders[number] = name
        self.epochs[name] = self.epochs.get(name, 0) + 1
        has = [n for n, holder in self.holders.items() if holder == name and self.target.get(n) == name]
        return HeartbeatAnswer(None, self.epochs[name], 5.0, parts(*has))


@pytest.mark.parametrize("seed", range(40))
def test_H8_no_partition_is_read_by_two_members_whatever_is_lost(seed):
    draw = random.Random(seed)
    coordinator, names = Coordinator(6), ("x", "y", "z")
    members = {name: ConsumerMember(name, WORDS, rebalance_timeout=1.0) for name in names}
    reads = {name: set() for name in names}
    flying = {}
    for turn in range(600):
        name = draw.choice(names)
        member, mine = members[name], reads[name]
        action = draw.random()
        if action < 0.05 and turn < 500:
            coordinator.target = {number: draw.choice(names) for number in range(6)}
        elif action < 0.5 and name not in flying:
            sent = member.heartbeat()
            received = draw.random() < 0.9 or turn > 500
            flying[name] = sent, coordinator.answer(name, sent) if received else None
        elif action < 0.8 and name in flying:
            sent, answer = flying.pop(name)
            if answer is None or (draw.random() < 0.1 and turn < 500):
                member.unanswered(sent)
            else:
                member.answered(sent, answer)
        else:
            match member.step():
                case Revoke(partitions):
                    mine -= {n for each in partitions.values() for n in each}
                    member.revoked(partitions)
                case Take(partitions):
                    member.taking(partitions)
                    mine |= {n for each in partitions.values() for n in each}
                    member.taken(partitions)
        held = [number for each in reads.values() for number in each]
        assert len(held) == len(set(held)), f"turn {turn}: {reads}"
    assert sorted(held) == sorted(coordinator.target)
