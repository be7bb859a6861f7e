"""The likely cause that a ConsumerTimeout names."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock.config.consumer import parse_config
from penstock.consumer.wait_reason import MembershipStatus, wait_reason
from penstock.model.topic_partition import TopicPartition

CONFIG = parse_config({"bootstrap.servers": "h:1", "group.id": "g"})
NO_GROUP = parse_config({"bootstrap.servers": "h:1"}, needs_group=False)
EARLIEST = parse_config({"kafka.bootstrap.servers": "h:1", "group.id": "g", "auto.offset.reset": "earliest"})
STABLE = MembershipStatus(is_stable=True, problem=None, topics=1)


def cursor(number=0, *, thread="me-0", consumed=5, readable=5, paused=False, held=False, read=None):
    return SimpleNamespace(
        tp=TopicPartition("t", number),
        reader=SimpleNamespace(thread_id=thread),
        consumed=consumed,
        readable=readable,
        paused=paused,
        waits=paused or held,
        uncommitted_since=read,
    )


def reason(status, *cursors, config=EARLIEST):
    return wait_reason(config, status, cursors, "me-0")


def test_nothing_is_said_before_the_group_is_known():
    assert reason(None) == ""


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (MembershipStatus(False, None, 1), "group 'g' is not joined yet: it waits until its other members"),
        (
            MembershipStatus(False, "h:1 refuses connections\nmore", 1),
            "no broker has let this consumer into group 'g' yet (h:1 refuses connections). Check kafka.bootstrap.serv",
        ),
        (MembershipStatus(True, None, 1, ("t",)), "topic 't' does not exist. Create it, or check its name"),
        (MembershipStatus(True, None, 2, ("t", "u")), "topics 't', 'u' do not exist"),
        (MembershipStatus(True, None, 0), "the filter matches no topic"),
        (STABLE, "no partition is assigned to this consumer: the group has more members than the topic has partitions"),
        (
            MembershipStatus(True, None, 1, members=3, partitions=2),
            "no partition is assigned to this consumer: group 'g' has 3 members for 2 partitions. `penstock groups des",
        ),
    ],
)
def test_without_an_assignment_the_group_is_the_reason(status, said):
    assert reason(status).startswith(said)


@pytest.mark.parametrize(
    ("cursors", "said"),
    [
        ([cursor(thread="me-1")], "this consumer has 1 partition, and more streams: none is left for this stream"),
        ([cursor(), cursor(1, readable=None)], "the broker that leads t-1 has not answered yet"),
        ([cursor(consumed=None)], "the broker that leads t-0 has not answered yet"),
        ([cursor(readable=9, paused=True)], "t-0 is paused"),
        ([cursor(readable=9, paused=True), cursor(1, readable=9, paused=True)], "2 partitions are paused"),
        ([cursor(readable=9, held=True), cursor(1, readable=9, paused=True)], "event-time alignment holds back all"),
        ([cursor(readable=9)], "there are records, and none has arrived in this time"),
        ([cursor()], "t-0 has no new records"),
        ([cursor(), cursor(1)], "all 2 partitions of the stream have no new records"),
        ([cursor(paused=True, readable=None), cursor(1)], "all 2 partitions of the stream have no new records"),
    ],
)
def test_with_an_assignment_the_partitions_are_the_reason(cursors, said):
    assert reason(STABLE, *cursors).startswith(said)


def test_a_new_group_that_starts_at_the_end_is_told_how_to_read_older_records():
    assert reason(STABLE, cursor(), config=CONFIG).endswith(
        "auto.offset.reset is latest: set it to earliest for older records"
    )
    assert reason(STABLE, cursor(read=3), config=CONFIG) == "t-0 has no new records"
    assert reason(STABLE, cursor()) == "t-0 has no new records"
    assert reason(STABLE, cursor(), config=NO_GROUP) == "t-0 has no new records", "its starts are the user's"
