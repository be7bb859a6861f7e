"""The result of a rebalance for one member, and the interface that carries it out (H7)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.model.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one generation of the group assigns to one member."""

    generation: int
    member_id: str
    leader: bool
    assignor: str
    partitions: Mapping[TopicPartition, int]
    """The member's partitions, and the number of the stream that reads each."""
    threads_of_group: Mapping[str, Mapping[int, str]]
    """The thread id by topic and partition: of the whole group if its leader is a Penstock consumer (and the group is
    not too large for that), else of this member."""
    fresh: bool
    """Whether all members of the group have just started."""


class PartitionOwner(Protocol):
    """Carries out rebalances. The membership thread calls every method."""

    def owned(self) -> list[TopicPartition]: ...

    def revoke(self, partitions: Collection[TopicPartition], *, lost: bool) -> None:
        """Stop reading partitions. Never raises.

        When it returns, no more of their records are handed out, and their positions are committed (through
        `Membership.commit`), unless they are lost.
        """

    def assign(self, assignment: Assignment) -> None:
        """Start reading the new partitions of an assignment. If it raises, it has started none of them."""

    def failed(self, error: BaseException) -> None:
        """The membership has ended with an error."""
