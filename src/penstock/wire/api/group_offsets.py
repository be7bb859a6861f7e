"""What a group's coordinator is asked: where it is, what the group has committed, and to commit.

Commits come from a member of the group, or from a consumer outside of it: no member, no generation. A coordinator takes
the latter while the group has no members.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import kafka.errors as kafka_errors
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from penstock.errors import BrokerError, ProtocolError
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import RetriableError, check
from penstock.wire.api.metadata import Broker
from penstock.wire.transport.connection import Connection

NAMES_ONLY = 9
"""From version 10 on OffsetFetch and OffsetCommit name topics by id; 9, the last that takes names, says no less."""

NO_GENERATION = -1

GROUP, TRANSACTION = 0, 1
"""What has a coordinator: a group, or a transactional id."""

REBALANCING: int = kafka_errors.RebalanceInProgressError.errno
FENCED: int = kafka_errors.FencedInstanceIdError.errno
UNKNOWN_MEMBER: int = kafka_errors.UnknownMemberIdError.errno
ILLEGAL_GENERATION: int = kafka_errors.IllegalGenerationError.errno

IN_USE = frozenset(
    error.errno
    for error in (
        kafka_errors.IllegalGenerationError,
        kafka_errors.UnknownMemberIdError,
        kafka_errors.RebalanceInProgressError,
        kafka_errors.FencedInstanceIdError,
        kafka_errors.FencedMemberEpochError,
        kafka_errors.StaleMemberEpochError,
    )
)
"""What a coordinator says to a commit from outside while the group has members."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What a group has committed for one partition: the next offset to read, and the notes beside it."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """As whom a consumer speaks to its coordinator. The defaults: as nobody, from outside."""

    member_id: str = ""
    generation: int = NO_GENERATION
    instance_id: str | None = None


NOBODY = GroupMember()


class Rebalancing(Exception):
    """The group is being rebalanced: join again."""


class MembershipLost(Exception):
    """We do not count as a member any more. `forgotten`: the coordinator has no member of that id."""

    def __init__(self, text: str, forgotten: bool = False) -> None:
        super().__init__(text)
        self.forgotten = forgotten


class FencedInstance(BrokerError):
    """Another consumer has taken our place: it has the same group.instance.id."""


def check_membership(error_code: int, what: str) -> None:
    """Raise what an error code says of the member who asked, if that is what it says."""
    if error_code == REBALANCING:
        raise Rebalancing(f"{what}: the group is being rebalanced")
    if error_code == UNKNOWN_MEMBER:
        raise MembershipLost(f"{what}: the coordinator does not know this member (any more)", forgotten=True)
    if error_code == ILLEGAL_GENERATION:
        raise MembershipLost(f"{what}: the group has gone on without this member")
    if error_code == FENCED:
        raise FencedInstance(
            f"{what}: another consumer with the same group.instance.id has taken this one's place. Give each consumer "
            "of the group an id of its own"
        )


def find_coordinator(connection: Connection, name: str, timeout: float, kind: int = GROUP) -> Broker:
    version = connection.version(FindCoordinatorRequest)
    names = {"coordinator_keys": [name]} if version >= 4 else {"key": name}
    request = FindCoordinatorRequest(version=version, key_type=kind, **names)
    response = connection.call(request, timeout)
    answer = _only(response.coordinators, "coordinators") if version >= 4 else response
    check(answer.error_code, f"coordinator of {'group' if kind == GROUP else 'transactional id'} {name!r}")
    return Broker(answer.node_id, answer.host, answer.port)


