"""The assignors (H6, F13): rules that hold for every group, and a few groups written by hand."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.consumer.group.assignors import (
    COOPERATIVE_STICKY,
    FIXED,
    RANGE,
    ROUND_ROBIN,
    Member,
    Thread,
    assign,
    assign_threads,
    divide,
    thread_id,
)
from penstock.model.reader_index import reader_index
from penstock.model.topic_partition import TopicPartition

NAMES = (RANGE, ROUND_ROBIN, COOPERATIVE_STICKY, FIXED)
TOPICS = ("a", "b", "c")

clusters = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 20), min_size=1)


def tps(topic, *numbers):
    return [TopicPartition(topic, number) for number in numbers]


def all_partitions(cluster):
    return [TopicPartition(topic, number) for topic, count in cluster.items() for number in range(count)]


subscriptions = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 4))


@st.composite
def groups(draw):
    """Members with arbitrary subscriptions and numbers of streams."""
    count = draw(st.integers(1, 6))
    order = draw(st.permutations(range(count)))
    return [
        Member(
            f"m{i}",
            f"c{order[i]}",
            draw(subscriptions),
            instance_id=draw(st.sampled_from([None, None, f"i{order[i]}"])),
        )
        for i in range(count)
    ]


@st.composite
def equal_groups(draw):
    """Members that subscribe to the same topics; each has a number of streams that is the same for all topics."""
    count = draw(st.integers(1, 6))
    topics = draw(st.sets(st.sampled_from(TOPICS), min_size=1))
    return [Member(f"m{i}", f"c{i}", dict.fromkeys(topics, draw(st.integers(1, 4)))) for i in range(count)]


def sorted_threads(members, topic):
    ordered = sorted(members, key=lambda m: (m.instance_id is None, m.instance_id or m.consumer_id))
    return [Thread(m.member_id, i) for m in ordered for i in range(m.threads.get(topic, 0))]


def divided(name, members, cluster):
    """The assignment if each member divides its own partitions."""
    given = assign(name, members, cluster)
    return {
        tp: Thread(m.member_id, stream)
        for m in members
        for tp, stream in divide(name, m.threads, given[m.member_id], {}).items()
    }


# --- for every assignor -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@given(members=groups(), cluster=clusters)
def test_H6_every_partition_goes_once_to_a_thread_of_a_member_that_subscribes(name, members, cluster):
    threads = assign_threads(name, members, cluster)
    by_id = {m.member_id: m for m in members}
    assert set(threads) == {tp for tp in all_partitions(cluster) if any(tp.topic in m.threads for m in members)}
    assert all(0 <= thread.stream < by_id[thread.member_id].threads[tp.topic] for tp, thread in threads.items())
    whole = assign(name, members, cluster)
    assert set(whole) == set(by_id)
    assert {tp: m for m, each in whole.items() for tp in each} == {tp: t.member_id for tp, t in threads.items()}
    assert sum(map(len, whole.values())) == len(threads)


@pytest.mark.parametrize("name", NAMES)
@given(members=groups(), cluster=clusters, data=st.data())
def test_H6_the_order_in_which_members_come_does_not_matter(name, members, cluster, data):
    shuffled = data.draw(st.permutations(members))
    assert assign_threads(name, shuffled, cluster) == assign_threads(name, members, cluster)


@pytest.mark.parametrize("name", NAMES)
@given(threads=st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 4), min_size=1), data=st.data())
def test_H6_what_any_leader_gives_is_divided_over_our_own_streams_evenly(name, threads, data):
    possible = [TopicPartition(topic, number) for topic in threads for number in range(12)]
    mine = data.draw(st.sets(st.sampled_from(possible)))
    found = divide(name, threads, mine, {})
    assert set(found) == mine
    assert all(0 <= stream < threads[tp.topic] for tp, stream in found.items())
    if name != ROUND_ROBIN:  # which is even over all topics, if they have the same streams
        for topic, count in threads.items():
            loads = Counter(stream for tp, stream in found.items() if tp.topic == topic)
            sizes = [loads[i] for i in range(count)]
            assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("name", NAMES)
def test_a_group_without_members_and_a_topic_without_partitions(name):
    assert assign(name, [], {"a": 3}) == {}
    assert assign(name, [Member("m", "c", {})], {"a": 3}) == {"m": []}
    assert assign(name, [Member("m", "c", {"a": 2, "unknown": 1})], {"a": 0}) == {"m": []}
    assert divide(name, {"a": 2}, [], {}) == {}


def test_an_unknown_assignor_is_an_error():
    with pytest.raises(KeyError):
        assign("sticky", [], {})
    with pytest.raises(ValueError, match="'sticky'"):
        divide("sticky", {}, [], {})


def test_H4_a_thread_id_begins_with_the_consumer_id():
    assert thread_id("group_host-1-abcd", 3) == "group_host-1-abcd-3"


# --- range ------------------------------------------------------------------------------------------------------------


@given(members=groups(), cluster=clusters)
def test_H6_range_is_sorted_partitions_over_sorted_threads_the_first_take_the_remainder(members, cluster):
    found = assign_threads(RANGE, members, cluster)
    for topic, count in cluster.items():
        threads = sorted_threads(members, topic)
        if threads:
            each, extra = divmod(count, len(threads))
            expected = [thread for i, thread in enumerate(threads) for _ in range(each + (i < extra))]
            assert [found[tp] for tp in tps(topic, *range(count))] == expected


@given(members=groups(), cluster=clusters)
def test_H6_range_over_threads_equals_the_division_by_members(members, cluster):
    assert divided(RANGE, members, cluster) == assign_threads(RANGE, members, cluster)


def test_H6_range_drawn_by_hand():
    # The example of Kafka's old documentation: 5 partitions, two consumers with two threads each.
    members = [Member("m1", "c1", {"t": 2}), Member("m2", "c2", {"t": 2})]
    assert assign(RANGE, members, {"t": 5}) == {"m1": tps("t", 0, 1, 2), "m2": tps("t", 3, 4)}
    assert divide(RANGE, {"t": 2}, tps("t", 0, 1, 2), {}) == dict(zip(tps("t", 0, 1, 2), (0, 0, 1), strict=True))


# --- roundrobin -------------------------------------------------------------------------------------------------------


@given(members=equal_groups(), cluster=clusters)
def test_H6_roundrobin_assigns_all_partitions_to_all_threads_in_turn(members, cluster):
    found = assign_threads(ROUND_ROBIN, members, cluster)
    topics = members[0].threads
    threads = sorted_threads(members, next(iter(topics)))
    dealt = [tp for tp in sorted(all_partitions(cluster)) if tp.topic in topics]
    assert found == {tp: threads[i % len(threads)] for i, tp in enumerate(dealt)}


@given(members=equal_groups(), cluster=clusters)
def test_H6_roundrobin_over_threads_equals_the_division_by_members(members, cluster):
    assert divided(ROUND_ROBIN, members, cluster) == assign_threads(ROUND_ROBIN, members, cluster)


def test_H6_roundrobin_skips_members_that_do_not_subscribe_as_in_java():
    members = [
        Member("m0", "c0", {"t0": 1}),
        Member("m1", "c1", {"t0": 1, "t1": 1}),
        Member("m2", "c2", {"t0": 1, "t1": 1, "t2": 1}),
    ]
    assert assign(ROUND_ROBIN, members, {"t0": 1, "t1": 2, "t2": 3}) == {
        "m0": tps("t0", 0),
        "m1": tps("t1", 0),
        "m2": [*tps("t1", 1), *tps("t2", 0, 1, 2)],
    }


# --- F13 --------------------------------------------------------------------------------------------------------------


@given(members=groups(), cluster=clusters)
def test_F13_a_topics_partitions_go_to_its_threads_in_turn_from_a_first_thread_of_its_own(members, cluster):
    found = assign_threads(FIXED, members, cluster)
    for tp, thread in found.items():
        threads = sorted_threads(members, tp.topic)
        assert thread == threads[reader_index(tp.topic, tp.partition, len(threads))]


def test_F13_the_topics_name_decides_the_first_thread():
    members = [Member(f"m{i}", f"c{i}", {"aa": 1, "ab": 1}) for i in range(2)]
    starts = {topic: assign_threads(FIXED, members, {topic: 1})[TopicPartition(topic, 0)] for topic in ("aa", "ab")}
    assert starts["aa"] != starts["ab"]


# --- cooperative-sticky -----------------------------------------------------------------------------------------------


def after(members, cluster, generation):
    """The members as they join the next time: each owns its partitions and claims them."""
    threads = assign_threads(COOPERATIVE_STICKY, members, cluster)
    return [
        dataclasses.replace(
            m,
            owned=tuple(sorted(tp for tp, t in threads.items() if t.member_id == m.member_id)),
            streams={tp: t.stream for tp, t in threads.items() if t.member_id == m.member_id},
            generation=generation,
        )
        for m in members
    ]


def settled(members, cluster, generation=1):
    """Join repeatedly, as cooperative members do, until no member has to revoke anything; returns how often."""
    for rounds in range(1, 6):
        then = after(members, cluster, generation + rounds)
        if all(set(old.owned) <= set(new.owned) for old, new in zip(members, then, strict=True)):
            return then, rounds
        members = then
    raise AssertionError("it does not come to rest")


def held(members):
    return {m.member_id: set(m.owned) for m in members}


def is_balanced(members, partitions):
    """No thread has two more than another: each member has between floor and ceiling per thread."""
    whole = sum(m.weight for m in members)
    least, most = partitions // whole, -(-partitions // whole)
    return all(m.weight * least <= len(m.owned) <= m.weight * most for m in members)


@given(members=equal_groups(), cluster=clusters)
def test_H6_sticky_is_balanced_within_one_per_thread_from_the_start(members, cluster):
    subscribed = {topic: count for topic, count in cluster.items() if topic in members[0].threads}
    threads = assign_threads(COOPERATIVE_STICKY, members, cluster)
    assert len(threads) == sum(subscribed.values())
    assert is_balanced(after(members, cluster, 1), len(threads))
    for topic in subscribed:
        for m in members:
            streams = Counter(t.stream for tp, t in threads.items() if (tp.topic, t.member_id) == (topic, m.member_id))
            sizes = [streams[i] for i in range(m.threads[topic])]
            assert max(sizes) - min(sizes) <= 1


@given(members=groups(), cluster=clusters)
def test_H6_sticky_without_a_change_moves_nothing(members, cluster):
    then = after(members, cluster, 1)
    again = after(then, cluster, 2)
    assert held(again) == held(then)
    assert [m.streams for m in again] == [m.streams for m in then]


@given(members=equal_groups(), cluster=clusters, data=st.data())
def test_H6_sticky_after_members_come_and_go_is_balanced_and_moves_a_minimum(members, cluster, data):
    before, _ = settled(members, cluster)
    stay = data.draw(st.lists(st.sampled_from(before), unique_by=lambda m: m.member_id, min_size=1))
    come = [
        Member(f"n{i}", f"d{i}", dict.fromkeys(members[0].threads, data.draw(st.integers(1, 4))))
        for i in range(data.draw(st.integers(0, 3)))
    ]
    count = sum(count for topic, count in cluster.items() if topic in members[0].threads)
    then, rounds = settled([*stay, *come], cluster, 10)
    assert is_balanced(then, count)
    assert rounds <= 2
    # No member revokes more than it has above its share, or than others lack of theirs.
    whole = sum(m.weight for m in then)
    least, most = count // whole, -(-count // whole)
    kept = {m.member_id: set(m.owned) for m in stay}
    moved = sum(len(kept[m.member_id] - set(m.owned)) for m in then if m.member_id in kept)
    unowned = count - sum(map(len, kept.values()))
    above = sum(max(0, len(kept[m.member_id]) - m.weight * most) for m in stay)
    lacking = sum(max(0, m.weight * least - len(kept.get(m.member_id, ()))) for m in then)
    assert moved <= max(above, lacking - unowned, 0)


@given(members=groups(), cluster=clusters, data=st.data())
def test_H6_sticky_never_assigns_a_partition_that_another_member_still_owns(members, cluster, data):
    """In two phases, whatever members claim: twice, from different generations, or of topics outside their
    subscription."""
    possible = all_partitions(cluster)
    claiming = [
        dataclasses.replace(
            m,
            owned=tuple(data.draw(st.sets(st.sampled_from(possible)))) if possible else (),
            generation=data.draw(st.integers(-1, 3)),
        )
        for m in members
    ]
    given_now = assign(COOPERATIVE_STICKY, claiming, cluster)
    for m in claiming:
        for tp in set(given_now[m.member_id]) - set(m.owned):
            assert not any(tp in other.owned for other in claiming)
    # It ends: every partition that was withheld has an owner.
    then, _ = settled(
        [dataclasses.replace(m, owned=tuple(given_now[m.member_id]), generation=4) for m in claiming], cluster, 5
    )
    assert sorted(tp for m in then for tp in m.owned) == sorted(
        tp for tp in possible if any(tp.topic in m.threads for m in members)
    )


def test_H6_sticky_a_new_member_gets_revoked_partitions_in_the_second_round():
    old = Member("m1", "c1", {"t": 1}, tuple(tps("t", 0, 1, 2, 3)), 7)
    new = Member("m2", "c2", {"t": 1})
    first = assign(COOPERATIVE_STICKY, [old, new], {"t": 4})
    assert [len(first["m1"]), first["m2"]] == [2, []]
    kept = dataclasses.replace(old, owned=tuple(first["m1"]), generation=8)
    second = assign(COOPERATIVE_STICKY, [kept, dataclasses.replace(new, generation=8)], {"t": 4})
    assert second["m1"] == first["m1"]
    assert len(second["m2"]) == 2


def test_H6_sticky_of_two_claims_the_younger_generation_counts():
    young = Member("m1", "c1", {"t": 1}, tuple(tps("t", 0, 1)), 8)
    stale = Member("m2", "c2", {"t": 1}, tuple(tps("t", 0, 1)), 7)
    given_now = assign(COOPERATIVE_STICKY, [young, stale], {"t": 2})
    assert len(given_now["m1"]) == 1
    assert given_now["m2"] == []  # its owner must revoke it first


def test_H6_sticky_two_claims_of_one_generation_do_not_count():
    one = Member("m1", "c1", {"t": 1}, tuple(tps("t", 0)), 8)
    two = Member("m2", "c2", {"t": 1}, tuple(tps("t", 0)), 8)
    assert assign(COOPERATIVE_STICKY, [one, two], {"t": 1}) == {"m1": [], "m2": []}


def test_H6_sticky_a_claim_without_a_generation_counts_if_it_is_the_only_one():
    """kafka-python's members send no generation."""
    members = [
        Member("m1", "c1", {"t": 1}, tuple(tps("t", 0, 1)), -1),
        Member("m2", "c2", {"t": 1}, tuple(tps("t", 2, 3)), 5),
    ]
    assert assign(COOPERATIVE_STICKY, members, {"t": 4}) == {"m1": tps("t", 0, 1), "m2": tps("t", 2, 3)}


