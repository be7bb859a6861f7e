"""What Penstock members tell each other, inside of the bytes that Kafka's protocol leaves to clients (user data). Pure.

A member tells the leader its consumer id, its streams per topic, which stream has which of the partitions it holds, and
whether it has just started. The leader tells each Penstock member which thread has which partition, in the whole group
if that is not too long, and whether all members have just started.

Every client in a group sees these bytes, and we see theirs. What others do with them was looked up: the range and
roundrobin assignors of Java, librdkafka and kafka-python do not look. Java's cooperative-sticky reads a generation
(INT32) from their start when the subscription itself has none, so a member's note begins with one; the other two take
it from the subscription alone. What we get is read as if by chance: whatever is not exactly ours is no note.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.consumer.assignors import Threads, thread_id
from penstock.topics import TopicPartition

MAGIC = b"penstock\x01"
_GENERATION = struct.Struct(">i")

LARGEST_NOTE = 16 << 20
"""Decompressed. No note of ours comes near; a few bytes can claim to be gigabytes."""

MOST_STREAMS = 10_000
"""Per topic. Members are dealt partitions thread by thread, so a number that lies costs the leader time."""


@dataclass(frozen=True, slots=True)
class MemberNote:
    """From a member to the leader."""

    consumer_id: str
    threads: Mapping[str, int]
    fresh: bool = False
    """Whether it has had no assignment yet since it was started."""
    streams: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The streams of what it holds."""

    def encode(self, generation: int) -> bytes:
        counts = set(self.threads.values())
        return _GENERATION.pack(generation) + _pack(
            {
                "consumer": self.consumer_id,
                "threads": counts.pop() if len(counts) == 1 else self.threads,
                "fresh": self.fresh,
                "streams": _nested(self.streams),
            }
        )

    @staticmethod
    def decode(user_data: bytes, topics: tuple[str, ...]) -> MemberNote | None:
        """None for what is not a note of Penstock. `topics`: what that member subscribes to."""
        read = _unpack(user_data[_GENERATION.size :])
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
            told = {topic: int(threads[topic]) for topic in topics}
            if isinstance(consumer_id, str) and all(0 < count <= MOST_STREAMS for count in told.values()):
                return MemberNote(consumer_id, told, read["fresh"] is True, streams)
        except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
            pass
        return None


@dataclass(frozen=True, slots=True)
class LeaderNote:
    """From the leader to a member."""

    member_id: str
    """Whom it is for. A static member that starts again is handed the note of the one before it: not for it."""
    fresh: bool
    """Whether every member of this generation has just started."""
    streams: Mapping[TopicPartition, int]
    """The member's own partitions."""
    others: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Threads that have the group's other partitions, by their id."""

    def threads_of_group(self, consumer_id: str) -> dict[str, dict[int, str]]:
        """By topic and partition the thread that has it. Own threads under the id that we have now."""
        found: dict[str, dict[int, str]] = defaultdict(dict)
        for tp, thread in self.others.items():
            found[tp.topic][tp.partition] = thread
        for tp, stream in self.streams.items():
            found[tp.topic][tp.partition] = thread_id(consumer_id, stream)
        return dict(found)

    def encode(self) -> bytes:
        return _pack(
            {
                "member": self.member_id,
                "fresh": self.fresh,
                "streams": _nested(self.streams),
                "others": _nested(self.others),
            }
        )

    @staticmethod
    def decode(user_data: bytes) -> LeaderNote | None:
        """None for what is not a note of Penstock."""
        read = _unpack(user_data)
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
            return LeaderNote(str(read["member"]), read["fresh"] is True, streams, others)
        except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
            return None


def leader_notes(
    threads: Threads, consumers: Mapping[str, str], readers: frozenset[str], fresh: bool, room: int
) -> dict[str, bytes]:
    """By member id, the notes for those who can read them. `consumers`: consumer ids by member id.

    All of them together are to fit into `room` bytes: each holds the whole group's threads, and the coordinator keeps
    all of it in one record. Where they do not fit, members are told of their own partitions alone.
    """
    own: dict[str, dict[TopicPartition, int]] = {member_id: {} for member_id in readers}
    names = {tp: thread_id(consumers[thread.member_id], thread.stream) for tp, thread in threads.items()}
    for tp, thread in threads.items():
        if thread.member_id in own:
            own[thread.member_id][tp] = thread.stream
    notes: dict[str, bytes] = {}
    for member_id, streams in own.items():
        others = {tp: name for tp, name in names.items() if tp not in streams}
        notes[member_id] = LeaderNote(member_id, fresh, streams, others).encode()
        room -= len(notes[member_id])
        if room < 0:
            return {m: LeaderNote(m, fresh, each).encode() for m, each in own.items()}
    return notes


def _nested(values: Mapping[TopicPartition, Any]) -> dict[str, dict[int, Any]]:
    found: dict[str, dict[int, Any]] = defaultdict(dict)
    for tp, value in sorted(values.items()):
        found[tp.topic][tp.partition] = value
    return found


def _pack(note: Mapping[str, Any]) -> bytes:
    # Threads' names come again and again: compressed, a partition takes a byte or two.
    return MAGIC + zlib.compress(json.dumps(note, separators=(",", ":")).encode())


def _unpack(data: bytes) -> Any:
    if not data.startswith(MAGIC):
        return None
    stream = zlib.decompressobj()
    try:
        text = stream.decompress(data[len(MAGIC) :], LARGEST_NOTE)
        return json.loads(text) if stream.eof else None
    except (zlib.error, ValueError, RecursionError):
        return None
