"""The options of the Spark source and of `read_batches`: the source's own, and all others together.

The source's own are named as in Spark's Kafka source. SOURCE_OPTIONS adds those of a stream, of event time, of typed
columns and of Kafka's client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.config.client import DECOMPRESSION_LIMIT, KAFKA_NO_EFFECT, KAFKA_OPTIONS, client_config
from penstock.config.event_time import EVENT_TIME_OPTIONS, EventTimeOptions, event_time_options
from penstock.config.formats import FORMAT_OPTIONS, FormatOptions, format_options
from penstock.config.in_force import Shown
from penstock.config.log_level import LOG_LEVEL
from penstock.config.option import Ignored, Option, OptionTable, OptionValues, warn_of_ignored
from penstock.config.parsers import (
    ASSIGN_EXAMPLE,
    OFFSETS_EXAMPLE,
    TIMES_EXAMPLE,
    assigned_partitions,
    column_names,
    flag,
    milliseconds,
    number,
    offset_mode,
    one_of,
    text,
    timestamp_mode,
    timestamps_mode,
    topic_names,
    topic_pattern,
)
from penstock.config.security import SECURITY_REFUSED
from penstock.config.stream import STREAM_OPTIONS, StreamOptions, stream_options
from penstock.config.times import TimesOption, now_ms
from penstock.errors import OptionError
from penstock.model.offset_spec import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTimestamp,
    Earliest,
    EarliestLocal,
    EndMode,
    GroupOffsets,
    Latest,
    PerPartition,
    StartMode,
    StartRules,
)
from penstock.model.subscription import Subscription
from penstock.wire.client_config import ClientConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The parsed options of a read: checked, picklable, without a secret in its repr. Times are in seconds."""

    client: ClientConfig
    subscription: Subscription
    starting: StartMode | None = None
    ending: EndMode | None = None
    rules: StartRules
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    columns: tuple[str, ...] | None = None
    """The selected columns, and fields of their structs; None: the default columns."""
    where: str | None = None
    """The predicate that rows must meet, as SQL."""
    include_headers: bool
    fail_on_data_loss: bool
    poll_timeout: float
    offset_tries: int
    offset_retry_interval: float
    push_filters: bool | None
    """None: push filters down if Spark does."""
    stream: StreamOptions
    formats: FormatOptions
    event_time: EventTimeOptions | None
    log_level: int | None = None
    """That of Python's logging; None: not given."""
    shown: Shown = field(default=(), compare=False)
    """The given options, for the log."""
    ignored: Ignored = field(default=(), compare=False)
    """Options that have no effect."""
    stream_only: tuple[str, ...] = field(default=(), compare=False)
    """The given options that only a stream uses: a batch ignores them."""

    @property
    def builds_columns(self) -> bool:
        """Whether tasks build columns by a plan: typed ones, rows that meet a predicate, or columns that the user's own
        functions of event time need."""
        own_times = self.event_time is not None and bool(self.event_time.functions)
        return self.formats.typed or self.where is not None or own_times


def _pushdown(name: str, value: str) -> bool | None:
    return {"auto": None, "true": True, "false": False}[one_of("auto", "true", "false")(name, value)]


SUBSCRIPTIONS = ("subscribe", "subscribePattern", "assign")

