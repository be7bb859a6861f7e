"""`--topic-option TOPIC:NAME=VALUE`: options of the source for some topics only."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.config.formats import FORMAT_OPTIONS, WITH_SCHEMA
from penstock.config.option import merged, option_key
from penstock.config.registry import REGISTRY_OPTIONS
from penstock.config.source import parse_options
from penstock.errors import OptionError

_FORMAT_OPTIONS = frozenset(option_key(name) for name in FORMAT_OPTIONS)
_REGISTRY = frozenset(option_key(name) for name in REGISTRY_OPTIONS)
_FORMATS = frozenset(("keyformat", "valueformat"))


class TopicOption(NamedTuple):
    topics: str
    """A name, in which `*` stands for any characters."""
    name: str
    value: str

    def is_of(self, topic: str) -> bool:
        return re.fullmatch(".*".join(map(re.escape, self.topics.split("*"))), topic) is not None


def topic_option(text: str) -> TopicOption:
    """Parse an argument. Names of topics contain no colon."""
    topics, _, assignment = text.partition(":")
    name, equals, value = assignment.partition("=")
    if not topics.strip() or not name.strip() or not equals:
        # Without the text: the value may be a password.
        raise argparse.ArgumentTypeError("is not TOPIC:NAME=VALUE, such as orders:valueFormat=avro")
    return TopicOption(topics.strip(), name.strip(), value)


class TopicOptions:
    """The options with which each topic is read."""

    def __init__(self, given: Mapping[str, str], more: Sequence[TopicOption] = ()) -> None:
        """`given`: those of all topics. Raises OptionError if an option is wrong."""
        self._given = dict(given)
        self._more = tuple(more)
        for topics in dict.fromkeys(["topic", *(each.topics for each in more)]):
            self._check(topics.replace("*", "x"))

    @property
    def connection(self) -> dict[str, str]:
        """The options of all topics, without those of typed columns."""
        return {name: value for name, value in self._given.items() if option_key(name) not in _FORMAT_OPTIONS}

    def of(self, topic: str) -> dict[str, str]:
        """Later arguments replace earlier ones. The registry of all topics is only for those whose format has schemas:
        elsewhere it would be refused as an option without effect."""
        mine = merged(*({each.name: each.value} for each in self._more if each.is_of(topic)))
        found = merged(self._given, mine)
        formats = {value.strip().lower() for name, value in found.items() if option_key(name) in _FORMATS}
        if formats.isdisjoint(WITH_SCHEMA):
            found = {name: value for name, value in found.items() if name in mine or option_key(name) not in _REGISTRY}
        return found | {"subscribe": topic}

    def _check(self, topic: str) -> None:
        options = parse_options(self.of(topic))
        if options.formats.flatten or options.formats.mode == "DEADLETTER":
            raise OptionError("flatten and mode=DEADLETTER", None, "are for queries, not for a page that only reads")
        if options.columns is not None:
            raise OptionError("columns", None, "is for queries: the page has its own columns")
        if options.where is not None:
            raise OptionError("where", None, "is for queries: the page has a search box")
