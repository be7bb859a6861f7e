"""The configuration of a Streamer: the settings that a user gives, checked before anything starts (I1)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import pyarrow as pa

from penstock._kernel import COLUMNS
from penstock.config.consumer import ConsumerConfig, parse_config
from penstock.config.formats import FormatOptions
from penstock.config.option import merged, option_key
from penstock.consumer.start import Start
from penstock.consumer.subscription import AllowTopics, DenyTopics, TopicFilter
from penstock.errors import OptionError
from penstock.formats.plan import raw_source
from penstock.model.columns import checked_columns
from penstock.streamer.dead_letters import CallableDeadLetters, DeadLetter, DeadLetters, DeadLetterTopic
from penstock.streamer.extraction import BatchExtraction, ChosenColumns, Extraction, MessageExtraction, NoExtraction
from penstock.streamer.sinks.sink import CallableSink, Limits, Sink, check_limits

POLL_MS = 200
"""How long a thread waits for records before it checks flush limits, rebalances and whether to stop."""

LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")

EXTRACTS = ("row", "rows", "batch")
_COMMITS = "it commits what its sink has taken"
STREAMER_SETTINGS = {
    "enable.auto.commit": _COMMITS,
    "auto.commit.enable": _COMMITS,
    "consumer.timeout.ms": "it waits until it is stopped, or with until_end until the end of the topic",
}
"""Kafka's settings that the Streamer sets itself, each with the reason."""


class StreamerSettings(TypedDict, total=False):
    """The keyword arguments of a Streamer. Its docstring describes them; DEFAULTS has their defaults."""

    config: Mapping[str, object] | None
    extracts: str | None
    schema: pa.Schema | None
    columns: Sequence[str] | None
    where: str | None
    key_decoder: Callable[[bytes], Any] | None
    value_decoder: Callable[[bytes], Any] | None
    dead_letter: str | DeadLetters | Callable[[list[DeadLetter]], object] | None
    start: Start | None
    until_end: bool
    limit: int | None
    flush_rows: int | None
    flush_bytes: int | None
    flush_interval: float | None
    retry_timeout: float
    max_retries: int | None
    max_failures: int | None


DEFAULTS: StreamerSettings = {
    "config": None,
    "extracts": None,
    "schema": None,
    "columns": None,
    "where": None,
    "key_decoder": None,
    "value_decoder": None,
    "dead_letter": None,
    "start": None,
    "until_end": False,
    "limit": None,
    "flush_rows": None,
    "flush_bytes": None,
    "flush_interval": None,
    "retry_timeout": 5.0,
    "max_retries": None,
    "max_failures": 1000,
}


@dataclass(frozen=True, slots=True)
class Place:
    """The names of the columns that say where a record is. With `flatten` Kafka's columns have a prefix."""

    topic: str = "topic"
    partition: str = "partition"
    offset: str = "offset"

    def columns(self, topics: tuple[str, ...] | TopicFilter) -> tuple[str, ...]:
        """Those that must be read: not the topic, if there is one only."""
        if isinstance(topics, tuple) and len(topics) == 1:
            return self.partition, self.offset
        return self.topic, self.partition, self.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamerConfig:
    """Everything that a Streamer and its threads need to know. Times are in seconds."""

    topic: str
    """The topics as a text, for names of threads and for errors."""
    topics: tuple[str, ...] | TopicFilter
    threads: int
    sink: Sink
    stores_offsets: bool
    """Whether the sink stores offsets with the rows, and the Streamer continues from these."""
    consumer_settings: Mapping[str, object]
    """Kafka's settings, with those that the Streamer sets itself."""
    consumer: ConsumerConfig
    """The same, parsed."""
    extraction: Callable[[], Extraction]
    """Makes the extraction of one thread."""
    columns: tuple[str, ...] | None
    """The columns to read: those of the extraction, and those that say where a record is. None: all typed columns."""
    place: Place
    where: str | None
    """The predicate that records must meet. Others are read and committed, but not extracted."""
    limits: Limits
    dead_letters: DeadLetters | None
    start: Start | None
    until_end: bool
    limit: int | None
    retry_timeout: float
    max_retries: int | None
    max_failures: int | None


