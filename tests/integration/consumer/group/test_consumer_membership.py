"""Members of a group whose partitions a real broker assigns (KIP-848): joining, leaving, commits, lost memberships."""

from __future__ import annotations

import contextlib
import functools
import uuid

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from fixtures.members import Made, await_shared, partitions, wait_for
from penstock.consumer.group.coordinator import Coordinator
from penstock.consumer.subscription import AllowTopics, FilteredTopics, NamedTopics
from penstock.errors import CommitRefused
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.consumer_group_heartbeat import MemberHeartbeat, ask_group_heartbeat
from penstock.wire.api.group_admin import GroupAdmin
from penstock.wire.api.group_member import GroupMember, MembershipLost, Rebalancing
from penstock.wire.api.offset_commit import ask_commit
from penstock.wire.api.offset_fetch import ask_committed
from support.group_configs import set_session

DEADLINE = 60.0
CONSUMER = {"group.protocol": "consumer"}


@pytest.fixture
def member(member):
    """The same, in the protocol `consumer`."""
    return functools.partial(member, **CONSUMER)


def asked(made, question):
    """The coordinator's answer to a question about the group of this member."""
    coordinator = Coordinator(made.config.client, made.config.group, lambda seconds: False, lambda: None)
    return coordinator.ask(coordinator.attempts("asking", DEADLINE), question)


def describe(cluster, group):
    return GroupAdmin(cluster.config).describe(group)


def test_H5_one_to_three_to_two_members(member, topic, group, cluster):
    name = topic(partitions=12)
    everything = partitions(name, 12)
    first = member({name: 2})
    await_shared([first], everything)
    assert sorted(first.recorder.partitions.values()) == [0] * 6 + [1] * 6
    second, third = member({name: 1}), member({name: 1})
    await_shared([first, second, third], everything)
    assert [len(each.has) for each in (first, second, third)] == [4, 4, 4]  # by members
    second.close()
    assert second.recorder.partitions == {}
    await_shared([first, third], everything)
    assert first.recorder.threads == {f"penstock-group-{group}"}
    assert {kind for each in (first, second, third) for kind, _ in each.recorder.events} == {"assigned", "revoked"}
    described = describe(cluster, group)
    assert (described.kind, len(described.members)) == ("consumer", 2)
    first.close()
    third.close()
    wait_for(lambda: describe(cluster, group).state.lower() == "empty", "an empty group")


def test_H7_only_partitions_that_move_are_revoked(member, topic):
    name = topic(partitions=8)
    everything = partitions(name, 8)
    first = member({name: 2})
    await_shared([first], everything)
    streams = dict(first.recorder.partitions)
    second = member({name: 1})
    await_shared([first, second], everything)
    revoked = {tp for kind, tps in first.recorder.events if kind == "revoked" for tp in tps}
    assert revoked == second.has
    assert first.recorder.partitions == {tp: stream for tp, stream in streams.items() if tp not in revoked}
    second.close()
    await_shared([first], everything)
    assert {tp for kind, tps in first.recorder.events if kind == "revoked" for tp in tps} == revoked


def test_H15_a_member_commits_with_its_epoch_and_what_it_owns(member, topic, cluster, group):
    name = topic(partitions=2)
    one = member({name: 1})
    await_shared([one], partitions(name, 2))
    tp = TopicPartition(name, 1)
    one.membership.commit({tp: 7}, {tp: 3})
    assert cluster.commits(group, [tp], member=one.membership.offset_reader)[tp].offset == 7
    with pytest.raises(CommitRefused, match="nowhere-0 is not assigned to it"):
        one.membership.commit({TopicPartition("nowhere", 0): 1})
    old = GroupMember(one.membership.member_id, one.membership.generation - 1)
    unknown = GroupMember("nobody", 1)
    with pytest.raises(Rebalancing, match="another epoch"):
        asked(one, lambda connection: ask_committed(connection, group, [tp], DEADLINE, member=old))
    with pytest.raises(MembershipLost):
        asked(one, lambda connection: ask_committed(connection, group, [tp], DEADLINE, member=unknown))
    with pytest.raises(MembershipLost):
        asked(one, lambda connection: ask_commit(connection, group, {tp: 9}, {}, {}, DEADLINE, unknown))
    one.close()
    with pytest.raises(CommitRefused):
        one.membership.commit({tp: 8})
    assert cluster.committed(group, [tp]) == {tp: 7}