def ask_committed(
    connection: Connection,
    group: str,
    wanted: Sequence[TopicPartition] | None,
    timeout: float,
    stable: bool = True,
) -> dict[TopicPartition, Committed]:
    """What a group has committed; nothing for a partition where it has committed nothing. None asks for all it has.

    `stable` waits for commits that are part of an open transaction: whoever starts from an offset must, whoever only
    looks need not. Brokers before Kafka 2.5 (version 7) cannot wait, and say what was committed before.
    """
    version = connection.version(OffsetFetchRequest, at_most=NAMES_ONLY)
    by_topic: dict[str, list[int]] = defaultdict(list)
    for tp in wanted or ():
        by_topic[tp.topic].append(tp.partition)
    if version >= 8:
        group_class = OffsetFetchRequest.OffsetFetchRequestGroup
        topics = [
            group_class.OffsetFetchRequestTopics(version=version, name=name, partition_indexes=numbers)
            for name, numbers in by_topic.items()
        ]
        asked = group_class(
            version=version,
            group_id=group,
            member_id=None,
            member_epoch=-1,
            topics=None if wanted is None else topics,
        )
        request = OffsetFetchRequest(version=version, groups=[asked], require_stable=stable)
    else:
        topic_class = OffsetFetchRequest.OffsetFetchRequestTopic
        topics = [
            topic_class(version=version, name=name, partition_indexes=numbers) for name, numbers in by_topic.items()
        ]
        request = OffsetFetchRequest(
            version=version, group_id=group, topics=None if wanted is None else topics, require_stable=stable
        )
    response = connection.call(request, timeout)
    answer = _only(response.groups, "groups") if version >= 8 else response
    check(answer.error_code, f"committed offsets of group {group!r}")
    found: dict[TopicPartition, Committed] = {}
    for topic in answer.topics:
        for partition in topic.partitions:
            tp = TopicPartition(topic.name, partition.partition_index)
            check(partition.error_code, f"committed offset of {tp} in group {group!r}")
            if partition.committed_offset >= 0:
                epoch = getattr(partition, "committed_leader_epoch", None)  # from version 5 on
                found[tp] = Committed(
                    partition.committed_offset, -1 if epoch is None else epoch, partition.metadata or ""
                )
    return found


def ask_commit(
    connection: Connection,
    group: str,
    offsets: Mapping[TopicPartition, int],
    epochs: Mapping[TopicPartition, int],
    metadata: Mapping[TopicPartition, str],
    timeout: float,
    member: GroupMember = NOBODY,
) -> dict[TopicPartition, RetriableError]:
    """Commit. Returns the partitions that are worth asking again, and why; what that cannot heal is raised.

    To a member: Rebalancing, MembershipLost or FencedInstance, when that is why.
    """
    version = connection.version(OffsetCommitRequest, at_most=NAMES_ONLY)
    topic_class = OffsetCommitRequest.OffsetCommitRequestTopic
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for tp, offset in offsets.items():
        by_topic[tp.topic].append(
            topic_class.OffsetCommitRequestPartition(
                version=version,
                partition_index=tp.partition,
                committed_offset=offset,
                committed_leader_epoch=epochs.get(tp, -1),
                committed_metadata=metadata.get(tp, ""),
            )
        )
    request = OffsetCommitRequest(
        version=version,
        group_id=group,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        retention_time_ms=-1,
        topics=[topic_class(version=version, name=name, partitions=numbers) for name, numbers in by_topic.items()],
    )
    response = connection.call(request, timeout)
    refused = {tp: RetriableError(f"the answer leaves out {tp}") for tp in offsets}
    for topic in response.topics:
        for partition in topic.partitions:
            tp = TopicPartition(topic.name, partition.partition_index)
            if member is not NOBODY:
                check_membership(partition.error_code, f"commit of {tp} in group {group!r}")
            if partition.error_code in IN_USE:
                said = kafka_errors.for_code(partition.error_code).__name__
                raise BrokerError(
                    f"group {group!r} is in use by other consumers, so nobody else can commit its offsets ({said} for "
                    f"{tp}). Choose another kafka.group.id, or end those consumers"
                )
            try:
                check(partition.error_code, f"commit of {tp} in group {group!r}")
            except RetriableError as error:
                refused[tp] = error
            else:
                refused.pop(tp, None)
    return refused


def _only(answers: Sequence[Any], what: str) -> Any:
    if len(answers) != 1:
        raise ProtocolError(f"asked about one group, the answer holds {len(answers)} {what}")
    return answers[0]
