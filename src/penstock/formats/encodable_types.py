"""The Arrow types that the kernel's encoders take, and casts to them.

They are the types that Spark hands over. Tables of other libraries have more: large strings, dictionaries, unsigned
numbers, nanoseconds. Those are cast to the type that holds all their values.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.model.types import check_size, spark_type

__all__ = ["as_encodable", "encodable_type"]

_KEPT = (pa.null(), pa.duration("us"))
"""Types that Spark's formats read, or its columns have, and that `spark_type` does not know."""


def encodable_type(type_: pa.DataType, path: str) -> pa.DataType:
    """The type to cast to. Zones of timestamps are kept. Raises ValueError with the field that no format can hold."""
    if not path:
        check_size(type_)
    if pa.types.is_struct(type_):
        names = [field.name for field in type_]
        if len(set(names)) < len(names):
            where = f"field {path}" if path else "the schema"
            raise ValueError(f"{where} has two fields with the same name: {', '.join(names)}")
        return pa.struct([field.with_type(encodable_type(field.type, _below(path, field.name))) for field in type_])
    if pa.types.is_map(type_):
        key, value = type_.key_field, type_.item_field
        return pa.map_(
            key.with_type(encodable_type(key.type, _below(path, "key"))),
            value.with_type(encodable_type(value.type, _below(path, "value"))),
        )
    if _is_list(type_):
        element = type_.value_field
        return pa.list_(element.with_type(encodable_type(element.type, _below(path, "element"))))
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    if pa.types.is_duration(type_):
        return pa.duration("us")
    if pa.types.is_dictionary(type_):
        return encodable_type(type_.value_type, path)
    return type_ if type_ in _KEPT else spark_type(type_, path)


def _is_list(type_: pa.DataType) -> bool:
    is_list = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view)
    return any(check(type_) for check in (*is_list, pa.types.is_large_list_view))


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def as_encodable(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """The array, cast to its encodable type. Digits below a microsecond are dropped."""
    if array.type.equals(type_):
        return array
    return array.cast(type_, safe=False)
