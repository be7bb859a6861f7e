"""The options that turn typed columns into the bytes of keys and values: the way back of `config.formats`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from penstock.config.formats import COLUMNS, NATIVE_FORMATS, WITH_SCHEMA
from penstock.config.option import Option, OptionTable, OptionValues
from penstock.config.parsers import flag, number, one_of, text
from penstock.config.registry import REGISTRY_OPTIONS, registry_config
from penstock.config.registry_config import RegistryConfig
from penstock.errors import OptionError, did_you_mean

WriteMode: TypeAlias = Literal["FAILFAST", "DROPMALFORMED", "DEADLETTER"]

DERIVED = "derived"
"""The value of `valueSchema` that asks for a schema of the columns."""


def write_format_name(name: str, value: str) -> str:
    given = value.strip().lower()
    if given in NATIVE_FORMATS:
        return given
    hint = did_you_mean(given, NATIVE_FORMATS)
    if ":" in given:
        hint = "Your own class cannot write: encode the column before it is written"
    raise OptionError(name, value, f"must be one of {', '.join(NATIVE_FORMATS)}", hint)


def write_mode(name: str, value: str) -> str:
    if value.strip().upper() == "PERMISSIVE":
        hint = "Use FAILFAST, DROPMALFORMED or DEADLETTER"
        raise OptionError(name, value, "is for reading: a null value is a tombstone, which deletes the key", hint)
    mode: str = one_of("FAILFAST", "DROPMALFORMED", "DEADLETTER")(name, value)
    return mode


def _version(name: str, value: str) -> int | None:
    return None if value.strip().lower() == "latest" else number(1, 2**31 - 1)(name, value)


def _column_options(column: str) -> tuple[Option, ...]:
    return (
        Option(
            f"{column}Format",
            write_format_name,
            "raw",
            f"The format in which the {column} is written: `raw` (the column is binary or a string), `string`, `json`, "
            "`avro` or `protobuf`.",
            "format",
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
            f"The schema of the {column}. For avro: the schema as JSON, or a `.avsc` file. For protobuf: a descriptor "
            "set or a `.proto` file. For json with a registry: a JSON Schema, or a `.json` file. `derived`: the schema "
            "of the columns, for avro and json. The driver reads the files. Default: the schema in the registry; if "
            "there is none, for avro and json, `derived`.",
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
            f"The version of the {column}'s subject that is written with.",
            "version",
        ),
    )


_COLUMN_OPTIONS = {column: OptionTable(*_column_options(column)) for column in COLUMNS}

_TABLE = OptionTable(
    Option(
        "flatten",
        flag,
        "false",
        "Whether the value is built from all columns that are not Kafka's: `key`, `topic`, `partition`, `headers` and "
        "`timestamp`, each with `flattenPrefix`. If false, the column `value` is encoded.",
        "flatten",
    ),
    Option(
        "flattenPrefix",
        lambda name, value: value.strip(),
        "",
        "The prefix of Kafka's own columns when `flatten` is true. `kafka_` writes the columns that a read with "
        "`flatten` returns. Default: none.",
        "prefix",
    ),
    Option(
        "mode",
        write_mode,
        "FAILFAST",
        "What happens to a row that cannot be encoded. `FAILFAST`: the query fails. `DROPMALFORMED`: the row is not "
        "written. `DEADLETTER`: the row is not written and is sent to `deadLetterTopic`.",
        "mode",
    ),
    Option(
        "deadLetterTopic",
        text,
        None,
        "The topic to which `mode=DEADLETTER` sends rows that cannot be encoded. It must exist.",
        "dead_letter_topic",
    ),
    Option(
        "ignoreNullFields",
        flag,
        "true",
        "Whether json leaves out the null fields of structs, as Spark's `to_json` does.",
        "ignore_null_fields",
    ),
    Option(
        "timeZone",
        text,
        None,
        "The time zone of timestamps in json. Default: the zone of the column, in Spark the session's.",
        "time_zone",
    ),
    Option(
        "autoRegisterSchemas",
        flag,
        "true",
        "Whether a given or derived schema is registered under its subject. If false, the registry must have it. A "
        "schema that comes from the registry is never registered.",
        "auto_register",
    ),
)

WRITE_FORMAT_OPTIONS = OptionTable(
    *(option for column in COLUMNS for option in _COLUMN_OPTIONS[column].values()),
    *_TABLE.values(),
    *REGISTRY_OPTIONS.values(),
)
"""Options of typed writing. Those that reading has too have the same names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteColumn:
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

    def option(self, name: str) -> str:
        """The name of an option of this column: `Schema` is `valueSchema`."""
        return self.column + name


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFormats:
    """The parsed options of typed writing."""

    key: WriteColumn
    value: WriteColumn
    flatten: bool
    prefix: str
    mode: WriteMode
    dead_letter_topic: str | None = None
    ignore_null_fields: bool
    time_zone: str | None = None
    auto_register: bool
    registry: RegistryConfig | None
    strategy: str

    @property
    def typed(self) -> bool:
        """Whether key or value are encoded."""
        return self.flatten or any(each.format != "raw" for each in (self.key, self.value))


