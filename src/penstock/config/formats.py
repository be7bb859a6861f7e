"""The options that turn keys and values into typed columns."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from penstock.config.import_path import is_import_path
from penstock.config.option import Option, OptionTable, OptionValues
from penstock.config.parsers import flag, number, one_of, text
from penstock.config.registry import REGISTRY_OPTIONS, registry_config
from penstock.config.registry_config import RegistryConfig
from penstock.errors import OptionError, did_you_mean

Mode: TypeAlias = Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST", "DEADLETTER"]

NATIVE_FORMATS = ("raw", "string", "json", "avro", "protobuf")
WITH_SCHEMA = ("json", "avro", "protobuf")
COLUMNS = ("value", "key")


def format_name(name: str, value: str) -> str:
    given = text(name, value)
    if ":" in given:
        if is_import_path(given):
            return given
        raise OptionError(name, value, "is not an import path", "Example: package.module:Name")
    if given.lower() in NATIVE_FORMATS:
        return given.lower()
    hint = did_you_mean(given, NATIVE_FORMATS) or "Name your own class as package.module:Name"
    raise OptionError(name, value, f"must be one of {', '.join(NATIVE_FORMATS)}", hint)


def _column_options(column: str) -> tuple[Option, ...]:
    return (
        Option(
            f"{column}Format",
            format_name,
            "raw",
            f"The format of the {column}: `raw`, `string`, `json`, `avro`, `protobuf`, or your own class as "
            "`package.module:Name`.",
            "format",
        ),
        Option(
            f"{column}FormatArguments",
            _arguments,
            None,
            f"Arguments of your own class for the {column}, as a JSON object. Its constructor gets them as keyword "
            "arguments, and its `open` as a dict. Default: none.",
            "arguments",
        ),
        Option(
            f"{column}Framing",
            one_of("none", "confluent"),
            None,
            f"The prefix of the {column}'s bytes. `none`: there is none. `confluent`: a zero byte and the id of a "
            "schema in the registry. Default: `confluent` for json, avro and protobuf if `schemaRegistry.url` is set, "
            "else `none`.",
        ),
        Option(
            f"{column}Schema",
            text,
            None,
            f"The schema of the {column}. For json: a DDL string or Spark's schema as JSON. For avro: the reader's "
            "schema as JSON, or a `.avsc` file. For protobuf: a descriptor set or a `.proto` file. The driver reads "
            "the files. Default: the schema in the registry.",
            "schema",
        ),
        Option(
            f"{column}Message",
            text,
            None,
            f"The name of the {column}'s message in its Protobuf schema. Default: the first message.",
            "message",
        ),
        Option(
            f"{column}Subject",
            text,
            None,
            f"The {column}'s subject in the schema registry. Default: derived by `subjectNameStrategy`.",
            "subject",
        ),
        Option(
            f"{column}SchemaVersion",
            _version,
            "latest",
            f"The version of the {column}'s subject from which the columns are derived.",
            "version",
        ),
    )


def _arguments(name: str, value: str) -> str:
    """The object as JSON with sorted names: the same arguments are the same text."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise OptionError(name, None, f"is not JSON ({error})", _ARGUMENTS) from None
    if not isinstance(found, dict):
        raise OptionError(name, None, "is not a JSON object", _ARGUMENTS)
    return json.dumps(found, sort_keys=True)


_ARGUMENTS = 'Example: {"currency": "EUR", "strict": true}'


def _version(name: str, value: str) -> int | None:
    return None if value.strip().lower() == "latest" else number(1, 2**31 - 1)(name, value)


COLUMN_OPTIONS = {column: OptionTable(*_column_options(column)) for column in COLUMNS}

_TABLE = OptionTable(
    Option(
        "flatten",
        flag,
        "false",
        "Whether each field of the value becomes a column. Kafka's own columns then begin with `flattenPrefix`.",
        "flatten",
    ),
    Option(
        "flattenPrefix",
        lambda name, value: value.strip(),
        "kafka_",
        "The prefix of Kafka's own columns when `flatten` is true.",
        "prefix",
    ),
    Option(
        "mode",
        one_of("PERMISSIVE", "DROPMALFORMED", "FAILFAST", "DEADLETTER"),
        "PERMISSIVE",
        "What happens to a record that does not parse. `PERMISSIVE`: the fields that could not be read are null. "
        "`DROPMALFORMED`: it gives no row. `FAILFAST`: the query fails. `DEADLETTER`: it gives no row and is sent to "
        "`deadLetterTopic`.",
        "mode",
    ),
    Option(
        "deadLetterTopic",
        text,
        None,
        "The topic to which `mode=DEADLETTER` sends records that do not parse. It must exist.",
        "dead_letter_topic",
    ),
    Option(
        "deadLetterTransactional",
        flag,
        "true",
        "Whether dead letters are written in transactions, each exactly once. `false` needs fewer permissions, and a "
        "letter may be written twice.",
        "dead_letter_transactional",
    ),
    Option(
        "includeErrors",
        flag,
        "false",
        "Whether to add two columns: `_corrupt_record`, the bytes that did not parse, and `_error`, the reason.",
        "include_errors",
    ),
    Option(
        "schemaInference",
        number(1, 1_000_000),
        None,
        "For json without a schema: the number of the topic's newest records from which the driver infers one. "
        "Default: no inference.",
        "inference",
    ),
    Option(
        "timeZone",
        text,
        "UTC",
        "The time zone of dates and times in json that name none. Spark's `from_json` uses the session's.",
        "time_zone",
    ),
)

