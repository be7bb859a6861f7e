"""The types that columns have: Arrow's, to the letter as PySpark makes them of Spark's types; and their names.

Every field is nullable, a list's child is called `element`, timestamps are in microseconds and UTC, or in no zone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

MOST_FIELDS = 20_000
"""Fields of a type at all depths together: more make no table, and each takes memory in every batch."""

MOST_LEVELS = 60
"""How deep structs, arrays and maps may lie in each other: Arrow hands 64 levels from one library to another."""

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
"""Spark's names of types without parameters. The first name of each is the one shown."""

REFUSED = {
    "interval": "is made by no format. Read a number or STRING",
    "variant": "is made by no format. Read STRING, and use parse_json on it",
    "time": "is made by no format. Read INT, BIGINT or STRING",
    **dict.fromkeys(("void", "null"), "holds nothing. Leave the column out"),
    **dict.fromkeys(("geometry", "geography"), "is made by no format. Read BINARY, and use st_geomfromwkb on it"),
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
"""Arrow's types that Spark has not, and the one that holds all their values."""


def struct_type(fields: Mapping[str, pa.DataType]) -> pa.StructType:
    return pa.struct([pa.field(name, type_) for name, type_ in fields.items()])


def list_type(element: pa.DataType) -> pa.ListType:
    return pa.list_(pa.field("element", element))


def map_type(key: pa.DataType, value: pa.DataType) -> pa.MapType:
    return pa.map_(key, value)


def check_size(type_: pa.DataType) -> None:
    """Raises ValueError for a type that has more fields or levels than a column may."""
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
            raise ValueError(f"the schema has more than {MOST_FIELDS} fields, those inside of others counted")
        waiting += [(part, level + 1) for part in inner]


def ddl_of(type_: pa.DataType) -> str:
    """A type as Spark's DDL; a struct as a list of columns. What is no type of Spark's, as Arrow calls it."""
    if pa.types.is_struct(type_):
        return ", ".join(f"{_quoted(field.name)} {_nested(field.type)}" for field in type_)
    return _nested(type_)


def _nested(type_: pa.DataType) -> str:
    if pa.types.is_struct(type_):
        return f"STRUCT<{', '.join(f'{_quoted(field.name)}: {_nested(field.type)}' for field in type_)}>"
    if pa.types.is_map(type_):
        return f"MAP<{_nested(type_.key_type)}, {_nested(type_.item_type)}>"
    if pa.types.is_list(type_):
        return f"ARRAY<{_nested(type_.value_type)}>"
    if pa.types.is_decimal128(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    return NAMES.get(type_) or str(type_)


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"


def spark_type(type_: pa.DataType, path: str = "") -> pa.DataType:
    """The type that a column of any Arrow type has in Spark. A ValueError names the field that has none."""
    if pa.types.is_struct(type_):
        if not type_.num_fields:
            raise ValueError(f"{_called(path)} is a struct without fields")
        fields = {field.name: spark_type(field.type, f"{path}.{field.name}" if path else field.name) for field in type_}
        if len(fields) < type_.num_fields:
            raise ValueError(f"{_called(path)} has two fields of one name: {', '.join(f.name for f in type_)}")
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
        raise ValueError(f"{_called(path)} is of Arrow's type {type_}, which no column of Spark can have")
    return type_


def _called(path: str) -> str:
    return f"field {path}" if path else "the schema"
