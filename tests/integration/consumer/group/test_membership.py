"""A member of a group on a real broker: joining, leaving, losing the membership, and commits."""

import functools
import random
import threading
import time
import uuid

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from fixtures.members import Made, await_shared, partitions, wait_for
from penstock.consumer.subscription import AllowTopics, FilteredTopics, NamedTopics
from penstock.errors import BrokerError, BrokerUnavailable, CommitRefused, NoGroupOffset, UnknownTopic
from penstock.model.topic_partition import TopicPartition


@pytest.mark.parametrize("tells", ["true", "auto"])
def test_H5_one_to_three_to_two_members(member, topic, group, tells):
    """Only with user data do members know that all of them have just started."""
    name = topic(partitions=12)
    everything = partitions(name, 12)

    def join():
        return member({name: 1}, **{"group.user.data": tells})

    first = join()
    await_shared([first], everything)
    assert first.recorder.assignments[-1].fresh == (tells == "true")
    second, third = join(), join()
    await_shared([first, second, third], everything)
    assert [len(each.has) for each in (first, second, third)] == [4, 4, 4]
    assert not any(each.recorder.assignments[-1].fresh for each in (first, second, third))
    second.close()
    assert second.recorder.partitions == {}
    await_shared([first, third], everything)
    assert first.recorder.threads == {f"penstock-group-{group}"}
    assert {kind for kind, _ in first.recorder.events} == {"assigned", "revoked"}


def test_H15_a_member_commits_what_it_owns_and_nothing_else(member, topic, cluster, group):
    name = topic(partitions=2)
    one = member({name: 1})
    await_shared([one], partitions(name, 2))
    tp = TopicPartition(name, 1)
    one.membership.commit({tp: 7}, {tp: 3})
    found = cluster.commits(group, [tp])[tp]
    assert (found.offset, found.leader_epoch) == (7, 3)
    with pytest.raises(CommitRefused, match="nowhere-0 is not assigned to it"):
        one.membership.commit({TopicPartition("nowhere", 0): 1})
    one.close()
    with pytest.raises(CommitRefused):
        one.membership.commit({tp: 8})
    assert cluster.committed(group, [tp]) == {tp: 7}


COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}


def test_H7_cooperative_members_continue_with_partitions_that_stay(member, topic):
    name = topic(partitions=9)
    everything = partitions(name, 9)
    first = member({name: 2}, **COOPERATIVE)
    await_shared([first], everything)
    streams = dict(first.recorder.partitions)
    second = member({name: 1}, **COOPERATIVE)
    await_shared([first, second], everything)
    assert [len(first.has), len(second.has)] == [6, 3]  # by threads
    # Only partitions that moved were revoked, and the others kept their streams.
    revoked = {tp for kind, tps in first.recorder.events if kind == "revoked" for tp in tps}
    assert revoked == second.has
    assert first.recorder.partitions == {tp: stream for tp, stream in streams.items() if tp not in revoked}
    second.close()
    await_shared([first], everything)
    assert {tp for kind, tps in first.recorder.events if kind == "revoked" for tp in tps} == revoked


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky", "penstock-fixed"])
def test_H6_every_member_gets_the_threads_of_the_whole_group(member, topic, assignor):
    name = topic(partitions=6)
    members = [member({name: 2}, **{"partition.assignment.strategy": assignor, "consumer.id": f"c{i}"}) for i in (1, 2)]
    await_shared(members, partitions(name, 6))
    # Members that have just joined may have seen a generation of their own before.
    wait_for(
        lambda: (
            len({m.membership.generation for m in members}) == 1
            and all(m.membership.state == "stable" for m in members)
        ),
        "one generation",
    )
    assigned = [m.recorder.assignments[-1] for m in members]
    assert assigned[0].threads_of_group == assigned[1].threads_of_group
    assert [a.leader for a in assigned].count(True) == 1
    for each, a in zip(members, assigned, strict=True):
        for tp, stream in a.partitions.items():
            assert a.threads_of_group[name][tp.partition] == f"{each.consumer_id}-{stream}"
    assert set(assigned[0].threads_of_group[name].values()) == {"c1-0", "c1-1", "c2-0", "c2-1"}


def test_H5_static_members_get_their_partitions_back(member, topic, group):
    name = topic(partitions=4)
    static = {"group.instance.id": "one"}
    first, other = member({name: 1}, **static), member({name: 1}, **{"group.instance.id": "two"})
    await_shared([first, other], partitions(name, 4))
    had, generation, events = first.has, other.membership.generation, len(other.recorder.events)
    first.close()
    again = member({name: 1}, **static)
    await_shared([again, other], partitions(name, 4))
    assert again.has == had
    assert again.membership.generation == generation
    assert not again.recorder.assignments[-1].fresh
    assert len(other.recorder.events) == events  # it has noticed nothing


