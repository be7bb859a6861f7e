"""The bytes that members of a classic group send each other: subscriptions and assignments.

The coordinator does not read them. It sends every member's subscription to the member it names leader, and the leader's
assignments to the members. Other clients write them too, so they may be anything.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.model.topic_partition import TopicPartition, by_topic
from penstock.wire.api.frame import READ_ERRORS, FrameReader
from penstock.wire.api.message import Structure, array, data, int32, nullable_text, numbers, text, texts

PROTOCOL_TYPE = "consumer"
"""The protocol type of groups whose members are consumers: only their bytes can be read here."""

SUBSCRIPTION_VERSION = 3
ASSIGNMENT_VERSION = 1
"""As Java writes it: newer versions have no more fields."""

LARGEST_BYTES = 4 << 20
"""Of one member's subscription or assignment. Four bytes name a partition, which takes a hundred once it is read.
Brokers send up to 100 MB, though they could not store them."""

_VERSION = struct.Struct(">h")
_SUBSCRIPTION = Structure(
    texts("topics"),
    data("user_data"),
    array("owned_partitions", text("topic"), numbers("partitions"), since=1),
    int32("generation_id", since=2, default=-1),
    nullable_text("rack_id", since=3),
)
_ASSIGNMENT = Structure(
    array("assigned_partitions", text("topic"), numbers("partitions")),
    data("user_data"),
)


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member tells the leader."""

    topics: tuple[str, ...]
    user_data: bytes = b""
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    rack: str | None = None


def encode_subscription(subscription: Subscription) -> bytes:
    """In the newest version: older clients read the fields they know and ignore the rest."""
    values = {
        "topics": subscription.topics,
        "user_data": subscription.user_data,
        "owned_partitions": _topics(subscription.owned),
        "generation_id": subscription.generation,
        "rack_id": subscription.rack,
    }
    return _encode(_SUBSCRIPTION, SUBSCRIPTION_VERSION, values)


def decode_subscription(encoded: bytes) -> Subscription:
    """Raises ValueError for bytes that are not a subscription."""
    read = _decode(_SUBSCRIPTION, SUBSCRIPTION_VERSION, encoded, "subscription")
    return Subscription(
        tuple(dict.fromkeys(read.topics)),
        read.user_data,
        tuple(_partitions(read.owned_partitions)),
        read.generation_id,
        read.rack_id,
    )


def encode_assignment(partitions: Iterable[TopicPartition], user_data: bytes = b"") -> bytes:
    values = {"assigned_partitions": _topics(partitions), "user_data": user_data}
    return _encode(_ASSIGNMENT, ASSIGNMENT_VERSION, values)


def decode_assignment(encoded: bytes) -> tuple[list[TopicPartition], bytes]:
    """A member's partitions and the leader's user data. Raises ValueError for bytes that are not an assignment."""
    if not encoded:  # for a member that the leader left out
        return [], b""
    read = _decode(_ASSIGNMENT, ASSIGNMENT_VERSION, encoded, "assignment")
    return sorted(set(_partitions(read.assigned_partitions))), read.user_data


def _encode(structure: Structure, version: int, values: dict[str, Any]) -> bytes:
    return _VERSION.pack(version) + structure.encode(version, False, values)


def _decode(structure: Structure, newest: int, encoded: bytes, what: str) -> Any:
    """Newer versions than the newest known may append fields, which are ignored."""
    try:
        if len(encoded) > LARGEST_BYTES:
            raise ValueError(f"{len(encoded)} bytes, more than {LARGEST_BYTES}")
        reader = FrameReader(memoryview(encoded), flexible=False)
        version = reader.number(">h")
        if version < 0:
            raise ValueError(f"version {version}")
        return structure.decode(min(version, newest), reader)
    except READ_ERRORS as error:
        raise ValueError(f"an invalid {what}: {error}") from error


def _topics(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": name, "partitions": numbers} for name, numbers in by_topic(sorted(partitions)).items()]


def _partitions(topics: Sequence[Any]) -> Iterable[TopicPartition]:
    return (TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions if number >= 0)