def streamer_config(
    topic: object, threads: object, extractor: Any, sink: Any, given: StreamerSettings
) -> StreamerConfig:
    """Check the arguments of a Streamer. Raises OptionError for the first wrong one."""
    unknown = set(given) - set(DEFAULTS)
    if unknown:
        raise TypeError(f"Streamer() got an unexpected keyword argument {min(unknown)!r}")
    settings: StreamerSettings = {**DEFAULTS, **given}
    topics = checked_topics(topic)
    checked_threads = _checked_threads(threads)
    checked_sink = _checked_sink(sink)
    consumer_settings, consumer = _checked_consumer(settings["config"])
    to_arrow = bool(getattr(checked_sink, "needs_arrow", False))
    dead_letters = _checked_dead_letter(settings["dead_letter"], topics)
    columns: tuple[str, ...] | None
    if consumer.formats.typed:
        place, headers = _typed_place(consumer.formats)
        columns, chosen = _typed_columns(settings["columns"], place.columns(topics), headers)
        extraction = _typed_extraction(extractor, settings, chosen)
    else:
        place = Place()
        extraction = _checked_extraction(extractor, settings, to_arrow=to_arrow)
        every = dead_letters is not None or (extractor is not None and settings["columns"] is None)
        columns = COLUMNS if every else _columns_to_read(settings["columns"], place.columns(topics))
    for option, least in (("limit", 1), ("max_retries", 0), ("max_failures", 0)):
        _check_number(option, settings[option], least)  # type: ignore[literal-required]
    check_limits({}, {"retry_timeout": settings["retry_timeout"]})
    return StreamerConfig(
        topic=shown_topics(topics),
        topics=topics,
        threads=checked_threads,
        sink=checked_sink,
        stores_offsets=bool(getattr(checked_sink, "stores_offsets", False)),
        consumer_settings=consumer_settings,
        consumer=consumer,
        extraction=extraction,
        columns=columns,
        place=place,
        where=_checked_where(settings["where"], typed=consumer.formats.typed),
        limits=_limits(checked_sink, settings),
        dead_letters=dead_letters,
        start=settings["start"],
        until_end=settings["until_end"],
        limit=settings["limit"],
        retry_timeout=settings["retry_timeout"],
        max_retries=settings["max_retries"],
        max_failures=settings["max_failures"],
    )


def checked_topics(topic: object) -> tuple[str, ...] | TopicFilter:
    """The topics to read: one name, several, or a filter."""
    if isinstance(topic, AllowTopics | DenyTopics):
        return topic
    names = (topic,) if isinstance(topic, str) else tuple(topic) if isinstance(topic, list | tuple | set) else ()
    hint = 'Give "clicks", ["clicks", "orders"], or a pattern: penstock.AllowTopics("shop-.*")'
    if not names:
        raise OptionError("topic", topic, "must be the name of a topic, a list of names, or a filter", hint)
    for name in names:
        if not isinstance(name, str) or not LEGAL_TOPIC.fullmatch(name):
            raise OptionError("topic", name, "is not the name of a topic", hint)
    return tuple(dict.fromkeys(names))


def topic_filter(topics: tuple[str, ...] | TopicFilter) -> TopicFilter:
    if isinstance(topics, AllowTopics | DenyTopics):
        return topics
    return AllowTopics("|".join(name.replace(".", r"\.") for name in topics))


def shown_topics(topics: tuple[str, ...] | TopicFilter) -> str:
    match topics:
        case AllowTopics(pattern):
            return pattern
        case DenyTopics(pattern):
            return f"not {pattern}"
    return ",".join(topics)


def _checked_threads(threads: object) -> int:
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise OptionError("threads", threads, "must be a whole number of at least 1")
    return threads


