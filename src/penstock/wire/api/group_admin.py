"""The APIs of group administration: list, describe and delete groups.

There are two kinds. Members of a *classic* group assign partitions among themselves, and their coordinator keeps what
they send as bytes. In a *consumer* group (KIP-848) the coordinator assigns. Each kind has its own API to describe it.
Offsets that a client commits without members make an empty classic group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.errors import BrokerError, ProtocolError
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from penstock.wire.api.error_codes import CODES, UNSUPPORTED_VERSION, RetriableError, check, error_name
from penstock.wire.api.find_coordinator import GROUP
from penstock.wire.api.group_membership import HEARTBEAT
from penstock.wire.api.message import (
    Api,
    Structure,
    array,
    boolean,
    data,
    int16,
    int32,
    nullable_text,
    numbers,
    structure,
    text,
    texts,
    topic_id,
)
from penstock.wire.api.metadata import Broker
from penstock.wire.api.offset_fetch import Committed, ask_committed
from penstock.wire.cluster import Cluster
from penstock.wire.transport.connection import Connection, Pending

Answer = TypeVar("Answer")

NOT_FOUND = CODES["GROUP_ID_NOT_FOUND"]
NOT_EMPTY = CODES["NON_EMPTY_GROUP"]
DEAD = "dead"
CLASSIC, CONSUMER = "classic", "consumer"
"""Kinds of groups that can be described."""

LIST_GROUPS = Api(
    "ListGroups",
    16,
    lowest=0,
    highest=5,
    flexible=3,
    request_body=Structure(texts("states_filter", since=4), texts("types_filter", since=5)),
    response_body=Structure(
        int32("throttle_time_ms", since=1),
        int16("error_code"),
        array(
            "groups",
            text("group_id"),
            text("protocol_type"),
            text("group_state", since=4, default=""),
            text("group_type", since=5, default=""),
        ),
    ),
)

DESCRIBE_GROUPS = Api(
    "DescribeGroups",
    15,
    lowest=0,
    highest=6,
    flexible=5,
    request_body=Structure(texts("groups"), boolean("include_authorized_operations", since=3, default=False)),
    response_body=Structure(
        int32("throttle_time_ms", since=1),
        array(
            "groups",
            int16("error_code"),
            nullable_text("error_message", since=6),
            text("group_id"),
            text("group_state"),
            text("protocol_type"),
            text("protocol_data"),
            array(
                "members",
                text("member_id"),
                nullable_text("group_instance_id", since=4),
                text("client_id"),
                text("client_host"),
                data("member_metadata"),
                data("member_assignment"),
            ),
            int32("authorized_operations", since=3),
        ),
    ),
)

DELETE_GROUPS = Api(
    "DeleteGroups",
    42,
    lowest=0,
    highest=2,
    flexible=2,
    request_body=Structure(texts("groups_names")),
    response_body=Structure(
        int32("throttle_time_ms"),
        array("results", text("group_id"), int16("error_code")),
    ),
)

ASSIGNED = array("topic_partitions", topic_id("topic_id", since=0), text("topic_name"), numbers("partitions"))

CONSUMER_GROUP_DESCRIBE = Api(
    "ConsumerGroupDescribe",
    69,
    lowest=0,
    highest=0,
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
                nullable_text("instance_id"),
                nullable_text("rack_id"),
                int32("member_epoch"),
                text("client_id"),
                text("client_host"),
                texts("subscribed_topic_names"),
                nullable_text("subscribed_topic_regex"),
                structure("assignment", ASSIGNED),
                structure("target_assignment", ASSIGNED),
            ),
            int32("authorized_operations"),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group: str
    kind: str
    """`classic`, `consumer`, `share`, `streams`. Brokers before 3.8 have only classic groups, and do not say."""
    state: str
    protocol: str
    """`consumer` for consumers, `connect` for Kafka Connect, empty for a classic group that never had members."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    group: str
    kind: str
    state: str
    assignor: str
    members: tuple[GroupMember, ...]


