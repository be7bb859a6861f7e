"""The user data of Penstock members: bytes that Kafka's group protocol leaves to clients. Pure.

In JoinGroup a member sends its consumer id, its streams per topic, the stream of each partition that it owns, and
whether it has just started. In SyncGroup the leader sends each Penstock member the thread of each partition, of the
whole group if that is not too long, and whether all members have just started.

Every client in a group sees these bytes. The range and roundrobin assignors of Java, librdkafka and kafka-python ignore
them. Java's cooperative-sticky reads a generation (INT32) from their start if the subscription has none, so a member's
user data begins with one; librdkafka and kafka-python read it from the subscription only. Bytes of other clients may be
anything: bytes that are not exactly in this format are ignored.

The format is durable: members of different versions meet in a group.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.config.consumer import FIXED
from penstock.consumer.group.assignors import Threads, thread_id
from penstock.consumer.subscription import MAX_STREAMS
from penstock.masking import get_logger
from penstock.model.topic_partition import TopicPartition

log = get_logger(__name__)

MAGIC = b"penstock\x01"
_GENERATION = struct.Struct(">i")

MAX_USER_DATA = 1 << 20
"""Decompressed bytes of one member: enough for a hundred thousand partitions. A few compressed bytes can expand to
gigabytes, and as Python objects JSON takes up to twenty times its length."""

MAX_USER_DATA_OF_GROUP = 16 * MAX_USER_DATA
"""Decompressed bytes of all members together. The leader reads the smallest first, and ignores the rest."""

MAX_ID_LENGTH = 512
"""Characters of a consumer id. The leader repeats it for each of the consumer's partitions, to each member."""


def needs_user_data(assignors: Collection[str], threads: Mapping[str, int]) -> bool:
    """Whether a member must tell others more than Kafka's protocol does. Otherwise it sends nothing, because brokers do
    not convert a group to the protocol `consumer` while members send user data."""
    return FIXED in assignors or any(count > 1 for count in threads.values())


@dataclass(frozen=True, slots=True)
class SubscriptionUserData:
    """What a member sends to the leader."""

    consumer_id: str
    threads: Mapping[str, int]
    fresh: bool = False
    """Whether the member has had no assignment since it was started."""
    streams: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The stream of each partition that the member owns."""

    def encode(self, generation: int) -> bytes:
        counts = set(self.threads.values())
        return _GENERATION.pack(generation) + _compressed(
            _json(
                {
                    "consumer": self.consumer_id[-MAX_ID_LENGTH:],  # its end makes it unique
                    "threads": counts.pop() if len(counts) == 1 else self.threads,
                    "fresh": self.fresh,
                    "streams": _nested(self.streams),
                }
            )
        )

    @staticmethod
    def decode(user_data: bytes, topics: tuple[str, ...]) -> SubscriptionUserData | None:
        """None for bytes that Penstock did not write. `topics`: the member's subscribed topics."""
        return SubscriptionUserData._parse(_text(user_data[_GENERATION.size :]), topics)

    @staticmethod
    def _parse(text: bytes | None, topics: tuple[str, ...]) -> SubscriptionUserData | None:
        read = _parsed(text)
        try:
            threads = read["threads"]
            if isinstance(threads, int):
                threads = dict.fromkeys(topics, threads)
            consumer_id = read["consumer"]
            streams = {
                TopicPartition(topic, int(number)): int(stream)
                for topic, numbers in read["streams"].items()
                for number, stream in numbers.items()
            }
            counts = {topic: int(threads[topic]) for topic in topics}
            known = isinstance(consumer_id, str) and len(consumer_id) <= MAX_ID_LENGTH
            if known and all(0 < count <= MAX_STREAMS for count in counts.values()):
                return SubscriptionUserData(consumer_id, counts, read["fresh"] is True, streams)
        except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
            pass
        return None


