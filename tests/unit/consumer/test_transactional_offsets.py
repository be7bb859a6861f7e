"""Offsets for transactions, with streams that are fed by the test and a membership that answers as told."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from hostile.record_batches import counted
from penstock.config.consumer import parse_config
from penstock.consumer import transactional_offsets
from penstock.consumer.assigned_partitions import AssignedPartitions
from penstock.consumer.offsets import Offsets
from penstock.consumer.transactional_offsets import TransactionalOffsets
from penstock.errors import CommitRefused, OptionError
from penstock.metrics.consumer_counters import ConsumerCounters
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_member import GroupMember
from support.fed_stream import Fed

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
MEMBER = GroupMember("m", 3)


class Membership:
    """Owns every partition but those in `lost`."""

    def __init__(self):
        self.lost = set()
        self.member = MEMBER

    def member_for(self, partitions: Iterable[TopicPartition]) -> GroupMember:
        if self.lost & set(partitions):
            raise CommitRefused("g", "is not assigned to it")
        return self.member

    def commit(self, offsets, epochs=None, timeout=None):
        raise AssertionError("commits go through the transaction")


class Consumer:
    """One stream over two partitions of ten records each."""

    def __init__(self, **more):
        self.fed = Fed()
        self.config = parse_config({"bootstrap.servers": "b:1", "group.id": "g", "enable.auto.commit": False} | more)
        self.assigned = AssignedPartitions()
        self.membership = Membership()
        self.assigned.cursors = {tp: self.fed.cursor(tp, 0) for tp in (ZERO, ONE)}
        offsets = Offsets(self.config, self.assigned, ConsumerCounters(), lambda: self.membership, lambda: None)
        self.offsets = TransactionalOffsets(self.config, self.assigned, offsets, lambda: self.membership)

    def hand_out(self, tp, count):
        """Records of one partition leave the stream, as messages."""
        cursor = self.assigned.cursors[tp]
        if cursor.fetched == self.position(tp):
            self.fed.put(cursor, counted(cursor.fetched, 10))
        assert len(self.fed.offsets(count)) == count

    def position(self, tp):
        return self.fed.reader.position(self.assigned.cursors[tp])

    def revoke(self, tp):
        cursor = self.assigned.cursors[tp]
        cursor.reader.revoke(cursor)
        self.assigned.note_uncommitted([cursor])
        self.assigned.cursors = {other: each for other, each in self.assigned.cursors.items() if other != tp}


def test_positions_that_changed_are_taken_with_the_member():
    consumer = Consumer()
    consumer.hand_out(ZERO, 4)
    member, taken = consumer.offsets.take()
    assert member == MEMBER
    assert taken == {ZERO: 4, ONE: 0}  # a position at which nothing was read is committed too, as by commit_offsets
    consumer.offsets.committed(taken)
    assert consumer.offsets.take()[1] == {}


def test_after_an_abort_records_come_again_from_the_last_commit_on():
    consumer = Consumer()
    consumer.hand_out(ZERO, 4)
    consumer.offsets.committed(consumer.offsets.take()[1])
    consumer.hand_out(ZERO, 3)  # of the same batch
    assert consumer.position(ZERO) == 7
    consumer.offsets.rewind()
    assert consumer.position(ZERO) == 4
    consumer.hand_out(ZERO, 1)
    assert consumer.position(ZERO) == 5


def test_without_a_commit_records_come_again_from_the_first_one_on():
    consumer = Consumer()
    consumer.hand_out(ZERO, 10)
    consumer.offsets.rewind()
    assert (consumer.position(ZERO), consumer.position(ONE)) == (0, 0)


def test_an_abort_does_not_undo_a_seek():
    consumer = Consumer()
    cursor = consumer.assigned.cursors[ZERO]
    consumer.hand_out(ZERO, 4)
    consumer.offsets.committed({ZERO: 4})
    cursor.reader.move(cursor, 8)
    consumer.offsets.rewind()
    assert consumer.position(ZERO) == 8


def test_a_partition_that_was_revoked_with_uncommitted_records_refuses_the_commit():
    consumer = Consumer()
    consumer.hand_out(ZERO, 4)
    consumer.revoke(ZERO)
    for _ in range(2):
        with pytest.raises(CommitRefused, match="t-0 was revoked while its records were processed"):
            consumer.offsets.take()
    consumer.offsets.rewind()  # the transaction is aborted
    assert consumer.offsets.take()[1] == {ONE: 0}


def test_a_partition_that_was_revoked_without_uncommitted_records_does_not():
    consumer = Consumer()
    consumer.hand_out(ZERO, 4)
    consumer.offsets.committed({ZERO: 4})
    consumer.revoke(ZERO)
    consumer.revoke(ONE)
    assert consumer.offsets.take() == (MEMBER, {})


def test_a_partition_that_is_revoked_during_the_commit_counts_as_committed():
    consumer = Consumer()
    consumer.hand_out(ZERO, 4)
    _, taken = consumer.offsets.take()
    consumer.revoke(ZERO)
    consumer.offsets.committed(taken)  # the coordinator has accepted it
    assert consumer.offsets.take()[1] == {}


def test_partitions_that_the_member_does_not_own_are_refused():
    consumer = Consumer()
    consumer.membership.lost = {ZERO}
    with pytest.raises(CommitRefused, match="not assigned"):
        consumer.offsets.take({ZERO: 1})


def test_given_offsets_are_checked():
    consumer = Consumer()
    with pytest.raises(ValueError, match="is not an offset"):
        consumer.offsets.take({ZERO: -1})
    with pytest.raises(TypeError, match="is not a partition"):
        consumer.offsets.take({"t": 1})


def test_auto_commit_is_refused():
    with pytest.raises(OptionError, match=r"enable\.auto\.commit"):
        Consumer(**{"enable.auto.commit": True}).offsets.begin()


@pytest.mark.parametrize(("group_has", "position"), [(6, 6), (4, 4), (None, 0)])
def test_after_an_unknown_outcome_the_groups_offsets_decide(monkeypatch, group_has, position):
    """6: it was committed. 4: it was not. None: it was not, and there was no commit before."""
    consumer = Consumer()
    consumer.hand_out(ZERO, 4)
    if group_has is not None:
        consumer.offsets.committed({ZERO: 4})
    consumer.hand_out(ZERO, 2)
    consumer.offsets.take()
    consumer.offsets.outcome_unknown()

    class Cluster:
        def __init__(self, config):
            assert config == consumer.config.client

        def committed(self, group, partitions):
            assert group == "g"
            return dict.fromkeys(partitions, group_has)

    monkeypatch.setattr(transactional_offsets, "Cluster", Cluster)
    consumer.offsets.begin()
    assert consumer.position(ZERO) == position
    assert consumer.position(ONE) == 0


def test_a_stream_has_only_its_own_partitions():
    consumer, other = Consumer(), Fed()
    consumer.hand_out(ZERO, 4)
    of_other = TransactionalOffsets(
        consumer.config, consumer.assigned, consumer.offsets._offsets, lambda: consumer.membership, other.reader
    )
    assert of_other.take() == (MEMBER, {})
    of_other.rewind()
    assert consumer.position(ZERO) == 4


def test_without_streams_there_is_nothing_to_commit():
    consumer = Consumer()
    consumer.membership = None
    with pytest.raises(RuntimeError, match="has no streams"):
        consumer.offsets.take()
