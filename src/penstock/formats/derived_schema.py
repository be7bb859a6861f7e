"""Schemas of columns: Avro as Spark's `to_avro` derives it, and JSON Schema."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

RECORD_NAME = "topLevelRecord"
"""The name that Spark gives to the record of a row."""

_AVRO: dict[pa.DataType, Any] = {
    pa.null(): "null",
    pa.bool_(): "boolean",
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32()), "int"),
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
}


def avro_schema(type_: pa.DataType) -> str:
    """The Avro schema of an encodable type. The value itself is not null: a null of the column has no bytes. Raises
    ValueError with the field that Avro cannot hold."""
    return json.dumps(_avro(type_, RECORD_NAME, "", ""))


def _avro(type_: pa.DataType, name: str, namespace: str, path: str) -> Any:
    """The schema of a type. `name` is that of its field: names of records and decimals come from it."""
    if type_ in _AVRO:
        return _AVRO[type_]
    if pa.types.is_timestamp(type_):
        return {"type": "long", "logicalType": "timestamp-micros" if type_.tz else "local-timestamp-micros"}
    if pa.types.is_decimal128(type_):
        return {
            "type": "fixed",
            "name": "fixed",
            "namespace": f"{namespace}.{name}" if namespace else name,
            "size": _decimal_bytes(type_.precision),
            "logicalType": "decimal",
            "precision": type_.precision,
            "scale": type_.scale,
        }
    if pa.types.is_list(type_):
        return {"type": "array", "items": _nullable(type_.value_field, name, namespace, f"{path}.element")}
    if pa.types.is_map(type_):
        if type_.key_type != pa.string():
            raise ValueError(f"field {path[1:]}: the keys of an Avro map are strings, not {type_.key_type}")
        return {"type": "map", "values": _nullable(type_.item_field, name, namespace, f"{path}.value")}
    if pa.types.is_struct(type_):
        inner = f"{namespace}.{name}" if namespace else name
        record: dict[str, Any] = {"type": "record", "name": name}
        if namespace:
            record["namespace"] = namespace
        record["fields"] = [
            {"name": field.name, "type": _nullable(field, field.name, inner, f"{path}.{field.name}")} for field in type_
        ]
        return record
    place = f"field {path[1:]}: " if path else ""
    raise ValueError(f"{place}Avro cannot hold a column of type {type_}")


def _nullable(field: pa.Field, name: str, namespace: str, path: str) -> Any:
    schema = _avro(field.type, name, namespace, path)
    return [schema, "null"] if field.nullable and schema != "null" else schema


def _decimal_bytes(precision: int) -> int:
    """The fewest bytes of two's complement that hold so many digits."""
    size = 1
    while 2 ** (8 * size - 1) < 10**precision:
        size += 1
    return size


_JSON: dict[pa.DataType, dict[str, str]] = {
    pa.null(): {"type": "null"},
    pa.bool_(): {"type": "boolean"},
    **{kind: {"type": "integer"} for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{kind: {"type": "number"} for kind in (pa.float32(), pa.float64())},
    pa.string(): {"type": "string"},
    pa.binary(): {"type": "string", "contentEncoding": "base64"},
    pa.date32(): {"type": "string", "format": "date"},
}


def json_schema(type_: pa.DataType, *, ignore_null_fields: bool) -> str:
    """The JSON Schema of an encodable type. `ignore_null_fields`: null fields are left out."""
    document = {"$schema": "http://json-schema.org/draft-07/schema#"}
    return json.dumps(document | _json(type_, ignore_null_fields))


def _json(type_: pa.DataType, ignore_null_fields: bool) -> dict[str, Any]:
    if type_ in _JSON:
        return dict(_JSON[type_])
    if pa.types.is_timestamp(type_):
        return {"type": "string", "format": "date-time"} if type_.tz else {"type": "string"}
    if pa.types.is_list(type_):
        return {"type": "array", "items": _or_null(type_.value_type, ignore_null_fields)}
    if pa.types.is_map(type_):
        return {"type": "object", "additionalProperties": _or_null(type_.item_type, ignore_null_fields)}
    if pa.types.is_struct(type_):
        made = _json if ignore_null_fields else _or_null
        return {"type": "object", "properties": {field.name: made(field.type, ignore_null_fields) for field in type_}}
    return {"type": "number"}  # a decimal


def _or_null(type_: pa.DataType, ignore_null_fields: bool) -> dict[str, Any]:
    schema = _json(type_, ignore_null_fields)
    return schema if schema["type"] == "null" else schema | {"type": [schema["type"], "null"]}
