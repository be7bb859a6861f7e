"""Notes that exactly-once keeps in Kafka: by them a replay knows what an earlier attempt has committed. Pure.

A `Note` is part of a task's transaction: it is visible if and only if the task's rows are. An `Intent` is written by
the driver before it ends the first transaction of a batch. So if any note names a batch, an intent names it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from penstock.errors import ReplayError

FORMAT = "v1"


@dataclass(frozen=True, slots=True)
class Content:
    """What a task or a batch wrote: the number of its rows, and a hash that does not depend on their order."""

    rows: int = 0
    hash: int = 0

    def __add__(self, other: Content) -> Content:
        return Content(self.rows + other.rows, (self.hash + other.hash) & 0xFFFFFFFFFFFFFFFF)


@dataclass(frozen=True, slots=True)
class Note:
    """The last batch that a task has committed."""

    batch: int
    content: Content

    def __str__(self) -> str:
        return f"{FORMAT} batch={self.batch} rows={self.content.rows} hash={self.content.hash:016x}"

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        fields = _fields(text, where)
        try:
            return cls(int(fields["batch"]), Content(int(fields["rows"]), int(fields["hash"], 16)))
        except (KeyError, ValueError):
            raise _unreadable(text, where) from None


@dataclass(frozen=True, slots=True)
class Intent:
    """The batch whose transactions the driver began to end, the number of its tasks, and what all of them wrote."""

    batch: int
    tasks: int
    content: Content

    def __str__(self) -> str:
        content = self.content
        return f"{FORMAT} batch={self.batch} tasks={self.tasks} rows={content.rows} hash={content.hash:016x}"

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        fields = _fields(text, where)
        try:
            content = Content(int(fields["rows"]), int(fields["hash"], 16))
            return cls(int(fields["batch"]), int(fields["tasks"]), content)
        except (KeyError, ValueError):
            raise _unreadable(text, where) from None


def _fields(text: str, where: str) -> dict[str, str]:
    version, *pairs = text.split(" ")
    if version != FORMAT or not all("=" in pair for pair in pairs):
        raise _unreadable(text, where)
    return dict(pair.split("=", 1) for pair in pairs)


def _unreadable(text: str, where: str) -> ReplayError:
    return ReplayError(
        f"the note of group {where!r} cannot be read: {text[:100]!r}. A newer Penstock may have written it, or another "
        "program commits offsets to that group. Use that version, or set another transactionalIdPrefix"
    )
