"""Parsers of option values. An error names the option, says what is wrong and shows a correct value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from penstock.config.iso_duration import nanoseconds
from penstock.config.times import NOT_A_TIME, RELATIVE, Time, TimesOption, parse_time
from penstock.errors import OptionError, did_you_mean
from penstock.model.offset_spec import (
    AtOffsets,
    ByDuration,
    Earliest,
    EarliestLocal,
    GroupOffsets,
    Latest,
    PerPartition,
    Reset,
    StartMode,
)
from penstock.model.subscription import AssignedPartitions, TopicNames, TopicPattern
from penstock.model.topic_partition import TopicPartition
from penstock.wire.client_rack import ENVIRONMENT, FUNCTION
from penstock.wire.transport.http_address import check_proxy

Each = TypeVar("Each")


def text(name: str, value: str) -> str:
    if not value.strip():
        raise OptionError(name, value, "is empty")
    return value.strip()


def password(name: str, value: str) -> str:
    """Unchanged, as in Kafka: a password may begin or end with a blank."""
    if not value:
        raise OptionError(name, None, "is empty")
    return value


def number(low: int, high: int = 2**63 - 1) -> Callable[[str, str], int]:
    def parse(name: str, value: str) -> int:
        try:
            parsed = int(value)
        except ValueError:
            raise OptionError(name, value, "is not a whole number") from None
        if not low <= parsed <= high:
            limit = f"at least {low}" if parsed < low else f"at most {high}"
            raise OptionError(name, value, f"must be {limit}")
        return parsed

    return parse


def fraction(low: float, high: float) -> Callable[[str, str], float]:
    def parse(name: str, value: str) -> float:
        try:
            parsed = float(value)
        except ValueError:
            raise OptionError(name, value, "is not a number") from None
        if not low <= parsed <= high:
            raise OptionError(name, value, f"must be from {low:g} to {high:g}")
        return parsed

    return parse


def milliseconds(low: int) -> Callable[[str, str], float]:
    parse = number(low, 2**31 - 1)
    return lambda name, value: parse(name, value) / 1000


def flag(name: str, value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise OptionError(name, value, "must be true or false")
    return value.strip().lower() == "true"


def one_of(*choices: str) -> Callable[[str, str], str]:
    def parse(name: str, value: str) -> str:
        wanted = value.strip().lower()
        for choice in choices:
            if choice.lower() == wanted:
                return choice
        raise OptionError(name, value, f"must be one of {', '.join(choices)}", did_you_mean(wanted, choices))

    return parse


def hostname_check(name: str, value: str) -> bool:
    """Kafka's endpoint identification algorithm: `https`, or empty for no check."""
    return bool(value.strip() and one_of("https")(name, value))


def http_proxy(name: str, value: str) -> str:
    check_proxy(name, value.strip())
    return value.strip()


def rack(name: str, value: str) -> str:
    """Parse `client.rack`: a name, `env:VARIABLE` or `python:module:function`, looked up in the process that reads."""
    found = text(name, value)
    for prefix, pattern in ((ENVIRONMENT, r"[^\s=]+"), (FUNCTION, r"[^\W\d][\w.]*:[^\W\d][\w.]*")):
        if found.startswith(prefix) and not re.fullmatch(pattern, found.removeprefix(prefix)):
            hint = "Examples: env:ZONE, python:my_module:zone, or the name of the rack"
            raise OptionError(name, value, "names no variable or function", hint)
    return found


