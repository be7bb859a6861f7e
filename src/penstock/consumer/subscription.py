"""The topics that a connector reads, and its streams per topic: named topics, or those that a filter allows (H3)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from penstock.errors import OptionError
from penstock.model.topic_pattern import matching, means_the_same_everywhere

MAX_STREAMS = 1000
"""Streams per topic and member. Members announce their own number, and the leader's work grows with it."""


@dataclass(frozen=True, slots=True)
class AllowTopics:
    """Allows topics whose whole name matches a regular expression. As in Kafka's own filters, a comma means "or"."""

    pattern: str

    def __post_init__(self) -> None:
        _check(self.pattern)

    def allowed(self, topics: Collection[str]) -> set[str]:
        return matching(self.expression, topics)

    @property
    def expression(self) -> str:
        """A regular expression that is found in the names of allowed topics."""
        flags, pattern = _parts(self.pattern)
        return f"{flags}^(?:{pattern})$"

    @property
    def portable(self) -> str | None:
        """A regular expression of whole names that brokers can evaluate; None if it might mean something else there."""
        flags, pattern = _parts(self.pattern)
        return f"{flags}(?:{pattern})" if means_the_same_everywhere(self.expression) else None


@dataclass(frozen=True, slots=True)
class DenyTopics:
    """Allows topics whose whole name does not match a regular expression. A comma means "or"."""

    pattern: str

    def __post_init__(self) -> None:
        _check(self.pattern)

    def allowed(self, topics: Collection[str]) -> set[str]:
        return matching(self.expression, topics)

    @property
    def expression(self) -> str:
        flags, pattern = _parts(self.pattern)
        return f"{flags}^(?!(?:{pattern})$)"

    @property
    def portable(self) -> None:
        """Brokers have no expression for names that do not match."""
        return None


TopicFilter: TypeAlias = AllowTopics | DenyTopics


class StreamSubscription(Protocol):
    @property
    def names(self) -> tuple[str, ...] | None:
        """The topics to ask the cluster about; None asks about all of them."""

    @property
    def pattern(self) -> str | None:
        """A regular expression of whole topic names that the brokers can evaluate; None if they cannot."""

    def threads(self, listing: Mapping[str, int], internal: Collection[str]) -> dict[str, int]:
        """The number of streams per topic. `listing`: the cluster's topics with their partition counts; `internal`:
        topics that a filter does not see."""


@dataclass(frozen=True, slots=True)
class NamedTopics:
    """Named topics with their numbers of streams. A topic that does not exist yet is read once it is created."""

    streams: Mapping[str, int]

    def __post_init__(self) -> None:
        if not self.streams:
            raise OptionError("topics", None, "no topic is named", "Name at least one, as {'words': 2}")
        for topic, count in self.streams.items():
            if not isinstance(topic, str) or not topic:
                raise OptionError("topics", topic, "is not a topic name")
            _check_count(topic, count)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.streams)

    @property
    def pattern(self) -> None:
        return None

    def threads(self, listing: Mapping[str, int], internal: Collection[str]) -> dict[str, int]:
        return dict(self.streams)


@dataclass(frozen=True, slots=True)
class FilteredTopics:
    """All topics that a filter allows, read by the same streams."""

    filter: TopicFilter
    count: int = 1

    def __post_init__(self) -> None:
        _check_count(self.filter.pattern, self.count)

    @property
    def names(self) -> None:
        return None

    @property
    def pattern(self) -> str | None:
        return self.filter.portable

    def threads(self, listing: Mapping[str, int], internal: Collection[str]) -> dict[str, int]:
        allowed = self.filter.allowed([topic for topic in listing if topic not in internal])
        return dict.fromkeys(sorted(allowed), self.count)


def _check_count(what: str, count: object) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_STREAMS:
        hint = f"Give a whole number from 1 to {MAX_STREAMS}"
        raise OptionError(f"streams of {what!r}", count, "is not a number of streams", hint)


def _check(pattern: str) -> None:
    try:
        re.compile("".join(_parts(pattern)))
    except (re.error, AttributeError) as error:
        raise OptionError("filter", pattern, f"is not a regular expression: {error}") from error


def _parts(pattern: str) -> tuple[str, str]:
    """Split a pattern into its leading flags, such as (?i), and the rest: flags must come first in an expression.

    As in Kafka's own filters a comma means "or", because no topic name has one; but not inside {1,3}.
    """
    text = re.sub(r"\s*,\s*(?!\d*\})", "|", pattern.strip())
    flags = re.match(r"(?:\(\?[aimsx]+\))?", text)
    end = 0 if flags is None else flags.end()
    comment_ends = "\n" if "x" in text[:end] else ""
    return text[:end], text[end:] + comment_ends
