"""Groups as an operator sees them: which there are, who is in them, what they have committed; and to delete one.

There are two kinds. Members of a *classic* group share partitions out among themselves, and their coordinator keeps
what they say as bytes; in a *consumer* group (KIP-848) the coordinator does that itself. Each kind is described by an
API of its own. Offsets without members, which any client may commit, make a classic group that is empty.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import kafka.errors as kafka_errors
from kafka.protocol.admin.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from penstock.errors import BrokerError, ProtocolError
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.error_codes import RetriableError, check
from penstock.wire.api.frame import EncodedRequest, FrameReader, encode_count, encode_text
from penstock.wire.api.group_offsets import GROUP, Committed, ask_committed
from penstock.wire.api.metadata import Broker
from penstock.wire.cluster import Cluster
from penstock.wire.transport.connection import Connection, Pending

Answer = TypeVar("Answer")

NOT_FOUND: int = kafka_errors.GroupIdNotFoundError.errno
NOT_EMPTY: int = kafka_errors.NonEmptyGroupError.errno
UNSUPPORTED: int = kafka_errors.UnsupportedVersionError.errno
CONSUMER_PROTOCOL = "consumer"
"""The protocol type of classic groups whose members are consumers: only their assignments can be read."""
DEAD = "dead"


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group: str
    kind: str
    """`classic`, `consumer`, `share`, `streams`; brokers before 3.8 have classic ones only, and do not say."""
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
    """A cluster that is asked about its groups."""

    def groups(self) -> list[ListedGroup]:
        """All groups, by name. Every broker knows those it coordinates, so all of them must answer."""
        attempts = self._brokers.attempts(f"asking all brokers of {self.config.bootstrap_text} for their groups")

        def ask() -> list[ListedGroup]:
            metadata, _ = self._ask_metadata((), attempts)
            questions = dict.fromkeys(metadata.brokers.values(), None)
            answers = list(
                self._brokers.ask_each(
                    questions,
                    lambda connection, _: ask_groups(connection),
                    attempts,
                    doubt=lambda broker, _: self._unlisted(broker),
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
        """Everything a group has committed."""

        def ask(connection: Connection, timeout: float) -> dict[TopicPartition, Committed]:
            return ask_committed(connection, group, None, timeout, stable=False)

        return self._coordinated(group, f"asking for the committed offsets of group {group!r}", ask)

    def delete(self, group: str) -> None:
        """Delete a group and what it has committed. Raises if it does not exist or has members."""
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
    version = connection.version(ListGroupsRequest)
    request = ListGroupsRequest(version=version, states_filter=[], types_filter=[])
    pending = connection.ask(request, connection.config.request_timeout)

    def read(timeout: float) -> list[ListedGroup]:
        response = pending(timeout)
        check(response.error_code, f"listing the groups of {connection.address}")
        return [
            ListedGroup(
                listed.group_id,
                (getattr(listed, "group_type", None) or "classic").lower(),
                getattr(listed, "group_state", None) or "unknown",
                listed.protocol_type,
            )
            for listed in response.groups
        ]

    return read


def ask_classic(connection: Connection, group: str, timeout: float) -> DescribedGroup | None:
    version = connection.version(DescribeGroupsRequest)
    request = DescribeGroupsRequest(version=version, groups=[group], include_authorized_operations=False)
    (answer,) = connection.call(request, timeout).groups
    # Before version 6 a group that does not exist, or is of the other kind, is a dead one.
    if answer.error_code == NOT_FOUND or (answer.error_code == 0 and answer.group_state.lower() == DEAD):
        return None
    check(answer.error_code, f"describing group {group!r}")
    return DescribedGroup(
        group,
        "classic",
        answer.group_state,
        answer.protocol_data,
        tuple(
            GroupMember(
                member.member_id,
                member.client_id,
                member.client_host.removeprefix("/"),
                getattr(member, "group_instance_id", None),
                _assigned(member.member_assignment) if answer.protocol_type == CONSUMER_PROTOCOL else (),
            )
            for member in answer.members
        ),
    )


def _assigned(data: bytes | None) -> tuple[TopicPartition, ...]:
    """The partitions in what a group's leader wrote for a member. Other clients write it: nonsense is no partition."""
    if not data:  # while a rebalance is under way
        return ()
    try:
        assignment = ConsumerProtocolAssignment.decode(data)
        return tuple(sorted(TopicPartition(t.topic, p) for t in assignment.assigned_partitions for p in t.partitions))
    except Exception:  # kafka-python's decoders fail in many ways
        return ()


