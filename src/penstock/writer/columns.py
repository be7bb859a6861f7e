"""The columns of rows to write (W1): which there must be, and of which types. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.types as kinds

from penstock.errors import ColumnError, did_you_mean

KEY, VALUE, TOPIC, PARTITION, HEADERS, TIMESTAMP = "key", "value", "topic", "partition", "headers", "timestamp"

COLUMNS = (KEY, VALUE, TOPIC, PARTITION, HEADERS, TIMESTAMP)
"""Every column that is written."""

CONVERSIONS = {
    VALUE: "CAST(... AS STRING), to_json(struct(...)) or option valueFormat",
    KEY: "CAST(... AS STRING) or option keyFormat",
    TOPIC: "CAST(... AS STRING)",
    PARTITION: "CAST(... AS INT)",
    HEADERS: "an array of structs with the fields key (string) and value (binary)",
    TIMESTAMP: "CAST(... AS TIMESTAMP)",
}
"""How a column of another type is converted, for the hints of errors."""


def is_text(type_: pa.DataType) -> bool:
    return bool(kinds.is_string(type_) or kinds.is_large_string(type_) or kinds.is_string_view(type_))


def is_bytes_or_text(type_: pa.DataType) -> bool:
    is_bytes = kinds.is_binary(type_) or kinds.is_large_binary(type_) or kinds.is_binary_view(type_)
    return bool(is_bytes or is_text(type_) or kinds.is_null(type_))


def _is_timestamp(type_: pa.DataType) -> bool:
    return bool(kinds.is_timestamp(type_))


def _is_headers(type_: pa.DataType) -> bool:
    if not (kinds.is_list(type_) or kinds.is_large_list(type_)) or not kinds.is_struct(type_.value_type):
        return bool(kinds.is_null(type_))
    struct = type_.value_type
    names = [struct.field(at).name.lower() for at in range(struct.num_fields)]
    if sorted(names) != [KEY, VALUE]:
        return False
    types = {name: struct.field(at).type for at, name in enumerate(names)}
    return is_text(types[KEY]) and is_bytes_or_text(types[VALUE])


CHECKS: Mapping[str, tuple[Callable[[pa.DataType], bool], str]] = {
    VALUE: (is_bytes_or_text, "binary or string"),
    KEY: (is_bytes_or_text, "binary or string"),
    TOPIC: (is_text, "string"),
    PARTITION: (kinds.is_int32, "int"),
    HEADERS: (_is_headers, "array<struct<key: string, value: binary>>"),
    TIMESTAMP: (_is_timestamp, "timestamp"),
}


def unwrapped(schema: pa.Schema) -> pa.Schema:
    """A schema whose dictionary-encoded columns have their value types. Writers decode them."""
    fields = [field.with_type(field.type.value_type) if kinds.is_dictionary(field.type) else field for field in schema]
    return pa.schema(fields)


def written_columns(schema: pa.Schema, topic: str | None, include_headers: bool = True) -> list[str]:
    """The columns of these rows that are written. Raises ColumnError for a missing one or a wrong type (W1).

    `topic`: the option, which wins over the column.
    """
    names = schema.names
    twice = next((name for name in COLUMNS if names.count(name) > 1), None)
    if twice is not None:
        raise ColumnError(twice, f"appears {names.count(twice)} times", "Rename or drop one of them")
    if VALUE not in names:
        near = did_you_mean(VALUE, names) or f"The columns are {', '.join(names) or 'none'}"
        raise ColumnError(VALUE, "is missing", f"Each row needs a value. {near}. Build it with {CONVERSIONS[VALUE]}")
    if topic is None and TOPIC not in names:
        raise ColumnError(TOPIC, "is missing, and option topic is not set", 'Set option("topic", ...)')
    left_out = {TOPIC} if topic is not None else set()
    if not include_headers:
        left_out.add(HEADERS)
    written = [name for name in COLUMNS if name in names and name not in left_out]
    for name in written:
        found = schema.field(name).type
        accepts, wanted = CHECKS[name]
        if not accepts(found):
            raise ColumnError(name, f"is {found}, and must be {wanted}", f"Convert it: {CONVERSIONS[name]}")
    return written