class GroupAdmin(Cluster):
    """A client that lists, describes and deletes groups."""

    def groups(self) -> list[ListedGroup]:
        """All groups, by name. Every broker lists the groups it coordinates, so all brokers must answer."""
        attempts = self._brokers.attempts(f"asking all brokers of {self.config.bootstrap_text} for their groups")

        def ask() -> list[ListedGroup]:
            metadata, _ = self._ask_metadata((), attempts)
            questions = dict.fromkeys(metadata.brokers.values(), None)
            answers = list(
                self._brokers.ask_each(
                    questions,
                    lambda connection, _: ask_groups(connection),
                    attempts,
                    overdue_check=lambda broker, _: self._unlisted(broker),
                )
            )
            if len(answers) < len(questions):
                raise RetriableError(f"{len(questions) - len(answers)} of {len(questions)} brokers did not answer")
            return sorted((group for answer in answers for group in answer), key=lambda listed: listed.group)

        return self._brokers.retry(attempts, ask)

    def describe(self, group: str) -> DescribedGroup | None:
        """State and members of a classic or a consumer group; None if there is no such group of these kinds."""

        def ask(connection: Connection, timeout: float) -> DescribedGroup | None:
            return ask_classic(connection, group, timeout) or ask_consumer(connection, group, timeout)

        return self._coordinated(group, f"describing group {group!r}", ask)

    def all_commits(self, group: str) -> dict[TopicPartition, Committed]:
        """All offsets that a group has committed."""

        def ask(connection: Connection, timeout: float) -> dict[TopicPartition, Committed]:
            return ask_committed(connection, group, None, timeout, stable=False)

        return self._coordinated(group, f"asking for the committed offsets of group {group!r}", ask)

    def check_may_read(self, group: str) -> None:
        """Raise AuthorizationFailed if this user may not join the group. Changes nothing.

        Asked by a heartbeat of a member that does not exist: brokers check the permission first.
        """

        def ask(connection: Connection, timeout: float) -> None:
            request = HEARTBEAT.request(
                connection.version(HEARTBEAT), group_id=group, generation_id=-1, member_id="penstock-doctor"
            )
            answer = connection.call(request, timeout)
            if answer.error_code != CODES["UNKNOWN_MEMBER_ID"]:
                check(answer.error_code, f"reading group {group!r}")

        self._coordinated(group, f"asking for permission to read group {group!r}", ask)

    def delete(self, group: str) -> None:
        """Delete a group and its committed offsets. Raises if it does not exist or has members."""
        self._coordinated(
            group, f"deleting group {group!r}", lambda connection, timeout: ask_delete(connection, group, timeout)
        )

    def coordinator(self, group: str) -> Broker:
        """The broker that answered for a group."""
        return self._coordinators[GROUP, group]

    def _coordinated(self, group: str, what: str, ask: Callable[[Connection, float], Answer]) -> Answer:
        attempts = self._brokers.attempts(what)
        return self._ask_coordinator(
            group, attempts, lambda connection: ask(connection, attempts.remaining(self.config.request_timeout))
        )


def ask_groups(connection: Connection) -> Pending[list[ListedGroup]]:
    response = connection.ask(LIST_GROUPS.request(connection.version(LIST_GROUPS)), connection.config.request_timeout)

    def read(timeout: float) -> list[ListedGroup]:
        answer = response(timeout)
        check(answer.error_code, f"listing the groups of {connection.address}")
        return [
            ListedGroup(
                listed.group_id,
                (listed.group_type or "classic").lower(),
                listed.group_state or "unknown",
                listed.protocol_type,
            )
            for listed in answer.groups
        ]

    return read


def ask_classic(connection: Connection, group: str, timeout: float) -> DescribedGroup | None:
    request = DESCRIBE_GROUPS.request(connection.version(DESCRIBE_GROUPS), groups=[group])
    answer = only(connection.call(request, timeout).groups)
    # Before version 6 a group that does not exist, or is of the other kind, counts as dead.
    if answer.error_code == NOT_FOUND or (answer.error_code == 0 and answer.group_state.lower() == DEAD):
        return None
    check(answer.error_code, f"describing group {group!r}")
    return _classic_group(answer)


