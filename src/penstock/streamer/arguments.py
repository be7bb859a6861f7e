"""What a Streamer is given, checked before anything starts (I1): an error names what is missing or wrong."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock._kernel import COLUMNS
from penstock.config.consumer import parse_config
from penstock.errors import OptionError
from penstock.model.columns import checked_columns
from penstock.streamer.dead_letters import CalledWithLetters, DeadLetters, DeadLetterTopic
from penstock.streamer.extraction import AsTheyAre, BatchWise, Extraction, OneByOne
from penstock.streamer.sinks.sink import CallableSink, Limits, Sink, check_limits

EXTRACTS = ("row", "rows", "batch")
_COMMITS = "it commits what its sink has taken"
OURS = {
    "enable.auto.commit": _COMMITS,
    "auto.commit.enable": _COMMITS,
    "consumer.timeout.ms": "it waits until it is stopped, or with until_end for what is there",
}


def checked_topic(topic: object) -> str:
    if not isinstance(topic, str) or not topic:
        raise OptionError("topic", topic, "which topic? Give its name")
    return topic


def checked_threads(threads: object) -> int:
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise OptionError("threads", threads, "must be a number from 1 on")
    return threads


def checked_sink(sink: Any) -> Sink:
    if isinstance(sink, type):
        raise OptionError("sink", sink.__name__, "is a class", f"Give an object: {sink.__name__}(...)")
    if isinstance(sink, Sink):
        return sink
    if callable(sink):
        return CallableSink(sink)
    raise OptionError("sink", sink, "where to? Give a ParquetSink, an AdbcSink, a function, or a Sink of your own")


def checked_number(name: str, value: object, least: int) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
        raise OptionError(name, value, f"must be a number from {least} on, or None")


def checked_config(config: Mapping[str, object] | None) -> dict[str, object]:
    if not config:
        raise OptionError(
            "config", None, "is missing", 'Example: {"bootstrap.servers": "broker:9092", "group.id": "g"}'
        )
    for name, value in config.items():
        if name in OURS:
            raise OptionError(name, value, f"is the Streamer's own: {OURS[name]}", "Leave it out")
    given = dict(config)
    parse_config(given)
    return given


def checked_extraction(
    extractor: Any,
    extracts: str | None,
    schema: pa.Schema | None,
    columns: Sequence[str] | None,
    key_decoder: Callable[[bytes], Any] | None,
    value_decoder: Callable[[bytes], Any] | None,
    to_arrow: bool,
) -> Callable[[], Extraction]:
    if schema is not None and not isinstance(schema, pa.Schema):
        raise OptionError("schema", schema, "must be a pyarrow.Schema", 'Example: pa.schema([("user", pa.string())])')
    wanted = checked_columns(columns, include_headers=False)
    if extractor is None:
        for name, given in (("extracts", extracts), ("schema", schema)):
            if given is not None:
                raise OptionError(name, None, "means nothing without an extractor", "Give one, or leave it out")
        for name, decoder in (("key_decoder", key_decoder), ("value_decoder", value_decoder)):
            if decoder is not None:
                raise OptionError(name, None, "without an extractor records go to the sink as they are")
        return lambda: AsTheyAre(wanted)
    if not callable(extractor):
        raise OptionError("extractor", extractor, "must be a function, or None for records as they are")
    for name, decoder in (("key_decoder", key_decoder), ("value_decoder", value_decoder)):
        if decoder is not None and not callable(decoder):
            raise OptionError(name, decoder, "must be a function of bytes", f"Example: {name}=json.loads")
        if decoder is not None and extracts == "batch":
            raise OptionError(name, None, "is for messages", 'Leave it out: extracts="batch" gets records as they are')
    extracts = extracts or ("rows" if inspect.isgeneratorfunction(extractor) else "row")
    if extracts not in EXTRACTS:
        raise OptionError("extracts", extracts, f"must be one of {', '.join(EXTRACTS)}")
    if extracts == "batch":
        if columns is None:
            wanted = list(COLUMNS)
        return lambda: BatchWise(extractor, columns=wanted, schema=schema)
    if columns is not None:
        raise OptionError(
            "columns", list(columns), "messages have all of them", 'Leave it out, or take extracts="batch"'
        )
    if to_arrow and schema is None:
        raise OptionError("schema", None, "is missing: the sink takes Arrow, and what types are the extractor's rows?")
    return lambda: OneByOne(
        extractor, many=extracts == "rows", schema=schema, key_decoder=key_decoder, value_decoder=value_decoder
    )


def columns_to_read(columns: Sequence[str] | None, extracting: bool, dead_letter: bool) -> tuple[str, ...]:
    if dead_letter or (extracting and columns is None):
        return COLUMNS
    wanted = checked_columns(columns, include_headers=False)
    return tuple(dict.fromkeys([*wanted, "partition", "offset"]))


def checked_dead_letter(dead_letter: Any, topic: str) -> DeadLetters | None:
    if isinstance(dead_letter, str):
        dead_letter = DeadLetterTopic(dead_letter)
    if isinstance(dead_letter, DeadLetterTopic) and dead_letter.topic == topic:
        raise OptionError("dead_letter", topic, "is the topic that is read: what fails would come again for ever")
    if dead_letter is None or hasattr(dead_letter, "open"):
        return dead_letter  # type: ignore[no-any-return]
    if callable(dead_letter):
        return CalledWithLetters(dead_letter)
    raise OptionError("dead_letter", dead_letter, "must be a topic's name, a DeadLetterTopic, or a function")


def limits(sink: Sink, rows: int | None, size: int | None, seconds: float | None) -> Limits:
    liked: Limits = getattr(sink, "limits", None) or Limits()
    counts = {"flush_rows": rows, "flush_bytes": size}
    check_limits(
        {name: value for name, value in counts.items() if value is not None},
        {} if seconds is None else {"flush_interval": seconds},
    )
    return Limits(
        liked.rows if rows is None else rows,
        liked.bytes if size is None else size,
        liked.seconds if seconds is None else seconds,
    )


def needs_arrow(sink: Sink) -> bool:
    return bool(getattr(sink, "needs_arrow", False))