OPTIONS = OptionTable(
    Option("subscribe", topic_names, None, "The topics to read, separated by commas."),
    Option(
        "subscribePattern",
        topic_pattern,
        None,
        "A regular expression that is searched in the topic names. Use `^...$` for whole names. Look-around (other "
        "than `^(?!...)`) and back-references can take exponential time on names that other people choose.",
    ),
    Option("assign", assigned_partitions, None, f"The partitions to read, as JSON: `{ASSIGN_EXAMPLE}`."),
    Option(
        "startingOffsets",
        offset_mode,
        None,
        "Where to start: `earliest`, `earliest-local` (the first offset on the leader's own disk; older records are in "
        "tiered storage), `latest` (streams only), `group` (the committed offsets of `kafka.group.id`), a time such as "
        "`-1h` or `2025-01-31T12:00Z` (as `startingTimestamp`), or JSON with the next offset per partition or topic, "
        f"where -2 is earliest and -1 is latest: `{OFFSETS_EXAMPLE}`. Default: `earliest` in a batch; in a stream "
        "`group` if `kafka.group.id` is set, else `latest`.",
    ),
    Option(
        "endingOffsets",
        offset_mode,
        None,
        "Where to stop (exclusive): `latest`, the end of each partition at the start of the query, a time such as "
        "`-5m` (as `endingTimestamp`), or JSON with an offset per partition or topic, where -1 is latest. Default: "
        "`latest` in a batch; a stream does not stop.",
    ),
    Option(
        "startingTimestamp",
        timestamp_mode,
        None,
        "The time at which every partition starts, in milliseconds since 1970, as text in ISO 8601 such as "
        "`2025-01-31T12:00Z`, or relative such as `-1h`, `-30m` or `-2d`. Text without a zone is in the local zone of "
        "the driver. A relative time counts from the moment at which the DataFrame is made.",
    ),
    Option(
        "endingTimestamp",
        timestamp_mode,
        None,
        "The time at which every partition stops: before the first record at or after it. Written like "
        "`startingTimestamp`.",
    ),
    Option(
        "startingOffsetsByTimestamp",
        timestamps_mode,
        None,
        f"The time at which each partition or topic starts, as JSON: `{TIMES_EXAMPLE}`. Times are written like "
        "`startingTimestamp`.",
    ),
    Option(
        "endingOffsetsByTimestamp",
        timestamps_mode,
        None,
        "The time at which each partition or topic stops, as JSON. Times are written like `startingTimestamp`.",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        one_of("latest", "error"),
        "latest",
        "What happens to a partition without a record at or after its starting time. `latest`: it starts at its end. "
        "`error`: the query fails.",
    ),
    Option(
        "minPartitions",
        number(1, 2**31 - 1),
        None,
        "The approximate smallest number of tasks: large ranges of offsets are split to reach it. Default: one task "
        "per partition.",
        "min_partitions",
    ),
    Option(
        "maxRecordsPerPartition",
        number(1),
        None,
        "The largest number of offsets that one task reads. Default: no limit.",
        "max_records_per_partition",
    ),
    Option(
        "columns",
        column_names,
        None,
        "The columns to read, separated by commas, in that order: `key, value`. With typed columns also fields of "
        "structs: `value.user_id, offset` reads a column `value` with that one field. With `flatten`, the names of the "
        "fields. Backticks quote a name with a comma. Only these columns are decoded and sent to Spark. A "
        "`.schema(...)` must select the same. Default: all columns.",
        "columns",
    ),
    Option(
        "where",
        text,
        None,
        "A predicate in Spark's SQL that rows must meet: `value.price > 10 AND headers['kind'] = 'order'`. Tasks apply "
        "it before they send rows to Spark. It can name columns that are not selected. Needs `pip install "
        '"penstock[where]"` on the driver. [Filters](where.md) lists what it supports.',
        "where",
    ),
    Option("includeHeaders", flag, "false", "Whether to add the column `headers`.", "include_headers"),
    Option(
        "failOnDataLoss",
        flag,
        "true",
        "Whether the query fails if offsets are lost (retention, a deleted topic). If false, it logs a warning and "
        "continues.",
        "fail_on_data_loss",
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs",
        milliseconds(1),
        "120000",
        "The time in milliseconds for which a task retries without getting a record before it fails. Under "
        "`read_committed` also the time for which a batch waits for open transactions before its end.",
        "poll_timeout",
    ),
    Option(
        "fetchOffset.numRetries",
        number(1, 1000),
        "1",
        "The number of times that planning asks for offsets. Each time it retries for up to "
        "`kafka.default.api.timeout.ms`.",
        "offset_tries",
    ),
    Option(
        "fetchOffset.retryIntervalMs",
        milliseconds(0),
        "1000",
        "The pause in milliseconds between two of `fetchOffset.numRetries`.",
        "offset_retry_interval",
    ),
    Option(
        "filterPushdown",
        _pushdown,
        "auto",
        "Whether filters on topic, partition, offset and timestamp narrow the ranges that are fetched. Spark allows it "
        "when `spark.sql.python.filterPushdown.enabled` is true; `auto` follows that.",
        "push_filters",
    ),
    LOG_LEVEL,
    DECOMPRESSION_LIMIT,
)