def _checked_sink(sink: Any) -> Sink:
    if isinstance(sink, type):
        raise OptionError("sink", sink.__name__, "is a class", f"Give an object: {sink.__name__}(...)")
    if isinstance(sink, Sink):
        return sink
    if callable(sink):
        return CallableSink(sink)
    raise OptionError(
        "sink",
        sink,
        "is not a sink",
        "Give a ParquetSink, an AdbcSink, a DeltaSink, an IcebergSink, a function, or your own Sink",
    )


def _check_number(name: str, value: object, least: int) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
        raise OptionError(name, value, f"must be a whole number of at least {least}, or None")


def _checked_consumer(config: Mapping[str, object] | None) -> tuple[Mapping[str, object], ConsumerConfig]:
    if not config:
        example = 'Example: {"bootstrap.servers": "broker:9092", "group.id": "g"}'
        raise OptionError("config", None, "is missing", example)
    for name, value in config.items():
        if option_key(name) in STREAMER_SETTINGS:
            raise OptionError(
                name, value, f"is set by the Streamer: {STREAMER_SETTINGS[option_key(name)]}", "Leave it out"
            )
    settings = merged(config, {"enable.auto.commit": "false", "consumer.timeout.ms": str(POLL_MS)})
    return settings, parse_config(settings)


def _typed_place(formats: FormatOptions) -> tuple[Place, str]:
    """The names of the columns of a record's place, and of its headers."""
    prefix = formats.prefix if formats.flatten else ""
    return Place(prefix + "topic", prefix + "partition", prefix + "offset"), prefix + "headers"


def _typed_columns(
    columns: Sequence[str] | None, place: Sequence[str], headers: str
) -> tuple[tuple[str, ...] | None, ChosenColumns]:
    """The typed columns to read, and those that go to the sink. The stream checks their names when it starts."""
    if columns is None:
        return None, ChosenColumns(without=[headers])
    if isinstance(columns, str) or not columns:
        raise OptionError("columns", columns, "must be a list with at least one column", 'Example: ["value", "offset"]')
    added = [name for name in place if name not in columns]
    return (*columns, *added), ChosenColumns(without=added)


def _typed_extraction(extractor: Any, settings: StreamerSettings, columns: ChosenColumns) -> Callable[[], Extraction]:
    """With typed columns there are no messages: an extractor gets batches."""
    for name, decoder in _decoders(settings):
        if decoder is not None:
            raise OptionError(name, None, "has no effect with typed columns: valueFormat and keyFormat decode them")
    if settings["dead_letter"] is not None:
        hint = "Set mode=DEADLETTER and deadLetterTopic in `config`: malformed records go there"
        raise OptionError("dead_letter", None, "cannot be used with typed columns, which are not the record", hint)
    if extractor is None:
        _check_no_extractor(settings)
        return lambda: NoExtraction(columns)
    if not callable(extractor):
        raise OptionError("extractor", extractor, "must be a function, or None for unchanged rows")
    if settings["extracts"] != "batch":
        hint = 'Set extracts="batch", or decode messages in the extractor and leave out valueFormat'
        raise OptionError("extractor", None, "gets messages, and typed columns come in batches", hint)
    schema = _checked_schema(settings["schema"])
    return lambda: BatchExtraction(extractor, columns=columns, schema=schema)


def _checked_schema(schema: Any) -> pa.Schema | None:
    if schema is not None and not isinstance(schema, pa.Schema):
        raise OptionError("schema", schema, "must be a pyarrow.Schema", 'Example: pa.schema([("user", pa.string())])')
    return schema


