"""Resolves the formats of a source, once: reads schema files, asks the registry, samples records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from penstock._kernel import avro_type, protobuf_message, protobuf_type
from penstock.config.formats import ColumnOptions, FormatOptions
from penstock.errors import OptionError
from penstock.formats.decoding import descriptors_of, kernel_format
from penstock.formats.inference import infer_json
from penstock.formats.json_schema import json_schema_type
from penstock.formats.layout import ERROR_COLUMNS
from penstock.formats.plan import TypedSource
from penstock.formats.registry.client import RegisteredSchema, SchemaRegistry
from penstock.formats.registry.subject_name import subject_name
from penstock.formats.schema import parse_schema
from penstock.formats.schema_files import descriptor_set, shortened, text_or_file
from penstock.formats.spec import Avro, ColumnSpec, Custom, Json, Protobuf, RawBytes, Text
from penstock.model.columns import TYPES
from penstock.model.watermark_columns import WATERMARK_COLUMNS

FRAME_BYTES = 5
NO_FIELDS = pa.struct([])

Sample = Callable[[str, int], list[bytes | None]]
"""Returns up to so many of the topic's newest keys or values."""


def resolve_formats(
    options: FormatOptions,
    topics: Sequence[str] | None,
    sample: Sample,
    *,
    include_headers: bool = False,
    include_watermarks: bool = False,
    given: pa.Schema | None = None,
) -> TypedSource:
    """Resolve the formats of key and value.

    `topics`: those of the subscription, if it names them. `given`: a user's schema of the whole result, which is also
    the schema of JSON.
    """
    specs = []
    finds_malformed = options.mode != "PERMISSIVE" or (
        given is not None and not ERROR_COLUMNS.keys().isdisjoint(given.names)
    )
    for column in (options.key, options.value):
        given_type = _given_type(options, column.column, given)
        unused = given is not None and given_type is None and column.format == "json" and column.schema is None
        specs.append(_ColumnResolver(options, column, topics, sample, given_type, unused, finds_malformed).spec())
    key, value = specs
    return TypedSource(key, value, options, include_headers, include_watermarks)


def _given_type(options: FormatOptions, column: str, given: pa.Schema | None) -> pa.DataType | None:
    """The type of the key or value in a user's schema."""
    if given is None:
        return None
    if options.flatten and column == "value":
        fields = [field for field in given if not _is_ours(field.name, options.prefix)]
        return pa.struct(fields) if fields else None
    name = options.prefix + column if options.flatten else column
    return given.field(name).type if name in given.names else None


def _is_ours(name: str, prefix: str) -> bool:
    own = name in ERROR_COLUMNS or name in WATERMARK_COLUMNS
    return own or (name.startswith(prefix) and name.removeprefix(prefix) in TYPES)


