"""Where new partitions start: at the group's offsets, or at `start` if the whole group starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeAlias

from penstock.config.consumer import ConsumerConfig
from penstock.config.times import NOT_A_TIME, now_ms, parse_time, resolved
from penstock.consumer.fetch.chunk import LAST_OFFSET
from penstock.errors import OptionError
from penstock.masking import get_logger
from penstock.model.offset_spec import (
    AtOffsets,
    AtTimestamp,
    Earliest,
    EarliestLocal,
    GroupOffsets,
    Latest,
    PerPartition,
    StartMode,
    StartRules,
    milliseconds_at,
)
from penstock.model.topic_partition import TopicPartition
from penstock.planner.starting_offsets import resolve_start
from penstock.wire.api.group_member import NOT_A_MEMBER, GroupMember
from penstock.wire.api.offset_fetch import Committed
from penstock.wire.cluster import Cluster

log = get_logger(__name__)

Start: TypeAlias = StartMode | str | datetime | Mapping[TopicPartition, int]

_WORDS: dict[str, StartMode] = {
    "earliest": Earliest(),
    "earliest-local": EarliestLocal(),
    "latest": Latest(),
    "group": GroupOffsets(),
}
_EXAMPLE = (
    'Give "group", "earliest", "earliest-local", "latest", a time such as "-1h", a datetime with a time zone, or '
    '{TopicPartition("words", 0): 42}'
)


def start_mode(start: Start | None) -> StartMode:
    """Parse the `start` argument of ConsumerConnector."""
    match start:
        case None:
            return GroupOffsets()
        case Earliest() | EarliestLocal() | Latest() | GroupOffsets() | AtTimestamp() | AtOffsets():
            return start
        case str() if start in _WORDS:
            return _WORDS[start]
        case str() if not start.strip().isdecimal():
            return AtTimestamp(_milliseconds(start), option="start")
        case datetime() if start.tzinfo is not None:
            # Not below 0: Kafka's negative timestamps have special meanings.
            return AtTimestamp(max(0, milliseconds_at(start)), option="start")
        case Mapping() if start and all(_is_position(tp, at) for tp, at in start.items()):
            offsets = {TopicPartition(*tp): at for tp, at in start.items()}
            return AtOffsets(PerPartition(partitions=offsets), option="start")
    raise OptionError("start", start, "is not a place to start from", _EXAMPLE)


def _milliseconds(start: str) -> int:
    """A time that is relative to this moment, or ISO 8601."""
    try:
        return resolved(parse_time("start", start), now_ms())
    except OptionError as error:
        if error.reason != NOT_A_TIME:
            raise
        raise OptionError("start", start, "is not a place to start from", _EXAMPLE) from None


def checked_start(start: Start | None, config: ConsumerConfig) -> StartMode:
    """Raises OptionError for a start of the whole group, if members cannot know whether the whole group starts."""
    mode = start_mode(start)
    if config.server_assigns and not isinstance(mode, GroupOffsets):
        raise OptionError(
            "start",
            start,
            "is not supported with group.protocol=consumer, in which a member does not know whether the whole group "
            "starts",
            "Set the offsets before the group starts, with penstock groups reset, or use group.protocol=classic",
        )
    return mode


def check_topics(mode: StartMode, are_read: Callable[[str], bool]) -> None:
    """Raises OptionError if `start` names a topic that the streams do not read."""
    match mode:
        case AtOffsets(PerPartition() as named) | AtTimestamp(PerPartition() as named):
            for topic in sorted(named.names()):
                if not are_read(topic):
                    raise OptionError(
                        "start", topic, "is not a topic of these streams", "Name only topics that the streams read"
                    )


def part_for(mode: StartMode, partitions: list[TopicPartition]) -> StartMode:
    """The part of a start that names these partitions. The others belong to other members."""

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


class StartingOffsets:
    """Finds the offsets at which newly assigned partitions start. For the membership thread."""

    def __init__(
        self,
        config: ConsumerConfig,
        mode: StartMode,
        cluster: Cluster,
        commit: Callable[[Mapping[TopicPartition, int], Mapping[TopicPartition, int], float], None],
        member: Callable[[], GroupMember] = lambda: NOT_A_MEMBER,
    ) -> None:
        """`member` is that as which to ask for committed offsets."""
        self._member = member
        self._config = config
        self._mode = mode
        self._cluster = cluster
        self._commit = commit

    def find(self, partitions: list[TopicPartition], fresh: bool) -> dict[TopicPartition, Committed]:
        """The group's offsets; or `start`, if every member of the group has just started (`fresh`).

        Partitions without an offset are left out: the leader finder applies `auto.offset.reset` to them.
        """
        group = self._config.group
        if not partitions:
            return {}
        if isinstance(self._mode, GroupOffsets):
            return self._cluster.commits(group, partitions, member=self._member)
        if not fresh:
            log.info("group %r is running already: it continues from its own offsets, not from `start`", group)
            return self._cluster.commits(group, partitions, member=self._member)
        rules = StartRules(group, self._config.reset)
        found = resolve_start(part_for(self._mode, partitions), partitions, self._cluster, rules)
        # Commit at once: a member that got one of these partitions before the first commit would start elsewhere.
        self._commit(found, {}, self._config.client.request_timeout)
        return {tp: Committed(offset) for tp, offset in found.items()}


def _is_position(tp: object, offset: object) -> bool:
    named = isinstance(tp, tuple) and len(tp) == 2 and isinstance(tp[0], str) and isinstance(tp[1], int)
    return named and isinstance(offset, int) and 0 <= offset <= LAST_OFFSET
