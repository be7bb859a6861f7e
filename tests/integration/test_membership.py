"""A member of a group on a real broker: joining, leaving, losing its place, and what it commits."""

import pytest

from fix_members import await_shared, partitions
from penstock.errors import CommitRefused
from penstock.topics import TopicPartition


def test_H5_one_to_three_to_two_members(member, topic, group):
    name = topic(partitions=12)
    everything = partitions(name, 12)
    first = member({name: 1})
    await_shared([first], everything)
    assert first.recorder.assignments[-1].fresh
    second, third = member({name: 1}), member({name: 1})
    await_shared([first, second, third], everything)
    assert [len(each.has) for each in (first, second, third)] == [4, 4, 4]
    assert not any(each.recorder.assignments[-1].fresh for each in (first, second, third))
    second.close()
    assert second.recorder.partitions == {}
    await_shared([first, third], everything)
    assert first.recorder.threads == {f"penstock-group-{group}"}
    assert {kind for kind, _ in first.recorder.events} == {"assigned", "released"}


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