@dataclass(frozen=True, slots=True)
class AssignmentUserData:
    """What the leader sends to a member."""

    member_id: str
    """The receiver. A static member that restarts gets the user data of its predecessor, which has another member
    id."""
    fresh: bool
    """Whether every member of this generation has just started."""
    streams: Mapping[TopicPartition, int]
    """The member's own partitions."""
    others: Mapping[TopicPartition, str] = field(default_factory=dict)
    """The thread ids of the group's other partitions."""

    def threads_of_group(self, consumer_id: str) -> dict[str, dict[int, str]]:
        """The thread id by topic and partition. Own threads are named by `consumer_id`, the current one."""
        found: dict[str, dict[int, str]] = defaultdict(dict)
        for tp, thread in self.others.items():
            found[tp.topic][tp.partition] = thread
        for tp, stream in self.streams.items():
            found[tp.topic][tp.partition] = thread_id(consumer_id, stream)
        return dict(found)

    def encode(self) -> bytes:
        return _compressed(self._text())

    def _text(self) -> bytes:
        return _json(
            {
                "member": self.member_id,
                "fresh": self.fresh,
                "streams": _nested(self.streams),
                "others": _nested(self.others),
            }
        )

    @staticmethod
    def decode(user_data: bytes) -> AssignmentUserData | None:
        """None for bytes that Penstock did not write."""
        read = _parsed(_text(user_data))
        try:
            streams = {
                TopicPartition(topic, int(number)): int(stream)
                for topic, numbers in read["streams"].items()
                for number, stream in numbers.items()
            }
            others = {
                TopicPartition(topic, int(number)): str(thread)
                for topic, numbers in read["others"].items()
                for number, thread in numbers.items()
            }
            return AssignmentUserData(str(read["member"]), read["fresh"] is True, streams, others)
        except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
            return None


def read_from_members(sent: Mapping[str, tuple[bytes, tuple[str, ...]]]) -> dict[str, SubscriptionUserData]:
    """The user data of the Penstock members, by member id. `sent`: user data and subscribed topics by member id."""
    found: dict[str, SubscriptionUserData] = {}
    room = MAX_USER_DATA_OF_GROUP
    for member_id, (user_data, topics) in sorted(sent.items(), key=lambda item: (len(item[1][0]), item[0])):
        data = user_data[_GENERATION.size :]
        if not data.startswith(MAGIC):
            continue
        if room <= 0:
            log.warning(
                "the user data of the group's members is too long: %s and others count as one stream", member_id
            )
            break
        text = _text(data)
        room -= MAX_USER_DATA if text is None else len(text)
        if (read := SubscriptionUserData._parse(text, topics)) is not None:
            found[member_id] = read
    return found


def encode_for_members(
    threads: Threads, consumers: Mapping[str, str], readers: frozenset[str], fresh: bool, room: int
) -> dict[str, bytes]:
    """The user data for members that read it (`readers`), by member id. `consumers`: consumer ids by member id.

    Together they must fit into `room` bytes: each holds the whole group's threads, and the coordinator stores all of
    them in one record. If they do not fit, or one is longer than members read, each member gets its own partitions
    only.
    """
    own: dict[str, dict[TopicPartition, int]] = {member_id: {} for member_id in readers}
    names = {tp: thread_id(consumers[thread.member_id], thread.stream) for tp, thread in threads.items()}
    for tp, thread in threads.items():
        if thread.member_id in own:
            own[thread.member_id][tp] = thread.stream
    encoded: dict[str, bytes] = {}
    for member_id, streams in own.items():
        others = {tp: name for tp, name in names.items() if tp not in streams}
        text = AssignmentUserData(member_id, fresh, streams, others)._text()
        encoded[member_id] = _compressed(text)
        room -= len(encoded[member_id])
        if room < 0 or len(text) > MAX_USER_DATA:
            return {m: AssignmentUserData(m, fresh, each).encode() for m, each in own.items()}
    return encoded


def _nested(values: Mapping[TopicPartition, Any]) -> dict[str, dict[int, Any]]:
    found: dict[str, dict[int, Any]] = defaultdict(dict)
    for tp, value in sorted(values.items()):
        found[tp.topic][tp.partition] = value
    return found


def _json(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()


def _compressed(text: bytes) -> bytes:
    # Thread ids repeat: compressed, a partition takes a byte or two.
    return MAGIC + zlib.compress(text)


def _text(data: bytes) -> bytes | None:
    """The decompressed text; None for bytes that Penstock did not write, or that are too long."""
    if not data.startswith(MAGIC):
        return None
    stream = zlib.decompressobj()
    try:
        text = stream.decompress(data[len(MAGIC) :], MAX_USER_DATA)
        return text if stream.eof else None
    except zlib.error:
        return None


def _parsed(text: bytes | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None