def write_format_options(values: OptionValues) -> WriteFormats:
    """Raises OptionError for options that exclude each other."""
    registry = registry_config(values)
    options = WriteFormats(
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
    if options.flatten and options.value.format not in WITH_SCHEMA:
        what = f"needs a format with fields, and valueFormat is {options.value.format}"
        raise OptionError("flatten", "true", what, "Set valueFormat to json, avro or protobuf")
    _check_effects(values, options)
    return options


def _check_effects(values: OptionValues, options: WriteFormats) -> None:
    """Refuse options that would have no effect: their user relies on them."""
    formats = {options.key.format, options.value.format}
    without_schema = not formats & set(WITH_SCHEMA)
    for name, idle, why in (
        ("mode", without_schema, "bytes and strings are always written. Set valueFormat"),
        ("ignoreNullFields", "json" not in formats, "it is for json"),
        ("timeZone", "json" not in formats, "it is for json"),
        ("flattenPrefix", not options.flatten, "flatten is not set"),
        ("autoRegisterSchemas", options.registry is None, "schemaRegistry.url is not set"),
        ("schemaRegistry.url", without_schema, "no format here has schemas"),
    ):
        if name in values.given and idle:
            raise OptionError(name, None, f"has no effect: {why}")


_NEEDED_FORMATS = {
    "Framing": WITH_SCHEMA,
    "Schema": WITH_SCHEMA,
    "Message": ("protobuf",),
    "Subject": WITH_SCHEMA,
    "SchemaVersion": WITH_SCHEMA,
}
"""The formats with which an option of a column has an effect."""


def _column(values: OptionValues, column: str, registry: RegistryConfig | None) -> WriteColumn:
    name, framing = values[f"{column}Format"], values[f"{column}Framing"]
    options = WriteColumn(
        column=column,
        framed=framing == "confluent" or (framing is None and registry is not None and name in WITH_SCHEMA),
        **values.fields(_COLUMN_OPTIONS[column]),
    )
    for option, formats in _NEEDED_FORMATS.items():
        if f"{column}{option}" in values.given and name not in formats:
            what = f"has no effect while {column}Format is {name}"
            raise OptionError(f"{column}{option}", values[f"{column}{option}"], what, f"Set {column}Format")
    if options.framed and registry is None:
        raise OptionError(f"{column}Framing", "confluent", "needs a schema registry", "Set schemaRegistry.url")
    if name == "protobuf" and options.schema is None and registry is None:
        raise OptionError(f"{column}Format", name, "needs a schema", f"Set {column}Schema, or schemaRegistry.url")
    if name == "json" and options.schema is not None and not options.framed:
        what = "has no effect: json without a registry is written from the columns"
        raise OptionError(f"{column}Schema", None, what, "Remove it, or set schemaRegistry.url")
    _check_subject(values, options, registry)
    return options


def _check_subject(values: OptionValues, options: WriteColumn, registry: RegistryConfig | None) -> None:
    subject, version = options.option("Subject"), options.option("SchemaVersion")
    for name in (subject, version):
        if name in values.given and registry is None:
            raise OptionError(name, None, "needs a schema registry", "Set schemaRegistry.url")
    if version in values.given and options.schema is not None:
        raise OptionError(version, None, f"has no effect: {options.option('Schema')} is the schema")


def default_write_formats() -> WriteFormats:
    """Kafka's own columns, as bytes."""
    return write_format_options(WRITE_FORMAT_OPTIONS.parse({}))
