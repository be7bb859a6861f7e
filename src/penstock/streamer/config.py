"""The configuration of a Streamer: the settings that a user gives, checked before anything starts (I1)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import pyarrow as pa

from penstock._kernel import COLUMNS
from penstock.config.consumer import ConsumerConfig, parse_config
from penstock.config.option import merged, option_key
from penstock.consumer.start import Start
from penstock.errors import OptionError
from penstock.formats.plan import raw_source
from penstock.model.columns import checked_columns
from penstock.streamer.dead_letters import CallableDeadLetters, DeadLetter, DeadLetters, DeadLetterTopic
from penstock.streamer.extraction import BatchExtraction, Extraction, MessageExtraction, NoExtraction
from penstock.streamer.sinks.sink import CallableSink, Limits, Sink, check_limits

POLL_MS = 200
"""How long a thread waits for records before it checks flush limits, rebalances and whether to stop."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamerConfig:
    """Everything that a Streamer and its threads need to know. Times are in seconds."""

    topic: str
    threads: int
    sink: Sink
    consumer_settings: Mapping[str, object]
    """Kafka's settings, with those that the Streamer sets itself."""
    consumer: ConsumerConfig
    """The same, parsed."""
    extraction: Callable[[], Extraction]
    """Makes the extraction of one thread."""
    columns: tuple[str, ...]
    """The columns to read: those of the extraction, and those that say where a record is."""
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
    name = _checked_topic(topic)
    checked_threads = _checked_threads(threads)
    checked_sink = _checked_sink(sink)
    consumer_settings, consumer = _checked_consumer(settings["config"])
    extraction = _checked_extraction(extractor, settings, to_arrow=bool(getattr(checked_sink, "needs_arrow", False)))
    dead_letters = _checked_dead_letter(settings["dead_letter"], name)
    for option, least in (("limit", 1), ("max_retries", 0), ("max_failures", 0)):
        _check_number(option, settings[option], least)  # type: ignore[literal-required]
    check_limits({}, {"retry_timeout": settings["retry_timeout"]})
    return StreamerConfig(
        topic=name,
        threads=checked_threads,
        sink=checked_sink,
        consumer_settings=consumer_settings,
        consumer=consumer,
        extraction=extraction,
        columns=_columns_to_read(settings["columns"], extractor is not None, dead_letters is not None),
        where=_checked_where(settings["where"]),
        limits=_limits(checked_sink, settings),
        dead_letters=dead_letters,
        start=settings["start"],
        until_end=settings["until_end"],
        limit=settings["limit"],
        retry_timeout=settings["retry_timeout"],
        max_retries=settings["max_retries"],
        max_failures=settings["max_failures"],
    )


def _checked_topic(topic: object) -> str:
    if not isinstance(topic, str) or not topic:
        raise OptionError("topic", topic, "must be the name of a topic")
    return topic


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
    raise OptionError("sink", sink, "is not a sink", "Give a ParquetSink, an AdbcSink, a function, or your own Sink")


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
    parsed = parse_config(settings)
    if parsed.formats.typed:
        raise OptionError("valueFormat", None, "is for streams", "A Streamer's extractor makes rows of messages")
    return settings, parsed


def _checked_extraction(extractor: Any, settings: StreamerSettings, *, to_arrow: bool) -> Callable[[], Extraction]:
    schema = settings["schema"]
    if schema is not None and not isinstance(schema, pa.Schema):
        raise OptionError("schema", schema, "must be a pyarrow.Schema", 'Example: pa.schema([("user", pa.string())])')
    columns = checked_columns(settings["columns"], include_headers=False)
    if extractor is None:
        _check_no_extractor(settings)
        return lambda: NoExtraction(columns)
    if not callable(extractor):
        raise OptionError("extractor", extractor, "must be a function, or None for unchanged records")
    _check_decoders(settings)
    extracts = settings["extracts"] or ("rows" if inspect.isgeneratorfunction(extractor) else "row")
    if extracts not in EXTRACTS:
        raise OptionError("extracts", extracts, f"must be one of {', '.join(EXTRACTS)}")
    if extracts == "batch":
        taken = list(COLUMNS) if settings["columns"] is None else columns
        return lambda: BatchExtraction(extractor, columns=taken, schema=schema)
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


def _columns_to_read(columns: Sequence[str] | None, extracting: bool, dead_letter: bool) -> tuple[str, ...]:
    if dead_letter or (extracting and columns is None):
        return COLUMNS
    wanted = checked_columns(columns, include_headers=False)
    return tuple(dict.fromkeys([*wanted, "partition", "offset"]))


def _checked_where(where: object) -> str | None:
    if where is None:
        return None
    if not isinstance(where, str):
        raise OptionError("where", where, "must be a predicate in SQL", "Example: where=\"key LIKE 'user-%'\"")
    raw_source().parse_where(where)  # fails here, not in a thread
    return where


def _checked_dead_letter(dead_letter: Any, topic: str) -> DeadLetters | None:
    if isinstance(dead_letter, str):
        dead_letter = DeadLetterTopic(dead_letter)
    if isinstance(dead_letter, DeadLetterTopic) and dead_letter.topic == topic:
        raise OptionError("dead_letter", topic, "is the topic that is read: a failing message would return forever")
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