def test_H5_a_static_member_whose_place_is_taken_ends_with_an_error(topic, kafka, group, member):
    name = topic(partitions=2)
    old = Made(kafka, group, NamedTopics({name: 1}), {"group.instance.id": "one"})
    old.membership.start()
    await_shared([old], partitions(name, 2))
    new = member({name: 1}, **{"group.instance.id": "one"})
    await_shared([new], partitions(name, 2))
    wait_for(lambda: old.recorder.errors, "an error")
    assert "group.instance.id" in str(old.recorder.errors[0])
    assert old.recorder.events[-1][0] == "lost"
    assert old.membership.state == "failed"
    with pytest.raises(CommitRefused):
        old.membership.commit({TopicPartition(name, 0): 1})
    old.close()


def test_H5_new_partitions_and_topics_are_assigned(member, topic, kafka):
    name, later = topic(partitions=2), f"later-{uuid.uuid4().hex[:8]}"
    one, two = (member({name: 1, later: 1}, **{"metadata.max.age.ms": 300}) for _ in range(2))
    await_shared([one, two], partitions(name, 2))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_partitions([NewPartitions(name, 5)])[name].result(30)
    await_shared([one, two], partitions(name, 5))
    kafka.create_topic(later, 2)
    await_shared([one, two], partitions(name, 5) | partitions(later, 2))
    kafka.delete_topic(later)
    await_shared([one, two], partitions(name, 5))


def test_H3_a_topic_that_matches_a_filter_is_added_and_removed_when_it_is_deleted(member, kafka):
    prefix = f"f-{uuid.uuid4().hex[:8]}"
    filtered = FilteredTopics(AllowTopics(f"{prefix}-.*"), 2)
    one = member(filtered, **{"metadata.max.age.ms": 300})
    wait_for(lambda: one.membership.state == "stable", "a member without partitions")
    assert one.recorder.assignments[-1].partitions == {}
    kafka.create_topic(f"{prefix}-a", 2)
    await_shared([one], partitions(f"{prefix}-a", 2))
    two = member(filtered, **{"metadata.max.age.ms": 300})
    kafka.create_topic(f"{prefix}-b", 4)
    kafka.create_topic(f"x{prefix}-b", 4)
    everything = partitions(f"{prefix}-a", 2) | partitions(f"{prefix}-b", 4)
    await_shared([one, two], everything)
    kafka.delete_topic(f"{prefix}-a")
    await_shared([one, two], partitions(f"{prefix}-b", 4))


def failing(kafka, group, name, errors, **config):
    """A member whose first attempts at an assignment fail."""
    made = Made(kafka, group, NamedTopics({name: 1}), {"rebalance.backoff.ms": 10, **config})
    tries = []

    def fail(assignment):
        tries.append(assignment)
        if len(tries) <= len(errors):
            raise errors[len(tries) - 1]

    made.recorder.on_assign = fail
    made.membership.start()
    return made, tries


def test_H7_a_failed_assignment_is_retried(kafka, topic, group):
    name = topic(partitions=2)
    made, tries = failing(kafka, group, name, [RuntimeError("no"), BrokerUnavailable("no")])
    try:
        await_shared([made], partitions(name, 2))
        assert len(tries) == 3
        assert len({id(each) for each in tries}) == 1  # the same assignment, not another rebalance
        assert made.recorder.events == [("assigned", sorted(partitions(name, 2)))]
    finally:
        made.close()
    assert made.recorder.errors == []


@pytest.mark.parametrize(
    ("errors", "tries"), [([BrokerUnavailable("no")] * 3, 3), ([NoGroupOffset("g", [("t", 0)])] * 3, 1)]
)
def test_H7_an_assignment_that_keeps_failing_ends_the_membership(kafka, topic, group, member, errors, tries):
    name = topic(partitions=2)
    made, tried = failing(kafka, group, name, errors, **{"rebalance.max.retries": 2})
    wait_for(lambda: made.recorder.errors, "an error")
    assert made.recorder.errors == errors[:1]
    assert len(tried) == tries
    assert made.recorder.events == []
    made.close()
    await_shared(
        [member({name: 1})], partitions(name, 2)
    )  # it has left: the group does not wait for the end of its session


def test_a_rebalance_can_be_requested(member, topic):
    name = topic(partitions=4)
    one, two = member({name: 1}), member({name: 1})
    await_shared([one, two], partitions(name, 4))
    for each in (one, two):  # one of them leads, the other does not
        before = {m: m.membership.rebalances for m in (one, two)}
        each.membership.rejoin("a test")
        wait_for(lambda: all(m.membership.rebalances > n for m, n in before.items()), "a rebalance of all")  # noqa: B023
    await_shared([one, two], partitions(name, 4))
    assert one.membership.rebalance_seconds > 0


