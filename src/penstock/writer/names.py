"""Durable names of exactly-once: transactional ids, and the private groups that hold notes.

They are computed from explicit, versioned fields: all attempts at a task, and every restart of its query, must compute
the same ones. A transactional id belongs to one task of one writer. The note of a task is the metadata of an offset
that its private group has committed for partition 0 of the note topic.

A group for each task, not one for all: brokers refuse an offset of a partition that the topic does not have, and a
batch may have more tasks than the topic has partitions.

To change names: raise VERSION, and let tasks read the notes of the version before where there is none of the new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

VERSION = 1

Kind: TypeAlias = Literal["query", "job", "check"]
"""What `SinkScope.id` identifies: a streaming query, one batch write, or the check when a query starts."""


@dataclass(frozen=True, slots=True)
class SinkScope:
    """The writer whose rows are written once."""

    prefix: str
    kind: Kind
    id: str
    target: str
    """The topic, or `*` if rows name their topics. A query may write to two topics in `foreachBatch`."""

    @property
    def name(self) -> str:
        return ":".join((self.prefix, f"v{VERSION}", self.kind, self.id, self.target))

    def task(self, number: int) -> str:
        """The transactional id of a task, and the name of the group with its note."""
        return f"{self.name}:{number}"

    @property
    def intent(self) -> str:
        """The group with the driver's intent."""
        return f"{self.name}:intent"
