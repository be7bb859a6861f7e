"""Share groups as an operator sees them (KIP-932): members, settings, and how far each partition is processed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.alter_configs import ask_alter_group
from penstock.wire.api.error_codes import check
from penstock.wire.api.group_admin import ASSIGNED, DescribedGroup, GroupAdmin, assigned_group, only
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
    structure,
    text,
    texts,
    topic_id,
)
from penstock.wire.transport.connection import Connection

SHARE = "share"

SHARE_GROUP_DESCRIBE = Api(
    "ShareGroupDescribe",
    77,
    lowest=1,
    highest=1,
    flexible=0,
    request_body=Structure(texts("group_ids"), boolean("include_authorized_operations", default=False)),
    response_body=Structure(
        int32("throttle_time_ms"),
        array(
            "groups",
            int16("error_code"),
            nullable_text("error_message"),
            text("group_id"),
            text("group_state"),
            int32("group_epoch"),
            int32("assignment_epoch"),
            text("assignor_name"),
            array(
                "members",
                text("member_id"),
                nullable_text("rack_id"),
                int32("member_epoch"),
                text("client_id"),
                text("client_host"),
                texts("subscribed_topic_names"),
                structure("assignment", ASSIGNED),
            ),
            int32("authorized_operations"),
        ),
    ),
)

DESCRIBE_SHARE_GROUP_OFFSETS = Api(
    "DescribeShareGroupOffsets",
    90,
    lowest=0,
    highest=1,
    flexible=0,
    request_body=Structure(
        array("groups", text("group_id"), array("topics", text("topic_name"), numbers("partitions")))
    ),
    response_body=Structure(
        int32("throttle_time_ms"),
        array(
            "groups",
            text("group_id"),
            array(
                "topics",
                text("topic_name"),
                topic_id("topic_id", since=0),
                array(
                    "partitions",
                    int32("partition_index"),
                    int64("start_offset"),
                    int32("leader_epoch"),
                    int64("lag", since=1, default=-1),
                    int16("error_code"),
                    nullable_text("error_message"),
                ),
            ),
            int16("error_code"),
            nullable_text("error_message"),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """How far a share group has processed a partition."""

    start: int | None
    """All records before it are processed. Some after it may be, too. None before the first fetch."""
    lag: int | None
    """Records that are not processed; None if the broker does not say (Kafka 4.2 and newer do)."""


class ShareGroupAdmin(GroupAdmin):
    """A client that describes share groups, too, and changes settings of groups."""

    def describe_share(self, group: str) -> DescribedGroup | None:
        """State and members of a share group; None if there is no such group."""

        def ask(connection: Connection, timeout: float) -> DescribedGroup | None:
            if not connection.speaks(SHARE_GROUP_DESCRIBE, SHARE_GROUP_DESCRIBE.lowest):
                return None
            request = SHARE_GROUP_DESCRIBE.request(connection.version(SHARE_GROUP_DESCRIBE), group_ids=[group])
            return assigned_group(connection.call(request, timeout), group, SHARE)

        return self._coordinated(group, f"describing share group {group!r}", ask)

    def share_offsets(self, group: str) -> dict[TopicPartition, ShareOffset]:
        """The partitions that a share group has a state of."""

        def ask(connection: Connection, timeout: float) -> dict[TopicPartition, ShareOffset]:
            version = connection.version(DESCRIBE_SHARE_GROUP_OFFSETS)
            request = DESCRIBE_SHARE_GROUP_OFFSETS.request(version, groups=[{"group_id": group, "topics": None}])
            return share_offsets(connection.call(request, timeout), group)

        return self._coordinated(group, f"asking for the offsets of share group {group!r}", ask)

    def configure(self, group: str, settings: Mapping[str, str | None], *, validate_only: bool) -> None:
        """Change settings of a group, which need not exist yet. None removes a setting: the brokers' default counts."""
        attempts = self._brokers.attempts(f"changing settings of group {group!r}")

        def ask(connection: Connection, timeout: float) -> None:
            ask_alter_group(connection, group, settings, timeout, validate_only=validate_only)

        self._brokers.retry(attempts, lambda: self._brokers.ask_any(attempts, ask))


def share_offsets(response: Any, group: str) -> dict[TopicPartition, ShareOffset]:
    answer = only(response.groups)
    check(answer.error_code, f"asking for the offsets of share group {group!r}")
    found: dict[TopicPartition, ShareOffset] = {}
    for topic in answer.topics:
        for each in topic.partitions:
            check(each.error_code, f"asking for the offset of {topic.topic_name}-{each.partition_index}")
            start = None if each.start_offset < 0 else each.start_offset
            lag = None if each.lag < 0 else each.lag
            found[TopicPartition(topic.topic_name, each.partition_index)] = ShareOffset(start, lag)
    return found


def share_standings(
    described: DescribedGroup, offsets: Mapping[TopicPartition, ShareOffset]
) -> dict[TopicPartition, tuple[ShareOffset, int]]:
    """Every partition with a state or a member, and the number of members that fetch it."""
    members: dict[TopicPartition, int] = {}
    for member in described.members:
        for tp in member.partitions:
            members[tp] = members.get(tp, 0) + 1
    unknown = ShareOffset(None, None)
    return {tp: (offsets.get(tp, unknown), members.get(tp, 0)) for tp in sorted({*offsets, *members})}
