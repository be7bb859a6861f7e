"""The scope of dead letters: who reads. Letters are written once per scope.

A scope is part of two durable names in Kafka: the transactional ids under which letters are written, and the private
group whose committed offsets hold the notes about them. All attempts at a task must compute the same scope, also after
a restart and after an upgrade. Another query over the same topics must have another scope, or its letters would be
taken for those of the first.

Versions of the name, which is the first field of every scope since version 2:

1. `<16 hex digits>`: SHA-256 of the `repr` of group, subscription, formats and schemas. Every change of a class name or
   of a schema changed it. `reader/letter_scope.py` still computes it.
2. `v2:query:<query id>:<key format>:<value format>`: what `LetterScope` writes.

To change names again: raise VERSION, compute the name of version 2 as `earlier` of the new scope, and add a capture
like `tests/golden/upgrade`. Where a scope has no note yet, the note of its earlier name counts. Brokers delete notes
after a week without a new one (`offsets.retention.minutes`), so an earlier version can be dropped some releases later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from penstock.model.topic_partition import TopicPartition

VERSION = 2

PREFIX = "penstock-letters:"
"""First characters of all groups and transactional ids. ACLs name it."""

Reader: TypeAlias = Literal["query", "source", "batch", "read"]
"""What `LetterScope.id` identifies: a streaming query; a source by its options, where the query is unknown; one batch
DataFrame; one read in plain Python."""


@dataclass(frozen=True, slots=True)
class LetterScope:
    """The reader whose letters are written once. Crosses processes inside a plan."""

    reader: Reader
    id: str
    formats: tuple[str, ...] = ()
    """Of key and value: one query may read the same records in two ways."""
    earlier: str | None = None
    """This scope's name in the version before, if that version may have left notes."""

    @property
    def name(self) -> str:
        return ":".join((f"v{VERSION}", self.reader, self.id, *self.formats))


@dataclass(frozen=True, slots=True)
class LetterNames:
    """The durable names of letters about one source partition."""

    group: str
    """Its committed offset of the partition holds the note. It never has members."""
    transactional_id: str


def letter_names(scope_name: str, letter_topic: str, source: TopicPartition) -> LetterNames:
    group = f"{PREFIX}{scope_name}:{letter_topic}"
    return LetterNames(group, f"{group}:{source}")
