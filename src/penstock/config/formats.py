"""The options that make typed columns out of keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from penstock.config.option import Option, flag, number, one_of, text
from penstock.config.registry import REGISTRY_OPTIONS, RegistryConfig, registry_config
from penstock.errors import OptionError, did_you_mean

Mode: TypeAlias = Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST", "DEADLETTER"]

NATIVE_FORMATS = ("raw", "string", "json", "avro", "protobuf")
WITH_SCHEMA = ("json", "avro", "protobuf")


def format_name(name: str, value: str) -> str:
    given = text(name, value)
    if ":" in given:
        module, _, attribute = given.partition(":")
        if all(part.isidentifier() for part in (*module.split("."), *attribute.split("."))):
            return given
        raise OptionError(name, value, "is no import path", "Example: package.module:Name")
    if given.lower() in NATIVE_FORMATS:
        return given.lower()
    hint = did_you_mean(given, NATIVE_FORMATS) or "Your own is named as package.module:Name"
    raise OptionError(name, value, f"must be one of {', '.join(NATIVE_FORMATS)}", hint)


def _column_options(column: str) -> tuple[Option, ...]:
    return (
        Option(
            f"{column}Format",
            format_name,
            "raw",
            f"What the bytes of the {column} are: `raw`, `string`, `json`, `avro`, `protobuf`, or your own class as "
            "`package.module:Name`.",
        ),
        Option(
            f"{column}Framing",
            one_of("none", "confluent"),
            None,
            f"What stands before the {column}'s bytes: nothing, or a schema registry's zero byte and schema id. "
            "Default: `confluent` for json, avro and protobuf if `schemaRegistry.url` is set, else `none`.",
        ),
        Option(
            f"{column}Schema",
            text,
            None,
            f"What the {column} holds. For json a DDL string or Spark's schema as JSON; for avro the reader's schema "
            "as JSON, or a `.avsc` file; for protobuf a descriptor set or a `.proto` file. The driver reads files. "
            "Default: what the schema registry has.",
        ),
        Option(
            f"{column}Message",
            text,
            None,
            f"For protobuf: the {column}'s message in its schema. Default: the first one.",
        ),
        Option(
            f"{column}Subject",
            text,
            None,
            f"The {column}'s subject in the schema registry. Default: by `subjectNameStrategy`.",
        ),
        Option(
            f"{column}SchemaVersion",
            _version,
            "latest",
            f"Which version of the {column}'s subject the columns are made by.",
        ),
    )


def _version(name: str, value: str) -> int | None:
    return None if value.strip().lower() == "latest" else number(1, 2**31 - 1)(name, value)


FORMAT_OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        *_column_options("value"),
        *_column_options("key"),
        Option(
            "flatten",
            flag,
            "false",
            "Make the value's fields columns of their own. Kafka's columns then begin with `flattenPrefix`.",
        ),
        Option("flattenPrefix", lambda name, value: value.strip(), "kafka_", "See `flatten`."),
        Option(
            "mode",
            one_of("PERMISSIVE", "DROPMALFORMED", "FAILFAST", "DEADLETTER"),
            "PERMISSIVE",
            "What becomes of a record that does not parse: nulls where it could not be read (`PERMISSIVE`), no row "
            "(`DROPMALFORMED`), the end of the query (`FAILFAST`), or no row and a record in `deadLetterTopic`.",
        ),
        Option("deadLetterTopic", text, None, "Where `mode=DEADLETTER` sends them. The topic must exist."),
        Option(
            "deadLetterTransactional",
            flag,
            "true",
            "Whether letters are written in transactions, each once. `false` needs fewer rights, and may write twice.",
        ),
        Option(
            "includeErrors",
            flag,
            "false",
            "Add the columns `_corrupt_record`, the bytes that did not parse, and `_error`, the reason.",
        ),
        Option(
            "schemaInference",
            number(1, 1_000_000),
            None,
            "For json without a schema: look at so many of the topic's newest records, on the driver.",
        ),
        Option(
            "timeZone",
            text,
            "UTC",
            "Of dates and times in json that name none. (Spark's `from_json` takes the session's.)",
        ),
        *REGISTRY_OPTIONS.values(),
    )
}


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """What a user said of the key or the value."""

    column: str
    format: str = "raw"
    framed: bool = False
    schema: str | None = None
    message: str | None = None
    subject: str | None = None
    version: int | None = None
    """None: the latest."""

    @property
    def is_custom(self) -> bool:
        return ":" in self.format

    def option(self, name: str) -> str:
        """The name of an option of this column: `Schema` is `valueSchema`."""
        return self.column + name


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """What a user said of typed columns."""

    key: ColumnOptions = field(default_factory=lambda: ColumnOptions("key"))
    value: ColumnOptions = field(default_factory=lambda: ColumnOptions("value"))
    flatten: bool = False
    prefix: str = "kafka_"
    mode: Mode = "PERMISSIVE"
    dead_letter_topic: str | None = None
    dead_letter_transactional: bool = True
    include_errors: bool = False
    inference: int | None = None
    time_zone: str = "UTC"
    registry: RegistryConfig | None = None
    strategy: str = "topic"

    @property
    def typed(self) -> bool:
        """Whether anything leaves the source that is not Kafka's own columns as they are."""
        raw = self.key.format == "raw" == self.value.format and not self.key.framed and not self.value.framed
        return not raw or self.flatten or self.include_errors


