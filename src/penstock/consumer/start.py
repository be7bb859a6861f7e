"""Where a group begins that starts as a whole, as a user of the connector says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeAlias

from penstock.consumer.fetch.chunk import LAST_OFFSET
from penstock.errors import OptionError
from penstock.model.offset_spec import (
    AtOffsets,
    AtTimestamp,
    Earliest,
    GroupOffsets,
    Latest,
    PerPartition,
    StartMode,
    milliseconds_at,
)
from penstock.model.topic_partition import TopicPartition

Start: TypeAlias = StartMode | str | datetime | Mapping[TopicPartition, int]

_WORDS: dict[str, StartMode] = {"earliest": Earliest(), "latest": Latest(), "group": GroupOffsets()}
_EXAMPLE = 'Give "group", "earliest", "latest", a datetime with a time zone, or {TopicPartition("words", 0): 42}'


def start_mode(start: Start | None) -> StartMode:
    """What `ConsumerConnector(start=...)` means."""
    match start:
        case None:
            return GroupOffsets()
        case Earliest() | Latest() | GroupOffsets() | AtTimestamp() | AtOffsets():
            return start
        case str() if start in _WORDS:
            return _WORDS[start]
        case datetime() if start.tzinfo is not None:
            # Not below 0, where Kafka's numbers mean something else.
            return AtTimestamp(max(0, milliseconds_at(start)), option="start")
        case Mapping() if start and all(_is_position(tp, at) for tp, at in start.items()):
            offsets = {TopicPartition(*tp): at for tp, at in start.items()}
            return AtOffsets(PerPartition(partitions=offsets), option="start")
    raise OptionError("start", start, "is no place to start from", _EXAMPLE)


def check_topics(mode: StartMode, are_read: Callable[[str], bool]) -> None:
    """A start that names a topic which is not read would begin elsewhere, with a line in the log."""
    match mode:
        case AtOffsets(PerPartition() as named) | AtTimestamp(PerPartition() as named):
            for topic in sorted(named.names()):
                if not are_read(topic):
                    raise OptionError("start", topic, "is no topic of these streams", "Name the topics that are read")


def mine_of(mode: StartMode, partitions: list[TopicPartition]) -> StartMode:
    """The part of a start that speaks of these partitions: the others are those of other members."""

    def part(named: PerPartition) -> PerPartition:
        mine, topics = set(partitions), {tp.topic for tp in partitions}
        return PerPartition(
            {topic: at for topic, at in named.topics.items() if topic in topics},
            {tp: at for tp, at in named.partitions.items() if tp in mine},
        )

    match mode:
        case AtOffsets(offsets, option):
            return AtOffsets(part(offsets), option)
        case AtTimestamp(PerPartition() as times, option):
            return AtTimestamp(part(times), option)
    return mode


def _is_position(tp: object, offset: object) -> bool:
    named = isinstance(tp, tuple) and len(tp) == 2 and isinstance(tp[0], str) and isinstance(tp[1], int)
    return named and isinstance(offset, int) and 0 <= offset <= LAST_OFFSET
