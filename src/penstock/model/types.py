"""The Arrow types of columns, exactly as PySpark derives them from Spark's types, and their names.

Every field is nullable. The child of a list is called `element`. Timestamps are in microseconds, in UTC or without a
zone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

MOST_FIELDS = 20_000
"""Fields of a type, nested ones included. Each takes memory in every batch."""

MOST_LEVELS = 60
"""Nesting depth of structs, arrays and maps. Arrow's C interface passes on 64 levels."""

TIMESTAMP = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ = pa.timestamp("us")

SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    **dict.fromkeys(("tinyint", "byte"), pa.int8()),
    **dict.fromkeys(("smallint", "short"), pa.int16()),
    **dict.fromkeys(("int", "integer"), pa.int32()),
    **dict.fromkeys(("bigint", "long"), pa.int64()),
    **dict.fromkeys(("float", "real"), pa.float32()),
    "double": pa.float64(),
    "date": pa.date32(),
    "binary": pa.binary(),
}
"""Spark's names of types without parameters. Messages show the first name of each."""

REFUSED = {
    "interval": "is not supported by any format. Read a number or STRING",
    "variant": "is not supported by any format. Read STRING, and use parse_json on it",
    "time": "is not supported by any format. Read INT, BIGINT or STRING",
    **dict.fromkeys(("void", "null"), "has no values. Drop the column"),
    **dict.fromkeys(
        ("geometry", "geography"), "is not supported by any format. Read BINARY, and use st_geomfromwkb on it"
    ),
}

NAMES = {type_: name.upper() for name, type_ in reversed(SIMPLE.items())} | {
    pa.string(): "STRING",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMP_NTZ: "TIMESTAMP_NTZ",
}

WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
}
"""Arrow types that Spark does not have, and the type that holds all their values."""


def struct_type(fields: Mapping[str, pa.DataType]) -> pa.StructType:
    return pa.struct([pa.field(name, type_) for name, type_ in fields.items()])


def list_type(element: pa.DataType) -> pa.ListType:
    return pa.list_(pa.field("element", element))


def map_type(key: pa.DataType, value: pa.DataType) -> pa.MapType:
    return pa.map_(key, value)


def check_size(type_: pa.DataType) -> None:
    """Raises ValueError for a type with too many fields or levels."""
    fields = 0
    waiting = [(type_, 0)]
    while waiting:
        each, level = waiting.pop()
        if level > MOST_LEVELS:
            raise ValueError(f"the schema is nested more than {MOST_LEVELS} levels deep")
        if pa.types.is_struct(each):
            fields += each.num_fields
            inner = [field.type for field in each] if fields <= MOST_FIELDS else []
        elif pa.types.is_map(each):
            inner = [each.key_type, each.item_type]
            level += 1  # Arrow's maps are lists of structs
        elif pa.types.is_list(each):
            inner = [each.value_type]
        else:
            continue
        if fields > MOST_FIELDS:
            raise ValueError(f"the schema has more than {MOST_FIELDS} fields, nested ones included")
        waiting += [(part, level + 1) for part in inner]


def ddl_of(type_: pa.DataType) -> str:
    """A type as Spark's DDL; a struct as a list of columns. A type that Spark does not have: its Arrow name."""
    if pa.types.is_struct(type_):
        return ", ".join(f"{_quoted(field.name)} {type_name(field.type)}" for field in type_)
    return type_name(type_)


def type_name(type_: pa.DataType) -> str:
    """A type as Spark's DDL names it: also a struct."""
    if pa.types.is_struct(type_):
        return f"STRUCT<{', '.join(f'{_quoted(field.name)}: {type_name(field.type)}' for field in type_)}>"
    if pa.types.is_map(type_):
        return f"MAP<{type_name(type_.key_type)}, {type_name(type_.item_type)}>"
    if pa.types.is_list(type_):
        return f"ARRAY<{type_name(type_.value_type)}>"
    if pa.types.is_decimal128(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    return NAMES.get(type_) or str(type_)


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"


def spark_type(type_: pa.DataType, path: str = "") -> pa.DataType:
    """The type that a column of an Arrow type has in Spark. Raises ValueError with the field that has none."""
    if pa.types.is_struct(type_):
        if not type_.num_fields:
            raise ValueError(f"{_place(path)} is a struct without fields")
        fields = {field.name: spark_type(field.type, f"{path}.{field.name}" if path else field.name) for field in type_}
        if len(fields) < type_.num_fields:
            raise ValueError(f"{_place(path)} has two fields with the same name: {', '.join(f.name for f in type_)}")
        return struct_type(fields)
    if pa.types.is_map(type_):
        return map_type(spark_type(type_.key_type, f"{path}.key"), spark_type(type_.item_type, f"{path}.value"))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return list_type(spark_type(type_.value_type, f"{path}.element"))
    if pa.types.is_timestamp(type_):
        return TIMESTAMP if type_.tz else TIMESTAMP_NTZ
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return pa.string()
    if pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_) or pa.types.is_fixed_size_binary(type_):
        return pa.binary()
    if pa.types.is_dictionary(type_):
        return spark_type(type_.value_type, path)
    if pa.types.is_decimal(type_) and type_.precision <= 38 and 0 <= type_.scale <= type_.precision:
        return pa.decimal128(type_.precision, type_.scale)
    type_ = WIDER.get(type_, type_)
    if type_ not in NAMES and not pa.types.is_decimal128(type_):
        raise ValueError(f"{_place(path)} has Arrow type {type_}, which Spark does not support")
    return type_


def _place(path: str) -> str:
    return f"field {path}" if path else "the schema"