def format_options(values: Mapping[str, Any]) -> FormatOptions:
    """Raises OptionError where options do not go together."""
    registry = registry_config(values)
    mode: Mode = values.get("mode", "PERMISSIVE")
    topic = values.get("deadLetterTopic")
    if mode == "DEADLETTER" and topic is None:
        raise OptionError("deadLetterTopic", None, "is missing, and mode is DEADLETTER", "Name a topic that exists")
    if topic is not None and mode != "DEADLETTER":
        raise OptionError("deadLetterTopic", topic, f"has no effect while mode is {mode}", "Set mode to DEADLETTER")
    options = FormatOptions(
        key=_column(values, "key", registry),
        value=_column(values, "value", registry),
        flatten=values.get("flatten", False),
        prefix=values.get("flattenPrefix", "kafka_"),
        mode=mode,
        dead_letter_topic=topic,
        dead_letter_transactional=values.get("deadLetterTransactional", True),
        include_errors=values.get("includeErrors", False),
        inference=values.get("schemaInference"),
        time_zone=values.get("timeZone", "UTC"),
        registry=registry,
        strategy=values.get("subjectNameStrategy", "topic"),
    )
    _check_effects(values, options)
    return options


def _check_effects(values: Mapping[str, Any], options: FormatOptions) -> None:
    """What is set must do something: whoever sets it believes that it does."""
    formats = [options.key.format, options.value.format]
    raw = all(name == "raw" for name in formats)
    unschemed = [column for column in (options.key, options.value) if column.format == "json" and not column.schema]
    for name, idle, why in (
        ("mode", raw and options.mode != "PERMISSIVE", "raw bytes always parse. Set valueFormat"),
        ("schemaInference", not unschemed, "it is for json without a schema"),
        ("timeZone", "json" not in formats, "it is for json"),
        ("flattenPrefix", not options.flatten, "flatten is not set"),
        ("deadLetterTransactional", options.mode != "DEADLETTER", "mode is not DEADLETTER"),
        ("includeErrors", options.include_errors and options.mode != "PERMISSIVE", f"mode {options.mode} leaves none"),
        ("schemaRegistry.url", not set(formats) & set(WITH_SCHEMA), "no format here has schemas"),
    ):
        if name in values and idle:
            raise OptionError(name, None, f"has no effect: {why}")


def _column(values: Mapping[str, Any], column: str, registry: RegistryConfig | None) -> ColumnOptions:
    name = values.get(f"{column}Format", "raw")
    framing = values.get(f"{column}Framing")
    options = ColumnOptions(
        column,
        name,
        framed=framing == "confluent" or (framing is None and registry is not None and name in WITH_SCHEMA),
        schema=values.get(f"{column}Schema"),
        message=values.get(f"{column}Message"),
        subject=values.get(f"{column}Subject"),
        version=values.get(f"{column}SchemaVersion"),
    )
    for given, needs in (
        ("Framing", NATIVE_FORMATS),
        ("Schema", WITH_SCHEMA),
        ("Message", ("protobuf",)),
        ("Subject", WITH_SCHEMA),
        ("SchemaVersion", WITH_SCHEMA),
    ):
        if f"{column}{given}" in values and name not in needs:
            what = f"has no effect while {column}Format is {name}"
            raise OptionError(f"{column}{given}", values[f"{column}{given}"], what, f"Set {column}Format")
    if name in ("avro", "protobuf") and options.schema is None and registry is None:
        hint = f"Set {column}Schema, or schemaRegistry.url"
        raise OptionError(f"{column}Format", name, "needs a schema", hint)
    for given in ("Subject", "SchemaVersion"):
        if f"{column}{given}" in values and registry is None:
            raise OptionError(f"{column}{given}", None, "needs a schema registry", "Set schemaRegistry.url")
        if f"{column}{given}" in values and options.schema is not None:
            raise OptionError(f"{column}{given}", None, f"has no effect: {column}Schema says what to read")
    return options
