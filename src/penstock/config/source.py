"""Every option, declared once: its name, how its text is read, its default and what it is for.

Parsing, errors, defaults, `--help` and the tables in the docs all come from five: OPTIONS here (the source's own,
named as in Spark's Kafka source), STREAM_OPTIONS (what only a stream looks at), EVENT_TIME_OPTIONS (watermarks),
FORMAT_OPTIONS (what makes typed columns) and KAFKA_OPTIONS (Kafka's own, behind `kafka.`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.config.client import KAFKA_NO_EFFECT, KAFKA_OPTIONS, client_config
from penstock.config.event_time import EVENT_TIME_OPTIONS, EventTimeOptions, event_time_options
from penstock.config.formats import FORMAT_OPTIONS, FormatOptions, format_options
from penstock.config.option import (
    ASSIGN_EXAMPLE,
    OFFSETS_EXAMPLE,
    TIMES_EXAMPLE,
    Option,
    assigned_partitions,
    flag,
    milliseconds,
    number,
    offset_mode,
    one_of,
    timestamp_mode,
    timestamps_mode,
    topic_names,
    topic_pattern,
)
from penstock.config.security import SECURITY_REFUSED
from penstock.config.stream import STREAM_OPTIONS, StreamOptions, stream_options
from penstock.errors import OptionError, did_you_mean
from penstock.model.offset_spec import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTimestamp,
    Earliest,
    EndMode,
    GroupOffsets,
    Latest,
    PerPartition,
    StartMode,
    StartRules,
)
from penstock.model.subscription import Subscription
from penstock.wire.client_config import ClientConfig

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a user asked for: parsed, checked, picklable, and without a secret in its repr."""

    client: ClientConfig
    subscription: Subscription
    starting: StartMode | None = None
    ending: EndMode | None = None
    rules: StartRules = field(default_factory=StartRules)
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool = False
    fail_on_data_loss: bool = True
    poll_timeout: float = 120.0
    offset_tries: int = 1
    offset_retry_interval: float = 1.0
    push_filters: bool | None = None
    stream: StreamOptions = field(default_factory=StreamOptions)
    formats: FormatOptions = field(default_factory=FormatOptions)
    event_time: EventTimeOptions | None = None
    ignored: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """Options that change nothing here, and why: for `warn_of_ignored`."""


SUBSCRIPTIONS = ("subscribe", "subscribePattern", "assign")

OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("subscribe", topic_names, None, "Topics to read, with commas between them."),
        Option(
            "subscribePattern",
            topic_pattern,
            None,
            "A regular expression that is found in the topic names; `^...$` for whole names. Look-around (other than "
            "`^(?!...)`) and back-references can take exponential time on names that others choose.",
        ),
        Option("assign", assigned_partitions, None, f"Single partitions as JSON: `{ASSIGN_EXAMPLE}`."),
        Option(
            "startingOffsets",
            offset_mode,
            None,
            "Where to start: `earliest`, `latest` (streams only), `group` (the offsets that `kafka.group.id` has "
            "committed), or JSON with the next offset per partition or topic, -2 for earliest and -1 for latest: "
            f"`{OFFSETS_EXAMPLE}`. Default: a batch starts at `earliest`; a stream at `group` if a group is named, "
            "else at `latest`.",
        ),
        Option(
            "endingOffsets",
            offset_mode,
            None,
            "Where to stop (exclusive): `latest`, which is what there is at the start, or JSON with an offset per "
            "partition or topic, -1 for latest. Without it a stream goes on for ever.",
        ),
        Option("startingTimestamp", timestamp_mode, None, "Start every partition at this time (ms since 1970)."),
        Option(
            "endingTimestamp",
            timestamp_mode,
            None,
            "Stop every partition before the first record at this time (ms).",
        ),
        Option(
            "startingOffsetsByTimestamp",
            timestamps_mode,
            None,
            f"Start at a time (ms) per partition or topic: `{TIMES_EXAMPLE}`.",
        ),
        Option(
            "endingOffsetsByTimestamp",
            timestamps_mode,
            None,
            "Stop at a time (ms) per partition or topic, as JSON.",
        ),
        Option(
            "startingOffsetsByTimestampStrategy",
            one_of("latest", "error"),
            "latest",
            "For a partition with no record at or after its starting time: begin at its end (`latest`), or fail.",
        ),
        Option(
            "minPartitions",
            number(1, 2**31 - 1),
            None,
            "Cut large ranges until there are about so many tasks.",
        ),
        Option("maxRecordsPerPartition", number(1), None, "The most offsets one task reads."),
        Option("includeHeaders", flag, "false", "Add the `headers` column."),
        Option(
            "failOnDataLoss",
            flag,
            "true",
            "Whether offsets that are gone (retention, a deleted topic) fail the query, or are warned about.",
        ),
        Option(
            "kafkaConsumer.pollTimeoutMs",
            milliseconds(1),
            "120000",
            "How long a task keeps trying without getting a record before it fails, with the history of tries. Under "
            "`read_committed` also how long a batch read waits for open transactions that lie before its end.",
        ),
        Option(
            "fetchOffset.numRetries",
            number(1, 1000),
            "1",
            "How often planning asks for offsets; each time it retries within `kafka.default.api.timeout.ms`.",
        ),
        Option("fetchOffset.retryIntervalMs", milliseconds(0), "1000", "The pause between two of those."),
        Option(
            "filterPushdown",
            one_of("auto", "true", "false"),
            "auto",
            "Whether filters on topic, partition, offset and timestamp narrow what is fetched. Spark allows it when "
            "`spark.sql.python.filterPushdown.enabled` is true; `auto` follows that.",
        ),
        Option(
            "decompressionLimitBytes",
            number(1 << 16, 1 << 30),
            str(256 << 20),
            "The most that one record batch may unpack to; more is taken for an attack or damage.",
        ),
    )
}