def test_H15_commits_succeed_while_epochs_change(member, topic, cluster, group):
    name = topic(partitions=6)
    first = member({name: 1})
    await_shared([first], partitions(name, 6))
    before = first.membership.generation
    others = []
    for _ in range(3):
        others.append(member({name: 1}))
        for _ in range(20):
            tp = min(first.recorder.partitions)  # the member keeps one partition
            with contextlib.suppress(CommitRefused):  # another one than this
                first.membership.commit({tp: 1})
    await_shared([first, *others], partitions(name, 6))
    assert first.membership.generation > before
    assert not any(kind == "lost" for kind, _ in first.recorder.events)


def test_H5_a_static_member_that_restarts_gets_its_partitions_back(member, topic):
    name = topic(partitions=4)
    static = {"group.instance.id": "one"}
    first, other = member({name: 1}, **static), member({name: 1}, **{"group.instance.id": "two"})
    await_shared([first, other], partitions(name, 4))
    had, events = first.has, len(other.recorder.events)
    first.close()
    again = member({name: 1}, **static)
    await_shared([again, other], partitions(name, 4))
    assert again.has == had
    assert len(other.recorder.events) == events  # it has noticed nothing


def test_H5_a_static_member_takes_over_when_the_session_of_its_predecessor_ends(member, topic, kafka, group):
    set_session(kafka, group, 1000)
    name = topic(partitions=2)
    killed = Made(kafka, group, NamedTopics({name: 1}), {"group.instance.id": "one", **CONSUMER})
    killed.membership.start()
    await_shared([killed], partitions(name, 2))
    killed.membership._heartbeats.close(DEADLINE)
    killed.close(leave=False)
    again = member({name: 1}, **{"group.instance.id": "one"})
    await_shared([again], partitions(name, 2))


def test_H5_a_member_that_the_coordinator_has_removed_joins_again(member, topic, group):
    name = topic(partitions=2)
    one = member({name: 1})
    await_shared([one], partitions(name, 2))
    leaving = MemberHeartbeat(one.membership.member_id, -1)
    asked(one, lambda connection: ask_group_heartbeat(connection, group, leaving, DEADLINE))
    # An assignment without partitions may come before the first one that has some.
    kinds = wait_for(
        lambda: len(kinds := [kind for kind, tps in one.recorder.events if tps]) == 3 and kinds, "another assignment"
    )
    assert kinds == ["assigned", "lost", "assigned"]


def test_H5_a_member_that_is_silent_for_its_session_loses_its_partitions(member, topic, kafka, group):
    set_session(kafka, group, 1000)
    name = topic(partitions=4)
    first, second = member({name: 1}), member({name: 1})
    await_shared([first, second], partitions(name, 4))
    with first.membership._changed:  # its heartbeat thread cannot go on
        wait_for(lambda: second.has == partitions(name, 4), "the other member gets all partitions")
    await_shared([first, second], partitions(name, 4))
    assert "lost" in [kind for kind, _ in first.recorder.events]


def test_H3_a_pattern_is_evaluated_by_the_coordinator(member, topic, kafka):
    prefix = f"p-{uuid.uuid4().hex[:8]}"
    names = [f"{prefix}-{number}" for number in range(2)]
    for name in names:
        kafka.create_topic(name, 2)
    topic()  # another one
    one = member(FilteredTopics(AllowTopics(f"{prefix}-.*"), 2))
    await_shared([one], partitions(names[0], 2) | partitions(names[1], 2))
    assert one.membership._interest().pattern == f"(?:{prefix}-.*)"


def test_H3_a_filter_without_a_pattern_for_brokers_joins_before_it_matches_a_topic(member, kafka):
    prefix = f"p-{uuid.uuid4().hex[:8]}"
    one = member(FilteredTopics(AllowTopics(f"(?!x){prefix}.*")), **{"metadata.max.age.ms": 200})
    wait_for(lambda: one.membership.state == "stable", "a stable member")
    assert one.recorder.partitions == {}
    kafka.create_topic(f"{prefix}-1", 2)
    await_shared([one], partitions(f"{prefix}-1", 2))


def test_an_assignor_that_the_brokers_do_not_have_is_named(kafka, topic, group):
    made = Made(kafka, group, NamedTopics({topic(): 1}), {"group.remote.assignor": "best", **CONSUMER})
    made.membership.start()
    wait_for(lambda: made.recorder.errors, "an error")
    assert "UNSUPPORTED_ASSIGNOR" in str(made.recorder.errors[0])
    assert "group.remote.assignor" in str(made.recorder.errors[0])
    made.close()


def test_H5_new_partitions_are_assigned(member, topic, kafka):
    name = topic(partitions=1)
    one = member({name: 1})
    await_shared([one], partitions(name, 1))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_partitions([NewPartitions(name, 3)])[name].result(DEADLINE)
    await_shared([one], partitions(name, 3))
    assert not any(kind == "revoked" for kind, _ in one.recorder.events)
