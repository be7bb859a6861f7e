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
import logging
import struct
import zlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.consumer.group.assignors import MOST_STREAMS, Threads, thread_id
from penstock.model.topic_partition import TopicPartition

log = logging.getLogger(__name__)

MAGIC = b"penstock\x01"
_GENERATION = struct.Struct(">i")

LARGEST_NOTE = 1 << 20
"""Decompressed: a hundred thousand partitions of one member. A few bytes can claim to be gigabytes, and as Python
objects JSON takes up to twenty times its length."""

ALL_NOTES = 16 * LARGEST_NOTE
"""Of all members together, as far as a leader reads them: the smallest first."""

LONGEST_ID = 512
"""Of a consumer, in characters. The leader repeats it for each of the consumer's partitions, to each member."""


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
        return _GENERATION.pack(generation) + _compressed(
            _json(
                {
                    "consumer": self.consumer_id[-LONGEST_ID:],  # the end is what makes it unique
                    "threads": counts.pop() if len(counts) == 1 else self.threads,
                    "fresh": self.fresh,
                    "streams": _nested(self.streams),
                }
            )
        )

    @staticmethod
    def decode(user_data: bytes, topics: tuple[str, ...]) -> MemberNote | None:
        """None for what is not a note of Penstock. `topics`: what that member subscribes to."""
        return MemberNote._parse(_text(user_data[_GENERATION.size :]), topics)

    @staticmethod
    def _parse(text: bytes | None, topics: tuple[str, ...]) -> MemberNote | None:
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
            told = {topic: int(threads[topic]) for topic in topics}
            known = isinstance(consumer_id, str) and len(consumer_id) <= LONGEST_ID
            if known and all(0 < count <= MOST_STREAMS for count in told.values()):
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
    def decode(user_data: bytes) -> LeaderNote | None:
        """None for what is not a note of Penstock."""
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
            return LeaderNote(str(read["member"]), read["fresh"] is True, streams, others)
        except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
            return None


def member_notes(said: Mapping[str, tuple[bytes, tuple[str, ...]]]) -> dict[str, MemberNote]:
    """By member id the notes that members sent, out of user data and subscribed topics."""
    found: dict[str, MemberNote] = {}
    room = ALL_NOTES
    for member_id, (user_data, topics) in sorted(said.items(), key=lambda item: (len(item[1][0]), item[0])):
        data = user_data[_GENERATION.size :]
        if not data.startswith(MAGIC):
            continue
        if room <= 0:
            log.warning("the notes of the group's members are too long: %s and others count as one stream", member_id)
            break
        text = _text(data)
        room -= LARGEST_NOTE if text is None else len(text)
        if (note := MemberNote._parse(text, topics)) is not None:
            found[member_id] = note
    return found


def leader_notes(
    threads: Threads, consumers: Mapping[str, str], readers: frozenset[str], fresh: bool, room: int
) -> dict[str, bytes]:
    """By member id, the notes for those who can read them. `consumers`: consumer ids by member id.

    All of them together are to fit into `room` bytes: each holds the whole group's threads, and the coordinator keeps
    all of it in one record. Where they do not fit, or one is longer than members read, members are told of their own
    partitions alone.
    """
    own: dict[str, dict[TopicPartition, int]] = {member_id: {} for member_id in readers}
    names = {tp: thread_id(consumers[thread.member_id], thread.stream) for tp, thread in threads.items()}
    for tp, thread in threads.items():
        if thread.member_id in own:
            own[thread.member_id][tp] = thread.stream
    notes: dict[str, bytes] = {}
    for member_id, streams in own.items():
        others = {tp: name for tp, name in names.items() if tp not in streams}
        text = LeaderNote(member_id, fresh, streams, others)._text()
        notes[member_id] = _compressed(text)
        room -= len(notes[member_id])
        if room < 0 or len(text) > LARGEST_NOTE:
            return {m: LeaderNote(m, fresh, each).encode() for m, each in own.items()}
    return notes


def _nested(values: Mapping[TopicPartition, Any]) -> dict[str, dict[int, Any]]:
    found: dict[str, dict[int, Any]] = defaultdict(dict)
    for tp, value in sorted(values.items()):
        found[tp.topic][tp.partition] = value
    return found


def _json(note: Mapping[str, Any]) -> bytes:
    return json.dumps(note, separators=(",", ":")).encode()


def _compressed(text: bytes) -> bytes:
    # Threads' names come again and again: compressed, a partition takes a byte or two.
    return MAGIC + zlib.compress(text)


def _text(data: bytes) -> bytes | None:
    """A note's text; None for what is not a note, or is too long."""
    if not data.startswith(MAGIC):
        return None
    stream = zlib.decompressobj()
    try:
        text = stream.decompress(data[len(MAGIC) :], LARGEST_NOTE)
        return text if stream.eof else None
    except zlib.error:
        return None


def _parsed(text: bytes | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None