class _ColumnResolver:
    """Resolves the spec of one column."""

    def __init__(
        self,
        options: FormatOptions,
        column: ColumnOptions,
        topics: Sequence[str] | None,
        sample: Sample,
        given: pa.DataType | None,
        unused: bool,
        finds_malformed: bool,
    ) -> None:
        self._options = options
        self._column = column
        self._topics = topics
        self._sample = sample
        self._given = given
        self._unused = unused
        """Whether the user's schema drops the column and no option gives its schema: then none is needed."""
        self._finds_malformed = finds_malformed
        """Whether an unused column is checked for malformed JSON all the same."""

    def spec(self) -> ColumnSpec:
        column = self._column
        if self._unused:
            return Json(NO_FIELDS, column.framed, self._options.time_zone) if self._finds_malformed else RawBytes()
        if column.is_custom:
            from penstock.formats.custom import CustomFormat, load_deserializer

            custom: CustomFormat = self._checked(
                column.option("Format"),
                lambda: load_deserializer(column.format, column.column, column.arguments),
                column.format,
            )
            return Custom(column.format, custom.type, custom.columns, custom.may_end, column.arguments)
        match column.format:
            case "raw" if not column.framed:
                return RawBytes()
            case "string":
                return Text(column.framed)
            case "json":
                return self._json()
            case "avro":
                return self._avro()
            case "protobuf":
                return self._protobuf()
        raise OptionError(column.option("Framing"), "confluent", "has no effect on raw bytes", "Set another format")

    def _json(self) -> Json:
        column, options = self._column, self._options
        name = column.option("Schema")
        if column.schema is not None:
            text = column.schema
            type_: pa.DataType = self._checked(name, lambda: parse_schema(text))
        elif self._given is not None:
            type_, name = self._given, "schema"
        elif options.registry is not None:
            found = self._registered("JSON")
            type_ = self._interpret(found, lambda: json_schema_type(found.text, found.references))
        elif options.inference is not None:
            values = self._sample(column.column, options.inference)
            if not values:
                raise OptionError(
                    "schemaInference", options.inference, "found no record to sample", f"Set {name} to a DDL string"
                )
            if column.framed:
                values = [value and value[FRAME_BYTES:] for value in values]
            type_, name = self._checked("schemaInference", lambda: infer_json(values)), "schemaInference"
        else:
            hint = f"Set {name} to a DDL string, schemaInference to a number of records, or give .schema(...)"
            raise OptionError(column.option("Format"), "json", "needs a schema", hint)
        self._checked(
            "timeZone", lambda: kernel_format(Json(NO_FIELDS, time_zone=options.time_zone)), options.time_zone
        )
        spec = Json(type_, column.framed, options.time_zone)
        self._checked(name, lambda: kernel_format(spec))
        return spec

    def _avro(self) -> Avro:
        column = self._column
        schema_id = None
        name = column.option("Schema")
        if column.schema is not None:
            text = text_or_file(name, column.schema, (".avsc", ".json"))
        else:
            found = self._registered("AVRO")
            text, schema_id = self._interpret(found, found.avro_text), found.id
        try:
            type_ = pa.field(avro_type(text)).type
        except ValueError as error:
            raise OptionError(name, shortened(text), str(error)) from None
        return Avro(text, type_, column.framed, schema_id)

    def _protobuf(self) -> Protobuf:
        column = self._column
        schema_id = None
        name = column.option("Schema")
        if column.schema is not None:
            descriptors = descriptor_set(name, column.schema)
        else:
            found = self._registered("PROTOBUF")
            descriptors, schema_id = self._interpret(found, lambda: descriptors_of(found)), found.id
        message = self._checked(
            column.option("Message"), lambda: protobuf_message(descriptors, column.message or ""), column.message
        )
        type_ = self._checked(name, lambda: pa.field(protobuf_type(descriptors, message)).type, message)
        return Protobuf(descriptors, message, type_, column.framed, schema_id)

    def _registered(self, kind: str) -> RegisteredSchema:
        """The schema of this column's subject."""
        column, config = self._column, self._options.registry
        assert config is not None
        subject = column.subject or self._subject()
        with SchemaRegistry(config) as registry:
            version = column.version
            found = registry.latest(subject) if version is None else registry.version(subject, version)
        if found.kind != kind:
            raise OptionError(
                column.option("Format"),
                column.format,
                f"subject {subject!r} holds a schema of type {found.kind}",
                f"Set {column.option('Format')} to {found.kind.lower()}",
            )
        return found

    def _subject(self) -> str:
        column, strategy = self._column, self._options.strategy
        if strategy != "record" and (self._topics is None or len(self._topics) != 1):
            what = "is required if the subscription may have several topics"
            raise OptionError(column.option("Subject"), None, what, "All of them are read with its schema")
        topic = self._topics[0] if self._topics else ""
        return subject_name(strategy, topic, column.column, column.message)

    def _interpret(self, found: RegisteredSchema, interpret: Callable[[], Any]) -> Any:
        """Interpret a registered schema. An error names the schema's id."""
        try:
            return interpret()
        except ValueError as error:
            name = self._column.option("Format")
            raise OptionError(name, self._column.format, f"schema {found.id} of the registry: {error}") from None

    def _checked(self, name: str, make: Callable[[], Any], given: str | None = None) -> Any:
        try:
            return make()
        except ValueError as error:
            raise OptionError(name, given or self._column.schema, str(error)) from None
        except RecursionError:
            raise OptionError(name, given and shortened(given), "is nested too deeply") from None