def test_H15_commits_go_through_while_others_come_and_go(member, topic, cluster, group):
    """Partitions that stay are read throughout, so they are committed in every state of a rebalance."""
    name = topic(partitions=4)
    stays = TopicPartition(name, 0)
    one = member({name: 1}, **COOPERATIVE)
    await_shared([one], partitions(name, 4))
    ended, problems, count = threading.Event(), [], 0

    def commit():
        nonlocal count
        while not ended.is_set():
            try:
                one.membership.commit({stays: count})
                count += 1
            except Exception as error:
                problems.append(error)

    committing = threading.Thread(target=commit)
    committing.start()
    try:
        for _ in range(3):
            two = member({name: 1}, **COOPERATIVE)
            await_shared([one, two], partitions(name, 4))
            two.close()
            await_shared([one], partitions(name, 4))
    finally:
        ended.set()
        committing.join(60)
    assert problems == []
    assert one.membership.rebalances > 6
    assert cluster.committed(group, [stays]) == {stays: count - 1}


@pytest.mark.parametrize(
    ("config", "hint"),
    [
        ({"partition.assignment.strategy": "roundrobin"}, "partition.assignment.strategy"),
        ({"session.timeout.ms": 100, "heartbeat.interval.ms": 30}, "session.timeout.ms"),
    ],
)
def test_settings_that_the_coordinator_refuses_raise_an_error_with_a_hint(member, topic, kafka, group, config, hint):
    name = topic(partitions=1)
    await_shared([member({name: 1})], partitions(name, 1))
    other = Made(kafka, group, NamedTopics({name: 1}), config)
    other.membership.start()
    wait_for(lambda: other.recorder.errors, "an error")
    other.close()
    (error,) = other.recorder.errors
    assert isinstance(error, BrokerError)
    assert hint in str(error)
    assert group in str(error)


OTHER_EAGER = [pytest.param(name, marks=pytest.mark.extended) for name in ("roundrobin", "penstock-fixed")]


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky", *OTHER_EAGER])
def test_H8_no_partition_ever_has_two_owners(kafka, topic, group, assignor):
    """Members come, go and ask for rebalances, faster than the group can settle."""
    name = topic(partitions=7)
    everything = partitions(name, 7)
    chance = random.Random(assignor)
    lock, owners, problems, made = threading.Lock(), {}, [], []

    def begin(one, assignment):
        with lock:
            for tp in assignment.partitions:
                if owners.setdefault(tp, one) is not one:
                    problems.append(f"{one} was given {tp}, which {owners[tp]} has")

    def end(one, revoked, lost):
        with lock:
            for tp in revoked:
                if owners.pop(tp, None) is not one:
                    problems.append(f"{one} revoked {tp} and did not have it")

    def start():
        one = Made(kafka, group, NamedTopics({name: chance.randint(1, 3)}), {"partition.assignment.strategy": assignor})
        one.recorder.on_assign = functools.partial(begin, one)
        one.recorder.on_revoke = functools.partial(end, one)
        one.membership.start()
        made.append(one)

    try:
        start()
        for _ in range(25):
            live = [one for one in made if one.membership.state != "closed"]
            match chance.choice(["start", "start", "close", "rejoin"]):
                case "start" if len(live) < 5:
                    start()
                case "close" if len(live) > 1:
                    chance.choice(live).close()
                case _:
                    chance.choice(live).membership.rejoin("chance")
            time.sleep(chance.choice([0, 0.02, 0.1, 0.3]))
        live = [one for one in made if one.membership.state != "closed"]
        wait_for(lambda: sorted(tp for one in live for tp in one.has) == sorted(everything), f"one owner each: {live}")
    finally:
        for one in made:
            one.close()
    assert problems == []
    assert owners == {}
    assert [error for one in made for error in one.recorder.errors] == []
    assert not any(kind == "lost" for one in made for kind, _ in one.recorder.events)


def test_H8_a_partition_that_went_to_another_member_is_not_committed_by_its_old_owner(member, topic, cluster, group):
    name = topic(partitions=2)
    one = member({name: 1})
    await_shared([one], partitions(name, 2))
    two = member({name: 1})
    await_shared([one, two], partitions(name, 2))
    (moved,) = two.has
    two.membership.commit({moved: 20})
    with pytest.raises(CommitRefused, match=f"{moved} is not assigned to it"):
        one.membership.commit({moved: 10})
    assert cluster.committed(group, [moved]) == {moved: 20}


def test_a_deleted_topic_is_named_by_a_commit_and_the_others_are_committed(member, topic, kafka, cluster, group):
    gone, there = TopicPartition(topic(), 0), TopicPartition(topic(), 0)
    one = member({gone.topic: 1, there.topic: 1})
    await_shared([one], {gone, there})
    kafka.delete_topic(gone.topic)
    with pytest.raises(UnknownTopic, match=f"partition {gone} does not exist: so group '{group}' cannot commit"):
        one.membership.commit({gone: 4, there: 6})
    assert cluster.committed(group, [there]) == {there: 6}


def test_F23_a_negative_offset_is_refused_and_nothing_to_commit_is_nothing(topic, kafka, group):
    one = Made(kafka, group, NamedTopics({"t": 1}), {})
    one.membership.commit({})
    with pytest.raises(ValueError, match="offset -2 of t-1"):
        one.membership.commit({TopicPartition("t", 0): 3, TopicPartition("t", 1): -2})
    with pytest.raises(CommitRefused, match="not a member"):
        one.membership.commit({TopicPartition("t", 0): 3})
