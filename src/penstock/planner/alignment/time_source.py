"""Where event times come from: a protocol with one implementation for record timestamps and one for payloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias

from penstock.model.topic_partition import Offsets, TopicPartition

Marks: TypeAlias = Mapping[TopicPartition, int | None]
"""Event-time watermarks by partition; None is unknown."""


class TimeSource(Protocol):
    """Finds event times of records, and where to stop so that no partition runs ahead (E4)."""

    @property
    def is_indexed(self) -> bool:
        """Whether brokers can be asked for event times."""

    def highest_before(self, offsets: Offsets) -> Mapping[TopicPartition, int | None]:
        """The highest event time of the records before an offset; None or absent if unknown."""

    def timed_at(self, offsets: Offsets) -> set[TopicPartition]:
        """The partitions known to have a record with an event time at this offset, which was read."""

    def timed_from(self, offsets: Offsets, ends: Offsets) -> set[TopicPartition]:
        """The partitions whose next records have an event time."""

    def stops(self, position: Offsets, ends: Offsets, active: Marks, *, limited: bool) -> Offsets:
        """Where to stop, at most at `ends`. `active`: the partitions that the others wait for. `limited`: a trigger may
        read less than these ends."""

    def forget(self, tp: TopicPartition) -> None:
        """Discards what is known of a partition's log."""
