"""Where a read starts and ends, as the user specifies it. Each mode is a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from penstock.model.topic_partition import TopicPartition

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds_at(moment: datetime) -> int:
    """The first millisecond since 1970 that is not before a moment. In whole numbers: `timestamp()` is a float, and
    inexact."""
    return -((EPOCH - moment) // timedelta(milliseconds=1))


EARLIEST, LATEST = -2, -1
"""Kafka's numbers for the two ends of a log."""


@dataclass(frozen=True, slots=True)
class PerPartition:
    """A number for whole topics and for single partitions. A partition's own number takes precedence."""

    topics: Mapping[str, int] = field(default_factory=dict)
    partitions: Mapping[TopicPartition, int] = field(default_factory=dict)

    def get(self, tp: TopicPartition) -> int | None:
        return self.partitions.get(tp, self.topics.get(tp.topic))

    def names(self) -> set[str]:
        return set(self.topics) | {tp.topic for tp in self.partitions}


@dataclass(frozen=True, slots=True)
class Earliest:
    """The first offset of the log."""


@dataclass(frozen=True, slots=True)
class EarliestLocal:
    """The first offset on the leader's own disk: records before it are in tiered storage."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The end of the log."""


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """The offsets that the group has committed."""


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record at or after a time (ms since 1970): one time for all, or one per partition."""

    timestamp: int | PerPartition
    option: str = "startingTimestamp"

    def of(self, tp: TopicPartition) -> int | None:
        return self.timestamp if isinstance(self.timestamp, int) else self.timestamp.get(tp)


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """The next record to read, per partition; -2 is earliest and -1 is latest."""

    offsets: PerPartition
    option: str = "startingOffsets"


@dataclass(frozen=True, slots=True)
class ByDuration:
    """The first record that is not older than this, in milliseconds, when a partition needs a reset (KIP-1106)."""

    milliseconds: int

    def time(self, now: int) -> int:
        """In milliseconds since 1970. Not below 0: Kafka's negative timestamps have special meanings."""
        return max(0, now - self.milliseconds)


Reset: TypeAlias = str | ByDuration
"""`auto.offset.reset`: `earliest`, `latest`, `none`, or a duration."""

StartMode: TypeAlias = Earliest | EarliestLocal | Latest | GroupOffsets | AtTimestamp | AtOffsets

EndMode: TypeAlias = Latest | AtTimestamp | AtOffsets


@dataclass(frozen=True, slots=True)
class StartRules:
    """The fallbacks of a start: the group to ask, its reset rule, and whether a timestamp without a record fails."""

    group: str | None = None
    reset: Reset | None = None
    fail_on_no_match: bool = False