NO_EFFECT = {
    "partition.metadata.cache.ttl.ms": "partition.discovery.interval.ms says how often to look for partitions",
    "groupIdPrefix": "no consumer group is joined",
}
"""Options of Spark's source that change nothing here: taken, with a warning."""

DESERIALIZER_ADVICE = "Keys and values leave Kafka as bytes: say what they are by keyFormat and valueFormat"

REFUSED = {
    "kafka.key.deserializer": DESERIALIZER_ADVICE,
    "kafka.value.deserializer": DESERIALIZER_ADVICE,
    "kafka.enable.auto.commit": "A stream with kafka.group.id commits by itself what it has finished: see commitMode",
    "kafka.interceptor.classes": "Interceptors can change records, and are Java classes: use DataFrame operations",
    "path": "A topic is not a path: use option subscribe",
    **SECURITY_REFUSED,
}

RESET_ADVICE = (
    "Set the source option startingOffsets to say where to start. (It is taken together with kafka.group.id, for "
    "partitions where the group has no offset)"
)


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Read a user's options; raises OptionError for the first wrong one. Names are taken in any case, as Spark does."""
    values, ignored = _parse_each(given)
    chosen = [name for name in SUBSCRIPTIONS if name in values]
    if len(chosen) != 1:
        what = f"only one of {', '.join(SUBSCRIPTIONS)} may be given" if chosen else "names what to read and is missing"
        hint = "" if chosen else f"Or give {' or '.join(SUBSCRIPTIONS[1:])}"
        raise OptionError(" and ".join(chosen) or SUBSCRIPTIONS[0], None, what, hint)
    if "kafka.bootstrap.servers" not in values:
        raise OptionError("kafka.bootstrap.servers", None, "is missing", "Example: broker1:9092,broker2:9092")
    group = values.get("kafka.group.id")
    starting = _first_of(values, "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
    ending = _first_of(values, "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
    if isinstance(starting, GroupOffsets) and group is None:
        raise OptionError("startingOffsets", "group", "needs the group's name", "Set kafka.group.id")
    if isinstance(ending, GroupOffsets):
        raise OptionError("endingOffsets", "group", "a group's offsets say where to start, not where to stop")
    if "kafka.auto.offset.reset" in values and group is None:
        reset = values["kafka.auto.offset.reset"]
        raise OptionError("kafka.auto.offset.reset", reset, "is not supported without a group", RESET_ADVICE)
    if isinstance(ending, Earliest):
        raise OptionError("endingOffsets", "earliest", "the end cannot be the beginning", "Set latest or JSON")
    if (place := _place_of(EARLIEST, ending)) is not None:
        raise OptionError("endingOffsets", f"{place}: {EARLIEST}", "the end cannot be the beginning", "Set an offset")
    _check_order(starting, ending)
    pushdown = values.get("filterPushdown", "auto")
    formats = format_options(values)
    return SourceOptions(
        client=client_config(values),
        subscription=values[chosen[0]],
        starting=starting,
        ending=ending,
        rules=StartRules(
            group,
            values.get("kafka.auto.offset.reset"),
            fail_on_no_match=values.get("startingOffsetsByTimestampStrategy") == "error",
        ),
        min_partitions=values.get("minPartitions"),
        max_records_per_partition=values.get("maxRecordsPerPartition"),
        include_headers=values.get("includeHeaders", False),
        fail_on_data_loss=values.get("failOnDataLoss", True),
        poll_timeout=values.get("kafkaConsumer.pollTimeoutMs", 120.0),
        offset_tries=values.get("fetchOffset.numRetries", 1),
        offset_retry_interval=values.get("fetchOffset.retryIntervalMs", 1.0),
        push_filters=None if pushdown == "auto" else pushdown == "true",
        stream=stream_options(values, group),
        formats=formats,
        event_time=event_time_options(values, formats),
        ignored=tuple(ignored.items()),
    )


def _parse_each(given: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The values by the names of the tables, and what has no effect, with the reason."""
    everything = OPTIONS | STREAM_OPTIONS | EVENT_TIME_OPTIONS | FORMAT_OPTIONS | KAFKA_OPTIONS
    known = {name.lower(): option for name, option in everything.items()}
    idle = {name.lower(): reason for name, reason in (NO_EFFECT | KAFKA_NO_EFFECT).items()}
    values: dict[str, Any] = {}
    ignored: dict[str, str] = {}
    for key, value in given.items():
        name = key.lower()
        if name in REFUSED:
            raise OptionError(key, value, "is not supported", REFUSED[name])
        if name in idle:
            ignored[key] = idle[name]
        elif name not in known:
            names = [*everything, *NO_EFFECT, *sorted(KAFKA_NO_EFFECT)]
            # Without its value: a misspelt name may stand before a password.
            raise OptionError(key, None, "is unknown", did_you_mean(key, names) or _prefix_hint(key))
        else:
            values[known[name].name] = known[name].parse(known[name].name, value)
    return values, ignored


def warn_of_ignored(options: SourceOptions) -> None:
    """Say which options change nothing here. Called once per query, in the process that plans it."""
    for name, reason in options.ignored:
        log.warning("option %s has no effect: %s", name, reason)


def _prefix_hint(key: str) -> str:
    if "kafka." + key.lower() in KAFKA_OPTIONS:
        return f"Did you mean kafka.{key}?"
    return "Kafka's own settings begin with kafka."


def _first_of(values: Mapping[str, Any], *names: str) -> Any:
    """The first given of several ways to say one thing: the order of precedence is Spark's."""
    return next((values[name] for name in names if name in values), None)


def ignored_in_batch(options: SourceOptions) -> SourceOptions:
    """The options, with those that only a stream looks at among the ignored ones."""
    names = (*options.stream.given, *(options.event_time.given if options.event_time else ()))
    reasons = tuple((name, "this is a batch read") for name in names)
    return replace(options, ignored=(*options.ignored, *reasons))


def check_batch(options: SourceOptions) -> None:
    """What a batch read refuses, as Spark's source does: it must not start at the end."""
    advice = "A batch reads what is there already. Set earliest, group, or JSON with offsets"
    if isinstance(options.starting, Latest):
        raise OptionError("startingOffsets", "latest", "a batch cannot start at the end", advice)
    if (place := _place_of(LATEST, options.starting)) is not None:
        raise OptionError("startingOffsets", f"{place}: {LATEST}", "a batch cannot start at the end", advice)


def _place_of(offset: int, mode: StartMode | EndMode | None) -> str | None:
    """The first topic or partition whose offset JSON has this offset."""
    if not isinstance(mode, AtOffsets):
        return None
    places = [*mode.offsets.topics.items(), *mode.offsets.partitions.items()]
    return next((str(place) for place, given in places if given == offset), None)


def _check_order(starting: StartMode | None, ending: EndMode | None) -> None:
    """A start after its end is a mistake, not an empty read."""
    match starting, ending:
        case AtTimestamp(timestamp=int() as low), AtTimestamp(timestamp=int() as high):
            pairs = [("every partition", low, high)]
        case (
            AtTimestamp(timestamp=PerPartition() as lows),
            AtTimestamp(timestamp=PerPartition() as highs),
        ) | (AtOffsets(offsets=lows), AtOffsets(offsets=highs)):
            places = [*lows.partitions, *highs.partitions]
            pairs = [(str(tp), lows.get(tp) or 0, highs.get(tp) or 0) for tp in places if highs.get(tp) is not None]
            pairs += [(topic, low, highs.topics[topic]) for topic, low in lows.topics.items() if topic in highs.topics]
        case _:
            return
    assert starting is not None
    assert ending is not None
    for place, low, high in pairs:
        if low > high >= 0:
            raise OptionError(_option_of(starting), low, f"lies after {_option_of(ending)} = {high} for {place}")


def _option_of(mode: StartMode | EndMode) -> str:
    return mode.option if isinstance(mode, AtTimestamp | AtOffsets) else ""