def _checked_extraction(extractor: Any, settings: StreamerSettings, *, to_arrow: bool) -> Callable[[], Extraction]:
    schema = _checked_schema(settings["schema"])
    columns = checked_columns(settings["columns"], include_headers=False)
    if extractor is None:
        _check_no_extractor(settings)
        return lambda: NoExtraction(ChosenColumns(columns))
    if not callable(extractor):
        raise OptionError("extractor", extractor, "must be a function, or None for unchanged records")
    _check_decoders(settings)
    extracts = settings["extracts"] or ("rows" if inspect.isgeneratorfunction(extractor) else "row")
    if extracts not in EXTRACTS:
        raise OptionError("extracts", extracts, f"must be one of {', '.join(EXTRACTS)}")
    if extracts == "batch":
        taken = list(COLUMNS) if settings["columns"] is None else columns
        return lambda: BatchExtraction(extractor, columns=ChosenColumns(taken), schema=schema)
    if settings["columns"] is not None:
        hint = 'Leave it out, or use extracts="batch"'
        raise OptionError("columns", list(settings["columns"]), "has no effect: a message has all columns", hint)
    if to_arrow and schema is None:
        raise OptionError("schema", None, "is missing: the sink takes Arrow, and the extractor's rows have no types")
    key_decoder, value_decoder = settings["key_decoder"], settings["value_decoder"]
    return lambda: MessageExtraction(
        extractor, many=extracts == "rows", schema=schema, key_decoder=key_decoder, value_decoder=value_decoder
    )


def _check_no_extractor(settings: StreamerSettings) -> None:
    for name, given in (("extracts", settings["extracts"]), ("schema", settings["schema"])):
        if given is not None:
            raise OptionError(name, None, "has no effect without an extractor", "Give one, or leave it out")
    for name, decoder in _decoders(settings):
        if decoder is not None:
            raise OptionError(name, None, "has no effect without an extractor: records go to the sink unchanged")


def _check_decoders(settings: StreamerSettings) -> None:
    for name, decoder in _decoders(settings):
        if decoder is not None and not callable(decoder):
            raise OptionError(name, decoder, "must be a function of bytes", f"Example: {name}=json.loads")
        if decoder is not None and settings["extracts"] == "batch":
            hint = 'Leave it out: extracts="batch" gets unchanged records'
            raise OptionError(name, None, "is for messages", hint)


def _decoders(settings: StreamerSettings) -> list[tuple[str, Any]]:
    return [("key_decoder", settings["key_decoder"]), ("value_decoder", settings["value_decoder"])]


def _columns_to_read(columns: Sequence[str] | None, place: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*checked_columns(columns, include_headers=False), *place]))


def _checked_where(where: object, *, typed: bool) -> str | None:
    if where is None:
        return None
    if not isinstance(where, str):
        raise OptionError("where", where, "must be a predicate in SQL", "Example: where=\"key LIKE 'user-%'\"")
    if not typed:
        raw_source().parse_where(where)  # fails here, not in a thread
    return where


def _checked_dead_letter(dead_letter: Any, topics: tuple[str, ...] | TopicFilter) -> DeadLetters | None:
    if isinstance(dead_letter, str):
        dead_letter = DeadLetterTopic(dead_letter)
    if isinstance(dead_letter, DeadLetterTopic) and topic_filter(topics).allowed([dead_letter.topic]):
        raise OptionError(
            "dead_letter", dead_letter.topic, "is a topic that is read: a failing message would return forever"
        )
    if dead_letter is None or hasattr(dead_letter, "open"):
        return dead_letter  # type: ignore[no-any-return]
    if callable(dead_letter):
        return CallableDeadLetters(dead_letter)
    raise OptionError("dead_letter", dead_letter, "must be the name of a topic, a DeadLetterTopic, or a function")


def _limits(sink: Sink, settings: StreamerSettings) -> Limits:
    """The given limits, else the sink's, else the default ones."""
    preferred: Limits = getattr(sink, "limits", None) or Limits()
    rows, size, seconds = settings["flush_rows"], settings["flush_bytes"], settings["flush_interval"]
    counts = {"flush_rows": rows, "flush_bytes": size}
    check_limits(
        {name: value for name, value in counts.items() if value is not None},
        {} if seconds is None else {"flush_interval": seconds},
    )
    return Limits(
        preferred.rows if rows is None else rows,
        preferred.bytes if size is None else size,
        preferred.seconds if seconds is None else seconds,
    )