NO_EFFECT = {
    "partition.metadata.cache.ttl.ms": "partition.discovery.interval.ms is the interval of partition discovery",
    "groupIdPrefix": "no consumer group is joined",
}
"""Options of Spark's own source that have no effect here. They are accepted with a warning."""

DESERIALIZER_ADVICE = "Keys and values are bytes. Set keyFormat and valueFormat for typed columns"

REFUSED = {
    "kafka.key.deserializer": DESERIALIZER_ADVICE,
    "kafka.value.deserializer": DESERIALIZER_ADVICE,
    "kafka.enable.auto.commit": "A stream with kafka.group.id commits the offsets of finished batches: see commitMode",
    "kafka.interceptor.classes": "Interceptors are Java classes. To change records use DataFrame operations, or a "
    "class of yours as valueFormat; to leave records out, option where; to follow progress, LagListener",
    "path": "A topic is not a path: use option subscribe",
    **SECURITY_REFUSED,
}
"""Options that cannot be supported, each with the alternative."""

RESET_ADVICE = (
    "Set startingOffsets to say where to start. (kafka.auto.offset.reset is accepted together with kafka.group.id, for "
    "partitions without an offset of the group)"
)


def _hint(key: str) -> str:
    if key.lower() in ("topic", "topics"):
        return "A read names its topics with option subscribe"
    return ""


SOURCE_OPTIONS = OptionTable(
    *OPTIONS.values(),
    *STREAM_OPTIONS.values(),
    *EVENT_TIME_OPTIONS.values(),
    *FORMAT_OPTIONS.values(),
    *KAFKA_OPTIONS.values(),
    refused=REFUSED,
    no_effect=NO_EFFECT | KAFKA_NO_EFFECT,
    ignores_case=True,
    hint=_hint,
)
"""Every option of a read. Names are accepted in any case, as in Spark, and Kafka's with or without `kafka.`."""


def parse_options(given: Mapping[str, Any], now: int | None = None) -> SourceOptions:
    """Parse a user's options. Raises OptionError for the first wrong one.

    `now`: the time from which relative times count, in milliseconds since 1970; None: this moment. A caller that parses
    the options of one query several times passes the same one.
    """
    with SOURCE_OPTIONS.names_as_written(given):
        return _parsed(SOURCE_OPTIONS.parse(given), now_ms() if now is None else now)


def _parsed(values: OptionValues, now: int) -> SourceOptions:
    chosen = [name for name in SUBSCRIPTIONS if name in values.given]
    if len(chosen) != 1:
        what = f"only one of {', '.join(SUBSCRIPTIONS)} may be set" if chosen else "is missing: it names the topics"
        hint = "" if chosen else f"Or set {' or '.join(SUBSCRIPTIONS[1:])}"
        raise OptionError(" and ".join(chosen) or SUBSCRIPTIONS[0], None, what, hint)
    if "kafka.bootstrap.servers" not in values.given:
        raise OptionError("kafka.bootstrap.servers", None, "is missing", "Example: broker1:9092,broker2:9092")
    starting, ending = _start_and_end(values, now)
    formats = format_options(values)
    return SourceOptions(
        client=client_config(values),
        subscription=values[chosen[0]],
        starting=starting,
        ending=ending,
        rules=StartRules(
            values["kafka.group.id"],
            values["kafka.auto.offset.reset"],
            fail_on_no_match=values["startingOffsetsByTimestampStrategy"] == "error",
        ),
        stream=stream_options(values),
        formats=formats,
        event_time=event_time_options(values, formats),
        shown=values.shown,
        ignored=values.ignored,
        stream_only=tuple(name for name in (*STREAM_OPTIONS, *EVENT_TIME_OPTIONS) if name in values.given),
        **values.fields(OPTIONS),
    )