def _classic_group(answer: Any) -> DescribedGroup:
    return DescribedGroup(
        answer.group_id,
        "classic",
        answer.group_state,
        answer.protocol_data,
        tuple(
            GroupMember(
                member.member_id,
                member.client_id,
                member.client_host.removeprefix("/"),
                member.group_instance_id,
                _assigned(member.member_assignment) if answer.protocol_type == PROTOCOL_TYPE else (),
            )
            for member in answer.members
        ),
    )


def _assigned(encoded: bytes) -> tuple[TopicPartition, ...]:
    """The partitions of an assignment, which is empty during a rebalance. Other clients write them: those that cannot
    be read count as empty."""
    try:
        return tuple(decode_assignment(encoded)[0])
    except ValueError:
        return ()


def ask_consumer(connection: Connection, group: str, timeout: float) -> DescribedGroup | None:
    if not connection.speaks(CONSUMER_GROUP_DESCRIBE, 0):
        return None
    request = CONSUMER_GROUP_DESCRIBE.request(connection.version(CONSUMER_GROUP_DESCRIBE), group_ids=[group])
    return consumer_group(connection.call(request, timeout), group)


def consumer_group(response: Any, group: str) -> DescribedGroup | None:
    """A group of KIP-848 from the response that describes it; None if it is of another kind, or does not exist."""
    return assigned_group(response, group, CONSUMER)


def assigned_group(response: Any, group: str, kind: str) -> DescribedGroup | None:
    """A group whose partitions the coordinator assigns, from the response that describes it; None if it is of another
    kind, or does not exist."""
    answer = only(response.groups)
    if answer.error_code in (NOT_FOUND, UNSUPPORTED_VERSION):
        return None
    check(answer.error_code, f"describing {kind} group {group!r}")
    return _assigned_group(answer, kind)


def _assigned_group(answer: Any, kind: str) -> DescribedGroup:
    members = tuple(
        GroupMember(
            member.member_id,
            member.client_id,
            member.client_host.removeprefix("/"),
            member.instance_id if kind == CONSUMER else None,
            tuple(
                sorted(
                    TopicPartition(topic.topic_name, number)
                    for topic in member.assignment.topic_partitions
                    for number in topic.partitions
                )
            ),
        )
        for member in answer.members
    )
    return DescribedGroup(answer.group_id, kind, answer.group_state, answer.assignor_name, members)


def ask_descriptions(
    connection: Connection, groups: Sequence[str], kind: str, timeout: float
) -> Pending[tuple[list[DescribedGroup], dict[str, str]]]:
    """State and members of many groups of one kind that this broker coordinates, and by group the error that it was
    answered with. A group that is gone has an error, too."""
    is_classic = kind == CLASSIC
    request = (
        DESCRIBE_GROUPS.request(connection.version(DESCRIBE_GROUPS), groups=groups)
        if is_classic
        else CONSUMER_GROUP_DESCRIBE.request(connection.version(CONSUMER_GROUP_DESCRIBE), group_ids=groups)
    )
    response = connection.ask(request, timeout)

    def read(timeout: float) -> tuple[list[DescribedGroup], dict[str, str]]:
        found: list[DescribedGroup] = []
        errors: dict[str, str] = {}
        for answer in response(timeout).groups:
            if answer.error_code:
                errors[answer.group_id] = error_name(answer.error_code)
            else:
                found.append(_classic_group(answer) if is_classic else _assigned_group(answer, CONSUMER))
        return found, errors

    return read


def ask_delete(connection: Connection, group: str, timeout: float) -> None:
    request = DELETE_GROUPS.request(connection.version(DELETE_GROUPS), groups_names=[group])
    result = only(connection.call(request, timeout).results)
    if result.error_code == NOT_EMPTY:
        raise BrokerError(f"group {group!r} has members. Stop its consumers first")
    if result.error_code == NOT_FOUND:
        raise BrokerError(f"group {group!r} does not exist")
    check(result.error_code, f"deleting group {group!r}")


def only(answers: Sequence[Any]) -> Any:
    if len(answers) != 1:
        raise ProtocolError(f"asked about one group, the response has {len(answers)}")
    return answers[0]
