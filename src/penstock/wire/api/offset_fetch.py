"""The OffsetFetch API: what a group has committed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import ProtocolError
from penstock.model.topic_partition import TopicPartition, by_topic
from penstock.wire.api.error_codes import check, error_name
from penstock.wire.api.group_member import NOT_A_MEMBER, GroupMember, check_membership
from penstock.wire.api.message import (
    Api,
    Structure,
    array,
    boolean,
    int16,
    int32,
    int64,
    nullable_text,
    numbers,
    text,
)
from penstock.wire.transport.connection import Connection, Pending

MANY_GROUPS = 8
"""From this version on a request asks about several groups."""

KNOWS_STABLE = 7
"""From this version on a response can wait for commits of open transactions (KIP-447): Kafka 2.5."""

_ONE = MANY_GROUPS - 1
_PARTITION = (
    int32("partition_index"),
    int64("committed_offset"),
    int32("committed_leader_epoch", since=5, default=-1),
    nullable_text("metadata"),
    int16("error_code"),
)
_ASKED = (text("name"), numbers("partition_indexes"))
_COMMITTED = (text("name"), array("partitions", *_PARTITION))

OFFSET_FETCH = Api(
    "OffsetFetch",
    9,
    lowest=1,
    highest=9,  # later versions name topics by id, and say no more
    flexible=6,
    request_body=Structure(
        text("group_id", until=_ONE),
        array("topics", *_ASKED, until=_ONE),
        array(
            "groups",
            text("group_id"),
            nullable_text("member_id", since=9),
            int32("member_epoch", since=9, default=-1),
            array("topics", *_ASKED),
            since=MANY_GROUPS,
        ),
        boolean("require_stable", since=KNOWS_STABLE),
    ),
    response_body=Structure(
        int32("throttle_time_ms", since=3),
        array("topics", *_COMMITTED, until=_ONE),
        int16("error_code", since=2, until=_ONE, default=0),
        array(
            "groups",
            text("group_id"),
            array("topics", *_COMMITTED),
            int16("error_code"),
            since=MANY_GROUPS,
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Committed:
    """What a group has committed for one partition: the next offset to read, and the metadata beside it."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


def ask_committed(
    connection: Connection,
    group: str,
    wanted: Sequence[TopicPartition] | None,
    timeout: float,
    stable: bool = True,
    member: GroupMember = NOT_A_MEMBER,
) -> dict[TopicPartition, Committed]:
    """What a group has committed, without the partitions where it has committed nothing. None asks for all.

    `member`: of a group of the protocol `consumer`. The coordinator checks its epoch, and it may get Rebalancing or
    MembershipLost. Others ask without one.

    `stable` waits for commits of open transactions. A reader that starts from an offset needs that; a display does not.
    Brokers before KNOWS_STABLE cannot wait, and answer what was committed before.
    """
    version = connection.version(OFFSET_FETCH)
    topics = None if wanted is None else _asked_topics(wanted)
    request = OFFSET_FETCH.request(
        version,
        group_id=group,
        topics=topics,
        groups=[
            {
                "group_id": group,
                "member_id": member.member_id or None,
                "member_epoch": member.generation,
                "topics": topics,
            }
        ],
        require_stable=stable,
    )
    response = connection.call(request, timeout)
    if version >= MANY_GROUPS:
        if len(response.groups) != 1:
            raise ProtocolError(f"asked about one group, the response has {len(response.groups)}")
        response = response.groups[0]
    if member is not NOT_A_MEMBER:
        check_membership(response.error_code, f"committed offsets of group {group!r}")
    check(response.error_code, f"committed offsets of group {group!r}")
    found: dict[TopicPartition, Committed] = {}
    for topic in response.topics:
        for each in topic.partitions:
            tp = TopicPartition(topic.name, each.partition_index)
            check(each.error_code, f"committed offset of {tp} in group {group!r}")
            if each.committed_offset >= 0:
                found[tp] = Committed(each.committed_offset, each.committed_leader_epoch, each.metadata or "")
    return found


def ask_all_committed(
    connection: Connection, groups: Sequence[str], timeout: float
) -> Pending[tuple[dict[str, dict[TopicPartition, int]], dict[str, str]]]:
    """All offsets that groups of this coordinator have committed, for a display; and by group the error that it was
    answered with. Brokers before MANY_GROUPS (Kafka 3.0) take one group at a time."""
    version = connection.version(OFFSET_FETCH)
    assert len(groups) == 1 or version >= MANY_GROUPS
    request = OFFSET_FETCH.request(
        version,
        group_id=groups[0],
        topics=None,
        groups=[{"group_id": group, "topics": None} for group in groups],
        require_stable=False,
    )
    response = connection.ask(request, timeout)

    def read(timeout: float) -> tuple[dict[str, dict[TopicPartition, int]], dict[str, str]]:
        answer = response(timeout)
        answers = [(each.group_id, each) for each in answer.groups] if version >= MANY_GROUPS else [(groups[0], answer)]
        found: dict[str, dict[TopicPartition, int]] = {}
        errors: dict[str, str] = {}
        for group, each in answers:
            if each.error_code:
                errors[group] = error_name(each.error_code)
                continue
            found[group] = {
                TopicPartition(topic.name, row.partition_index): row.committed_offset
                for topic in each.topics
                for row in topic.partitions
                if row.error_code == 0 and row.committed_offset >= 0
            }
        return found, errors

    return read


def _asked_topics(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [{"name": name, "partition_indexes": numbers} for name, numbers in by_topic(partitions).items()]