def test_H6_sticky_a_partition_that_stays_keeps_its_stream():
    before = dict(zip(tps("t", 0, 1, 2), (1, 1, 0), strict=True))
    found = divide(COOPERATIVE_STICKY, {"t": 2}, tps("t", 0, 1, 3), before)
    assert found == dict(zip(tps("t", 0, 1, 3), (1, 1, 0), strict=True))


def test_H6_sticky_shared_streams_are_filled_evenly_over_many_topics():
    mine = [TopicPartition(f"t{i}", 0) for i in range(8)]
    found = divide(COOPERATIVE_STICKY, {tp.topic: 4 for tp in mine}, mine, {})
    assert Counter(found.values()) == Counter({0: 2, 1: 2, 2: 2, 3: 2})


@pytest.mark.parametrize("topics", [1, 10_000])
def test_H6_sticky_assigns_ten_thousand_partitions_within_seconds(topics):
    # Two seconds each; in a first version, that looked at all topics for each move, the time limit of a test.
    names = [f"t{i}" for i in range(topics)]
    cluster = dict.fromkeys(names, 10_000 // topics)
    threads = dict.fromkeys(names, 2)
    (one,), _ = settled([Member("m0", "c0", threads)], cluster)
    then, _ = settled([one, *(Member(f"m{i}", f"c{i}", threads) for i in range(1, 50))], cluster, 5)
    assert is_balanced(then, 10_000)