FORMAT_OPTIONS = OptionTable(
    *(option for column in COLUMNS for option in COLUMN_OPTIONS[column].values()),
    *_TABLE.values(),
    *REGISTRY_OPTIONS.values(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOptions:
    """The parsed options of the key or the value."""

    column: str
    format: str
    framed: bool
    """Whether the id of a schema precedes the bytes."""
    schema: str | None = None
    message: str | None = None
    subject: str | None = None
    version: int | None
    """None: the latest."""
    arguments: str | None = field(default=None, repr=False)
    """Those of a class of the user, as a JSON object. They may hold secrets."""

    @property
    def is_custom(self) -> bool:
        return ":" in self.format

    def option(self, name: str) -> str:
        """The name of an option of this column: `Schema` is `valueSchema`."""
        return self.column + name


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions:
    """The parsed options of typed columns."""

    key: ColumnOptions
    value: ColumnOptions
    flatten: bool
    prefix: str
    mode: Mode
    dead_letter_topic: str | None = None
    dead_letter_transactional: bool
    include_errors: bool
    inference: int | None = None
    time_zone: str
    registry: RegistryConfig | None
    strategy: str

    @property
    def typed(self) -> bool:
        """Whether the columns differ from Kafka's own."""
        raw = self.key.format == "raw" == self.value.format and not self.key.framed and not self.value.framed
        return not raw or self.flatten or self.include_errors


def format_options(values: OptionValues) -> FormatOptions:
    """Raises OptionError for options that exclude each other."""
    registry = registry_config(values)
    options = FormatOptions(
        key=_column(values, "key", registry),
        value=_column(values, "value", registry),
        registry=registry,
        strategy=values["subjectNameStrategy"],
        **values.fields(_TABLE),
    )
    topic, mode = options.dead_letter_topic, options.mode
    if mode == "DEADLETTER" and topic is None:
        raise OptionError("deadLetterTopic", None, "is missing, and mode is DEADLETTER", "Name a topic that exists")
    if topic is not None and mode != "DEADLETTER":
        raise OptionError("deadLetterTopic", topic, f"has no effect while mode is {mode}", "Set mode to DEADLETTER")
    _check_effects(values, options)
    return options


def _check_effects(values: OptionValues, options: FormatOptions) -> None:
    """Refuse options that would have no effect: their user relies on them."""
    formats = [options.key.format, options.value.format]
    raw = all(name == "raw" for name in formats)
    without_schema = [each for each in (options.key, options.value) if each.format == "json" and not each.schema]
    for name, idle, why in (
        ("mode", raw and options.mode != "PERMISSIVE", "raw bytes always parse. Set valueFormat"),
        ("schemaInference", not without_schema, "it is for json without a schema"),
        ("timeZone", "json" not in formats, "it is for json"),
        ("flattenPrefix", not options.flatten, "flatten is not set"),
        ("deadLetterTransactional", options.mode != "DEADLETTER", "mode is not DEADLETTER"),
        ("includeErrors", options.include_errors and options.mode != "PERMISSIVE", f"mode {options.mode} leaves none"),
        ("schemaRegistry.url", not set(formats) & set(WITH_SCHEMA), "no format here has schemas"),
    ):
        if name in values.given and idle:
            raise OptionError(name, None, f"has no effect: {why}")


_NEEDED_FORMATS = {
    "Framing": NATIVE_FORMATS,
    "Schema": WITH_SCHEMA,
    "Message": ("protobuf",),
    "Subject": WITH_SCHEMA,
    "SchemaVersion": WITH_SCHEMA,
}
"""The formats with which an option of a column has an effect."""


def _column(values: OptionValues, column: str, registry: RegistryConfig | None) -> ColumnOptions:
    name, framing = values[f"{column}Format"], values[f"{column}Framing"]
    options = ColumnOptions(
        column=column,
        framed=framing == "confluent" or (framing is None and registry is not None and name in WITH_SCHEMA),
        **values.fields(COLUMN_OPTIONS[column]),
    )
    for option, formats in _NEEDED_FORMATS.items():
        if f"{column}{option}" in values.given and name not in formats:
            what = f"has no effect while {column}Format is {name}"
            raise OptionError(f"{column}{option}", values[f"{column}{option}"], what, f"Set {column}Format")
    if options.arguments is not None and not options.is_custom:
        what = f"has no effect while {column}Format is {name}"
        raise OptionError(f"{column}FormatArguments", None, what, f"Set {column}Format to a class of your own")
    if name in ("avro", "protobuf") and options.schema is None and registry is None:
        hint = f"Set {column}Schema, or schemaRegistry.url"
        raise OptionError(f"{column}Format", name, "needs a schema", hint)
    for option in (f"{column}Subject", f"{column}SchemaVersion"):
        if option in values.given and registry is None:
            raise OptionError(option, None, "needs a schema registry", "Set schemaRegistry.url")
        if option in values.given and options.schema is not None:
            raise OptionError(option, None, f"has no effect: {column}Schema is the schema")
    return options


def default_formats() -> FormatOptions:
    """Kafka's own columns, as bytes."""
    return format_options(FORMAT_OPTIONS.parse({}))