class ConsumerGroupDescribe:
    """The API that describes consumer groups, which kafka-python does not have. Version 0 says all that is wanted."""

    API_KEY = 69
    name = "ConsumerGroupDescribeRequest"


def ask_consumer(connection: Connection, group: str, timeout: float) -> DescribedGroup | None:
    if not connection.speaks(ConsumerGroupDescribe, 0):
        return None
    body = encode_count(1, True) + encode_text(group, True) + b"\0" + b"\0"  # no authorized operations, no tags
    request = EncodedRequest(ConsumerGroupDescribe.name, ConsumerGroupDescribe.API_KEY, 0, True, body)
    correlation_id = connection.send(request, timeout)
    frame = connection.receive_into(bytearray(64 * 1024), timeout)
    try:
        return read_consumer(frame, correlation_id, group)
    except (struct.error, IndexError, ValueError) as error:
        connection.close()  # out of step: not to be reused
        raise ProtocolError(
            f"{connection.address} sent a ConsumerGroupDescribe response that cannot be read: {error}"
        ) from error


def read_consumer(frame: memoryview, correlation_id: int, group: str) -> DescribedGroup | None:
    reader = FrameReader(frame, True, correlation_id)
    reader.number(">i")  # how long we are throttled
    if reader.count() != 1:
        raise ValueError("one group was asked about")
    error_code = reader.number(">h")
    _nullable(reader)  # what the error is called
    if error_code in (NOT_FOUND, UNSUPPORTED):
        return None
    check(error_code, f"describing group {group!r}")
    reader.text()  # the group
    state = reader.text()
    reader.numbers(">ii")  # epochs of the group and of its assignment
    assignor = reader.text()
    members = tuple(_read_member(reader) for _ in range(reader.count()))
    return DescribedGroup(group, "consumer", state, assignor, members)


def _read_member(reader: FrameReader) -> GroupMember:
    member_id, instance_id = reader.text(), _nullable(reader)
    _nullable(reader)  # rack
    reader.number(">i")  # epoch
    client_id, host = reader.text(), reader.text()
    for _ in range(reader.count()):
        reader.text()  # subscribed topics
    _nullable(reader)  # and pattern
    partitions = _read_assignment(reader)
    _read_assignment(reader)  # what it shall have: differs for as long as members hand over
    reader.tags()
    return GroupMember(member_id, client_id, host.removeprefix("/"), instance_id, tuple(sorted(partitions)))


def _read_assignment(reader: FrameReader) -> list[TopicPartition]:
    found = []
    for _ in range(reader.count()):
        reader.take(16)  # topic id
        topic = reader.text()
        found += [TopicPartition(topic, reader.number(">i")) for _ in range(reader.count())]
        reader.tags()
    reader.tags()
    return found


def _nullable(reader: FrameReader) -> str | None:
    length = reader.varint() - 1
    return None if length < 0 else str(reader.take(length), "utf-8")


def ask_delete(connection: Connection, group: str, timeout: float) -> None:
    version = connection.version(DeleteGroupsRequest)
    (result,) = connection.call(DeleteGroupsRequest(version=version, groups_names=[group]), timeout).results
    if result.error_code == NOT_EMPTY:
        raise BrokerError(f"group {group!r} has members. Stop its consumers first")
    if result.error_code == NOT_FOUND:
        raise BrokerError(f"group {group!r} does not exist")
    check(result.error_code, f"deleting group {group!r}")
