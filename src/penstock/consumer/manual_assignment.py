"""Partitions that the user has assigned, without a group: in the place of a membership."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from operator import index
from typing import NoReturn, SupportsIndex, TypeAlias

from penstock.consumer.assigned_partitions import checked_partition
from penstock.consumer.fetch.chunk import LAST_OFFSET
from penstock.consumer.fetch.leader_finder import LeaderFinder
from penstock.consumer.rebalancer import Rebalancer
from penstock.consumer.start import start_mode
from penstock.consumer.subscription import MAX_STREAMS
from penstock.consumer.wait_reason import MembershipStatus
from penstock.errors import OptionError
from penstock.metrics.group_counters import GroupCounters
from penstock.model.offset_spec import AtOffsets, AtTimestamp, GroupOffsets, PerPartition, Reset, StartMode
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.group_member import GroupMember

PartitionStart: TypeAlias = int | str | datetime | None
"""An offset, "earliest", "earliest-local", "latest", or a time; None: the default."""

Starts: TypeAlias = Mapping[TopicPartition, int | StartMode | None]
"""An offset, a place to look up, or None for `auto.offset.reset`."""

_EXAMPLE = 'Give [TopicPartition("words", 0)], or a dict with the start of each: {TopicPartition("words", 0): 42}'
_START = 'Give an offset, "earliest", "earliest-local", "latest" or a datetime with a time zone'


def needs_group(call: str) -> OptionError:
    """The error of a call that needs a group, in a connector that has none."""
    return OptionError(
        "group.id",
        None,
        f"is missing, and {call} needs a group",
        "Set group.id and call create_message_streams, or keep offsets yourself: position(), seek() and the starts of "
        "create_assigned_streams",
    )


def checked_partitions(
    partitions: object,
    streams: object,
    default: StartMode,
    reset: Reset,
) -> dict[TopicPartition, int | StartMode | None]:
    """What the user gave to `create_assigned_streams`. `default`: `start` of the connector."""
    if isinstance(partitions, str) or not isinstance(partitions, Collection) or not partitions:
        raise OptionError("partitions", partitions, "are not partitions", _EXAMPLE)
    if not isinstance(streams, int) or isinstance(streams, bool) or not 1 <= streams <= MAX_STREAMS:
        raise OptionError("n", streams, "is not a number of streams", f"Give a whole number from 1 to {MAX_STREAMS}")
    given: Mapping[TopicPartition, object]
    given = partitions if isinstance(partitions, Mapping) else dict.fromkeys(partitions)
    found: dict[TopicPartition, int | StartMode | None] = {}
    for key, at in given.items():
        tp = checked_partition(key)
        found[tp] = _default_start(tp, default) if at is None else _start(tp, at)
        if found[tp] is None and reset == "none":
            raise OptionError("auto.offset.reset", "none", f"gives {tp} no start", "Name a start for each partition")
    return found


def _start(tp: TopicPartition, at: object) -> int | StartMode:
    match at:
        case bool():
            pass
        case SupportsIndex() if 0 <= index(at) <= LAST_OFFSET:
            return index(at)
        case str() | datetime():
            mode = None if at == "group" else start_mode(at)
            if mode is not None:
                return mode
    raise OptionError("partitions", at, f"is not a start of {tp}", _START)


def _default_start(tp: TopicPartition, default: StartMode) -> int | StartMode | None:
    match default:
        case GroupOffsets():
            return None
        case AtOffsets(offsets):
            return offsets.get(tp)
        case AtTimestamp(PerPartition() as times):
            time = times.get(tp)
            return None if time is None else AtTimestamp(time)
    return default


class ManualAssignment:
    """Takes the place of a membership. Asks no coordinator, has no thread, and never rebalances."""

    rebalances = 0
    rebalance_seconds = 0.0
    last_rebalance_seconds: float | None = None

    def __init__(self, starts: Starts, streams: int, owner: Rebalancer, finder: LeaderFinder) -> None:
        self.counters = GroupCounters()  # stays at 0
        self._starts = starts
        self._streams = streams
        self._owner = owner
        self._finder = finder

    def start(self) -> None:
        in_order = sorted(self._starts)
        self._owner.assign_without_group({tp: at % self._streams for at, tp in enumerate(in_order)}, self._starts)

    def close(self, timeout: float, leave: bool = True) -> None:
        """The connector has revoked everything already."""

    def status(self) -> MembershipStatus:
        topics = {tp.topic for tp in self._starts}
        missing = tuple(sorted(topics & self._finder.unknown_topics))
        if unlisted := sorted(self._finder.unlisted):
            tp = unlisted[0]
            return MembershipStatus(
                True, None, len(topics), reason=f"topic {tp.topic!r} has no partition {tp.partition}"
            )
        return MembershipStatus(True, None, len(topics), missing)

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        epochs: Mapping[TopicPartition, int] | None = None,
        timeout: float | None = None,
    ) -> NoReturn:
        raise needs_group("a commit")

    def member_for(self, partitions: Collection[TopicPartition]) -> GroupMember:
        raise needs_group("a commit in a transaction")

    def offset_reader(self) -> GroupMember:
        raise needs_group("reading committed offsets")
