"""WHICH topics a connector reads, and with how many streams: named ones, or all that a filter lets through (H3)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from penstock.consumer.group.assignors import MOST_STREAMS
from penstock.errors import OptionError
from penstock.model.topic_pattern import matching


@dataclass(frozen=True, slots=True)
class AllowTopics:
    """Every topic whose whole name matches. As in Kafka's own filters, a comma stands for "or"."""

    pattern: str

    def __post_init__(self) -> None:
        _check(self.pattern)

    def allowed(self, topics: Collection[str]) -> set[str]:
        return matching(self.expression, topics)

    @property
    def expression(self) -> str:
        """The same as a regular expression to be found in names."""
        flags, pattern = _parts(self.pattern)
        return f"{flags}^(?:{pattern})$"


@dataclass(frozen=True, slots=True)
class DenyTopics:
    """Every topic whose whole name does not match."""

    pattern: str

    def __post_init__(self) -> None:
        _check(self.pattern)

    def allowed(self, topics: Collection[str]) -> set[str]:
        return matching(self.expression, topics)

    @property
    def expression(self) -> str:
        flags, pattern = _parts(self.pattern)
        return f"{flags}^(?!(?:{pattern})$)"


TopicFilter: TypeAlias = AllowTopics | DenyTopics


class StreamSubscription(Protocol):
    @property
    def names(self) -> tuple[str, ...] | None:
        """The topics to ask the cluster about; None asks about all of them."""

    def threads(self, listing: Mapping[str, int], internal: Collection[str]) -> dict[str, int]:
        """By topic, how many streams read it. `listing`: the cluster's topics with their partitions, `internal`: those
        that a filter does not see."""


@dataclass(frozen=True, slots=True)
class NamedTopics:
    """These topics, with so many streams each. Also those that do not exist yet: they may come."""

    streams: Mapping[str, int]

    def __post_init__(self) -> None:
        if not self.streams:
            raise OptionError("topics", None, "no topic is named", "Name at least one, as {'words': 2}")
        for topic, count in self.streams.items():
            if not isinstance(topic, str) or not topic:
                raise OptionError("topics", topic, "is no name of a topic")
            _check_count(topic, count)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.streams)

    def threads(self, listing: Mapping[str, int], internal: Collection[str]) -> dict[str, int]:
        return dict(self.streams)


@dataclass(frozen=True, slots=True)
class FilteredTopics:
    """Every topic that a filter lets through, all of them by the same streams."""

    filter: TopicFilter
    count: int = 1

    def __post_init__(self) -> None:
        _check_count(self.filter.pattern, self.count)

    @property
    def names(self) -> None:
        return None

    def threads(self, listing: Mapping[str, int], internal: Collection[str]) -> dict[str, int]:
        allowed = self.filter.allowed([topic for topic in listing if topic not in internal])
        return dict.fromkeys(sorted(allowed), self.count)


def _check_count(what: str, count: object) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_STREAMS:
        hint = f"It must be 1 or more, and at most {MOST_STREAMS}"
        raise OptionError(f"streams of {what!r}", count, "is not a number of streams", hint)


def _check(pattern: str) -> None:
    try:
        re.compile("".join(_parts(pattern)))
    except (re.error, AttributeError) as error:
        raise OptionError("filter", pattern, f"is not a regular expression: {error}") from error


def _parts(pattern: str) -> tuple[str, str]:
    """Flags for the whole of it, such as (?i), which must come first in an expression, and the rest of a pattern.

    As in Kafka's own filters a comma means "or": no topic has one in its name. Not inside of {1,3}, though.
    """
    text = re.sub(r"\s*,\s*(?!\d*\})", "|", pattern.strip())
    flags = re.match(r"(?:\(\?[aimsx]+\))?", text)
    end = 0 if flags is None else flags.end()
    comment_ends = "\n" if "x" in text[:end] else ""
    return text[:end], text[end:] + comment_ends