def reset_rule(name: str, value: str) -> Reset:
    """Parse `auto.offset.reset`, as Kafka does: `earliest`, `latest`, `none`, or `by_duration:PT1H` (KIP-1106)."""
    word, colon, length = value.strip().partition(":")
    if word.lower() != BY_DURATION:
        if word.lower().startswith("by"):
            raise OptionError(name, value, "is not a reset", DURATION_HINT)
        choices = ("earliest", "latest", "none", f"{BY_DURATION}:<duration>")
        return one_of(*choices)(name, value)
    found = nanoseconds(length)
    if not colon or found is None:
        reason = f"{length!r} is not a duration in ISO 8601" if colon else "has no duration"
        raise OptionError(name, value, reason, DURATION_HINT)
    if found < 0:
        raise OptionError(name, value, "is a negative duration", DURATION_HINT)
    return ByDuration(-(-found // 1_000_000))


BY_DURATION = "by_duration"
DURATION_HINT = "Examples: by_duration:PT30M (30 minutes), by_duration:PT1H30M, by_duration:P7D (7 days)"


def topic_names(name: str, value: str) -> TopicNames:
    topics = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
    if not topics:
        raise OptionError(name, value, "names no topic")
    return TopicNames(topics)


def column_names(name: str, value: str) -> tuple[str, ...]:
    """Names separated by commas. Backticks quote one with a comma, as in SQL."""
    parts = re.findall(r"((?:`(?:[^`]|``)*`|[^,`])+)", value)
    if value.count("`") % 2:
        raise OptionError(name, value, "has a backtick without its second one", "Example: key, `a,b`")
    names = tuple(re.sub(r"`((?:[^`]|``)*)`", _unquoted, part.strip()) for part in parts if part.strip())
    if not names:
        raise OptionError(name, value, "names no column", "Example: key, value")
    return names


def _unquoted(quoted: re.Match[str]) -> str:
    return quoted[1].replace("``", "`")


def topic_pattern(name: str, value: str) -> TopicPattern:
    try:
        re.compile(text(name, value))
    except re.error as error:
        raise OptionError(name, value, f"is not a regular expression: {error}") from None
    return TopicPattern(value.strip())


def _json(name: str, value: str, example: str) -> dict[str, Any]:
    try:
        parsed = json.loads(value)
    except ValueError as error:
        raise OptionError(name, value, f"is not JSON: {error}", f"Example: {example}") from None
    if not isinstance(parsed, dict) or not parsed:
        raise OptionError(name, value, "must be a JSON object with at least one topic", f"Example: {example}")
    return parsed


ASSIGN_EXAMPLE = '{"topicA": [0, 1], "topicB": [2]}'
OFFSETS_EXAMPLE = '{"topicA": {"0": 23, "1": -2}, "topicB": "earliest"}'
TIMES_EXAMPLE = '{"topicA": {"0": 1738324800000, "1": "2025-01-31T12:00Z"}, "topicB": "-1h"}'


def assigned_partitions(name: str, value: str) -> AssignedPartitions:
    partitions: list[TopicPartition] = []
    for topic, numbers in _json(name, value, ASSIGN_EXAMPLE).items():
        if not isinstance(numbers, list) or not numbers:
            raise OptionError(name, value, f"topic {topic!r} needs a list of partitions", f"Example: {ASSIGN_EXAMPLE}")
        partitions += [TopicPartition(topic, _whole(name, value, number, 0)) for number in numbers]
    return AssignedPartitions(tuple(dict.fromkeys(partitions)))


def _whole(name: str, value: str, number: object, low: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not low <= number < 2**63:
        raise OptionError(name, value, f"{number!r} is not a whole number of at least {low}")
    return number


def _per_partition(
    name: str, value: str, example: str, parse: Callable[[object], Each]
) -> tuple[dict[str, Each], dict[TopicPartition, Each]]:
    """Parse what a JSON says about partitions, or about whole topics, which Spark's own source does not accept."""
    topics: dict[str, Each] = {}
    partitions: dict[TopicPartition, Each] = {}
    for topic, given in _json(name, value, example).items():
        if not isinstance(given, dict):
            topics[topic] = parse(given)
            continue
        for key, raw in given.items():
            if not key.isdecimal():
                raise OptionError(name, value, f"{key!r} is not a partition of {topic!r}", f"Example: {example}")
            partitions[TopicPartition(topic, int(key))] = parse(raw)
    return topics, partitions


WORDS = {"earliest": -2, "latest": -1}


def offset_mode(name: str, value: str) -> StartMode | TimesOption:
    word = value.strip().lower()
    if word == "earliest":
        return Earliest()
    if word == "earliest-local":
        return EarliestLocal()
    if word == "latest":
        return Latest()
    if word == "group":
        return GroupOffsets()
    if not word.startswith("{"):
        return _time_not_offset(name, value)

    def offset(raw: object) -> int:
        if isinstance(raw, str) and raw.lower() in WORDS:
            return WORDS[raw.lower()]
        if isinstance(raw, str) and RELATIVE.fullmatch(raw.strip()):
            raise OptionError(name, value, f"{raw!r} is not an offset", f"Set {name}ByTimestamp for times in JSON")
        return _whole(name, value, raw, -2)

    return AtOffsets(PerPartition(*_per_partition(name, value, OFFSETS_EXAMPLE, offset)), name)


def _time_not_offset(name: str, value: str) -> TimesOption:
    """A time where offsets are expected. A number is not one: it may be meant as an offset or as milliseconds."""
    text = value.strip()
    if re.fullmatch(r"[+-]?\d+", text):
        hint = f"For a time set {name.replace('Offsets', 'Timestamp')}. Example of offsets: {OFFSETS_EXAMPLE}"
        if text[0] == "-":
            hint = f"For a time add a unit, as in {text}h. Example of offsets: {OFFSETS_EXAMPLE}"
        raise OptionError(name, value, "is neither a time nor JSON with offsets", hint)
    try:
        return TimesOption(name, parse_time(name, value))
    except OptionError as error:
        if error.reason != NOT_A_TIME or RELATIVE.fullmatch(text):
            raise
        near = did_you_mean(text.lower(), ("earliest", "earliest-local", "latest", "group"))
        hint = near or f"Example: {OFFSETS_EXAMPLE}"
        raise OptionError(
            name, value, "must be earliest, earliest-local, latest, group, a time or JSON", hint
        ) from None


def timestamp_mode(name: str, value: str) -> TimesOption:
    return TimesOption(name, parse_time(name, value))


def timestamps_mode(name: str, value: str) -> TimesOption:
    def time(raw: object) -> Time:
        return parse_time(name, raw) if isinstance(raw, str) else _whole(name, value, raw, 0)

    topics, partitions = _per_partition(name, value, TIMES_EXAMPLE, time)
    return TimesOption(name, topics=tuple(topics.items()), partitions=tuple(partitions.items()))


def servers(name: str, value: str) -> tuple[tuple[str, int], ...]:
    example = "Example: broker1:9092,broker2:9092"
    if "@" in value:
        # The error shows no part of the value: the text before an @ is a password, perhaps with commas in it.
        raise OptionError(name, None, "contains a login", f"Set kafka.sasl.jaas.config. {example}")
    servers = []
    for part in filter(None, (part.strip() for part in value.split(","))):
        if "://" in part:
            raise OptionError(
                name, value, f"{part!r} must be host:port without a protocol", "Set kafka.security.protocol"
            )
        host, _, port = part.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise OptionError(name, value, f"{part!r} is not host:port", example)
        servers.append((host, int(port)))
    if not servers:
        raise OptionError(name, value, "names no broker", example)
    return tuple(servers)