def default_options(client: ClientConfig, subscription: Subscription, formats: FormatOptions) -> SourceOptions:
    """The options of a read that sets nothing but these."""
    values = SOURCE_OPTIONS.parse({})
    return SourceOptions(
        client=client,
        subscription=subscription,
        rules=StartRules(),
        stream=stream_options(values),
        formats=formats,
        event_time=None,
        **values.fields(OPTIONS),
    )


def _start_and_end(values: OptionValues, now: int) -> tuple[StartMode | None, EndMode | None]:
    """Of several options for one thing the first counts: the order of precedence is Spark's."""
    starting = _first_of(values, now, "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
    ending = _first_of(values, now, "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
    group, reset = values["kafka.group.id"], values["kafka.auto.offset.reset"]
    if isinstance(starting, GroupOffsets) and group is None:
        raise OptionError("startingOffsets", "group", "needs the name of the group", "Set kafka.group.id")
    if isinstance(ending, GroupOffsets):
        raise OptionError("endingOffsets", "group", "a group's offsets say where to start, not where to stop")
    if reset is not None and group is None:
        raise OptionError("kafka.auto.offset.reset", reset, "is not supported without a group", RESET_ADVICE)
    if isinstance(ending, Earliest | EarliestLocal):
        raise OptionError("endingOffsets", "earliest", "the end cannot be the beginning", "Set latest or JSON")
    if (place := _place_of(EARLIEST, ending)) is not None:
        raise OptionError("endingOffsets", f"{place}: {EARLIEST}", "the end cannot be the beginning", "Set an offset")
    _check_order(starting, ending)
    return starting, ending


def _first_of(values: OptionValues, now: int, *names: str) -> Any:
    first = next((values[name] for name in names if name in values.given), None)
    return first.at(now) if isinstance(first, TimesOption) else first


def warn_in_batch(options: SourceOptions) -> None:
    """Log the options that a batch ignores. Called once per query, by its planner."""
    warn_of_ignored((*options.ignored, *((name, "this is a batch read") for name in options.stream_only)))


def check_batch(options: SourceOptions) -> None:
    """Refuse a batch that starts at the end, as Spark's own source does."""
    advice = "A batch reads existing records. Set earliest, group, or JSON with offsets"
    if isinstance(options.starting, Latest):
        raise OptionError("startingOffsets", "latest", "a batch cannot start at the end", advice)
    if (place := _place_of(LATEST, options.starting)) is not None:
        raise OptionError("startingOffsets", f"{place}: {LATEST}", "a batch cannot start at the end", advice)


def _place_of(offset: int, mode: StartMode | EndMode | None) -> str | None:
    """The first topic or partition that the offset JSON sets to this offset."""
    if not isinstance(mode, AtOffsets):
        return None
    places = [*mode.offsets.topics.items(), *mode.offsets.partitions.items()]
    return next((str(place) for place, given in places if given == offset), None)


def _check_order(starting: StartMode | None, ending: EndMode | None) -> None:
    """Refuse a start after its end: it is a mistake, not an empty read."""
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
            raise OptionError(_option_of(starting), low, f"is after {_option_of(ending)} = {high} for {place}")


def _option_of(mode: StartMode | EndMode) -> str:
    return mode.option if isinstance(mode, AtTimestamp | AtOffsets) else ""
