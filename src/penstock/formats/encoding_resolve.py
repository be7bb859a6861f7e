"""Resolves the formats of a write, once, before the first record: reads schema files, asks the registry, registers
schemas, and checks that the columns fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa

from penstock._kernel import protobuf_message
from penstock.config.write_formats import DERIVED, WriteColumn, WriteFormats
from penstock.errors import OptionError, SchemaNotFound
from penstock.formats.decoding import descriptors_of
from penstock.formats.derived_schema import avro_schema, json_schema
from penstock.formats.encodable_types import encodable_type
from penstock.formats.encoding import (
    Encoding,
    WriteAsIs,
    WriteAvro,
    WriteJson,
    WriteProtobuf,
    WriteSpec,
    open_encoder,
)
from penstock.formats.registry.avro_references import root_full_name
from penstock.formats.registry.client import Kind, RegisteredSchema, SchemaRegistry
from penstock.formats.registry.subject_name import subject_name
from penstock.formats.schema_files import descriptor_set, proto_text, shortened, text_or_file

_Spec = TypeVar("_Spec", WriteJson, WriteAvro, WriteProtobuf)


def resolve_encoding(formats: WriteFormats, schema: pa.Schema, topic: str | None) -> Encoding:
    """Resolve the formats of key and value for rows of this schema.

    `topic`: None if it comes from a column. Raises OptionError for columns that do not fit, and RegistryError.
    """
    encoding = Encoding(flatten=formats.flatten, prefix=formats.prefix)
    _check_flatten(formats, encoding, schema)
    specs = []
    for column in (formats.key, formats.value):
        type_ = _type_of(column, encoding, schema)
        specs.append(WriteAsIs() if type_ is None else _ColumnResolver(formats, column, type_, topic).spec())
    key, value = specs
    return Encoding(key, value, formats.flatten, formats.prefix)


def _check_flatten(formats: WriteFormats, encoding: Encoding, schema: pa.Schema) -> None:
    if not formats.flatten:
        return
    taken = formats.prefix + "value"
    if taken in schema.names:
        what = f"builds the value from the columns, and there is a column {taken} too"
        raise OptionError("flatten", "true", what, "Rename the column, or set flattenPrefix")
    if not encoding.value_fields(schema):
        raise OptionError("flatten", "true", f"has no columns to build a value from: {_listed(schema)}")


def _type_of(column: WriteColumn, encoding: Encoding, schema: pa.Schema) -> pa.DataType | None:
    """The type of the column to encode; None if there is nothing to encode."""
    if column.column == "value" and encoding.flatten:
        return pa.struct(encoding.value_fields(schema))
    name = encoding.kafka_columns(schema).get(column.column)
    if column.format == "raw":
        return None
    if name is None:
        hint = "Set flatten to true, or name a column value" if column.column == "value" else "Name a column key"
        what = f"encodes the column {column.column}, and there is none: {_listed(schema)}"
        raise OptionError(column.option("Format"), column.format, what, hint)
    type_ = schema.field(name).type
    if column.format != "string":
        return type_
    plain = type_.value_type if pa.types.is_dictionary(type_) else type_
    if not _is_text(plain):
        what = f"needs a string column, and {name} is {type_}"
        raise OptionError(column.option("Format"), "string", what, "Cast it to a string, or set another format")
    return None


def _is_text(type_: pa.DataType) -> bool:
    return any(check(type_) for check in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def _listed(schema: pa.Schema) -> str:
    return f"the columns are {', '.join(schema.names) or 'none'}"


class _ColumnResolver:
    """Resolves the spec of one column, and registers its schema."""

    def __init__(self, formats: WriteFormats, column: WriteColumn, type_: pa.DataType, topic: str | None) -> None:
        self._formats = formats
        self._column = column
        self._topic = topic
        self._type: pa.DataType = self._checked(lambda: encodable_type(type_, ""))

    def spec(self) -> WriteSpec:
        match self._column.format:
            case "json":
                return self._json()
            case "avro":
                return self._avro()
            case _:
                return self._protobuf()

    def _json(self) -> WriteJson:
        formats, column = self._formats, self._column
        zone = formats.time_zone
        self._checked(lambda: open_encoder(WriteJson(zone), pa.struct([])), "timeZone", zone)
        spec = self._fitting(WriteJson(zone, formats.ignore_null_fields))
        if not column.framed:
            return spec
        found = self._registered("JSON") if column.schema is None else None
        if found is None:
            text = json_schema(self._type, ignore_null_fields=formats.ignore_null_fields)
            if column.schema not in (None, DERIVED):
                text = text_or_file(column.option("Schema"), str(column.schema), (".json",))
            schema_id = self._register("JSON", text, _title(text))
        else:
            text, schema_id = found.text, found.id
        self._checked(lambda: _check_json_schema(text, self._type))
        return WriteJson(zone, formats.ignore_null_fields, schema_id)

    def _avro(self) -> WriteAvro:
        column = self._column
        found = self._registered("AVRO") if column.schema is None else None
        if found is not None:
            text = self._checked(found.avro_text)
            return self._fitting(WriteAvro(text, found.id if column.framed else None), found)
        derived = column.schema in (None, DERIVED)
        if derived:
            text = self._checked(lambda: avro_schema(self._type))
        else:
            text = text_or_file(column.option("Schema"), str(column.schema), (".avsc", ".json"))
        self._fitting(WriteAvro(text))  # before it is registered
        name = None if derived else root_full_name(text)
        return WriteAvro(text, self._register("AVRO", text, name) if column.framed else None)

    def _protobuf(self) -> WriteProtobuf:
        column = self._column
        name = column.option("Schema")
        if column.schema is None:
            found = self._registered("PROTOBUF")
            if found is None:
                what = f"subject {self._subject(column.message)!r} is not in the registry"
                raise OptionError(column.option("Format"), "protobuf", what, f"Set {name}, which is then registered")
            descriptors = self._checked(lambda: descriptors_of(found))
            schema_id: int | None = found.id
        else:
            descriptors, schema_id = descriptor_set(name, column.schema), None
        message = self._checked(
            lambda: protobuf_message(descriptors, column.message or ""), column.option("Message"), column.message
        )
        spec = self._fitting(WriteProtobuf(descriptors, message))
        if not column.framed:
            return spec
        if schema_id is None:
            text = proto_text(name, str(column.schema), descriptors)
            schema_id = self._register("PROTOBUF", text, message)
        return WriteProtobuf(descriptors, message, schema_id)

    def _fitting(self, spec: _Spec, found: RegisteredSchema | None = None) -> _Spec:
        """The spec, if the kernel can encode the column with it."""
        place = "" if found is None else f"version {found.version} of subject {found.subject!r}: "
        self._checked(lambda: open_encoder(spec, self._type), before=place)
        return spec

    def _registered(self, kind: Kind) -> RegisteredSchema | None:
        """The schema of this column's subject; None if there is no registry, or no such subject."""
        column, config = self._column, self._formats.registry
        if config is None:
            return None
        subject = self._subject(column.message)
        with SchemaRegistry(config) as registry:
            try:
                found = (
                    registry.latest(subject) if column.version is None else registry.version(subject, column.version)
                )
            except SchemaNotFound:
                if column.version is not None:
                    raise
                return None
        if found.kind != kind:
            raise OptionError(
                column.option("Format"),
                column.format,
                f"subject {subject!r} holds a schema of type {found.kind}",
                f"Set {column.option('Format')} to {found.kind.lower()}, or set {column.option('Subject')}",
            )
        return found

    def _register(self, kind: Kind, text: str, record_name: str | None) -> int:
        """The id of a schema: registers it, or looks it up."""
        config = self._formats.registry
        assert config is not None, "framing without a registry is refused"
        subject = self._subject(record_name)
        with SchemaRegistry(config) as registry:
            if self._formats.auto_register:
                return registry.register(subject, kind, text)
            return registry.id_of(subject, kind, text)

    def _subject(self, record_name: str | None) -> str:
        column, strategy = self._column, self._formats.strategy
        if column.subject is not None:
            return column.subject
        if strategy != "record" and self._topic is None:
            what = "is required if topics come from the column topic: one schema id is written for all of them"
            hint = "Set it, or set option topic, or subjectNameStrategy to record"
            raise OptionError(column.option("Subject"), None, what, hint)
        return subject_name(strategy, self._topic or "", column.column, record_name)

    def _checked(self, make: Callable[[], Any], option: str = "", given: str | None = None, before: str = "") -> Any:
        column = self._column
        if not option:
            has_schema = column.schema is not None
            option = column.option("Schema" if has_schema else "Format")
            given = shortened(column.schema or column.format)
        try:
            return make()
        except ValueError as error:
            raise OptionError(option, given, f"{before}{error}") from None
        except RecursionError:
            raise OptionError(option, given, "is nested too deeply") from None


def _title(text: str) -> str | None:
    """The name of a JSON Schema's record."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    title = document.get("title") if isinstance(document, dict) else None
    return title if isinstance(title, str) else None


def _check_json_schema(text: str, type_: pa.DataType) -> None:
    """Compare the fields at the top of a JSON Schema with the columns. Values are not checked."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ValueError(f"is not a JSON Schema: {error}") from None
    if not isinstance(document, dict | bool):
        raise ValueError("is not a JSON Schema, which is an object")
    if not isinstance(document, dict) or not pa.types.is_struct(type_):
        return
    names = [field.name for field in type_]
    required = document.get("required")
    missing = [name for name in (required if isinstance(required, list) else ()) if name not in names]
    if missing:
        raise ValueError(f"field {missing[0]} is required by the JSON Schema, and no column has this name")
    properties = document.get("properties")
    if document.get("additionalProperties") is False and isinstance(properties, dict):
        extra = [name for name in names if name not in properties]
        if extra:
            raise ValueError(f"column {extra[0]} is not in the JSON Schema, which allows no other properties")
