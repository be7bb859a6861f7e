"""Code that users write to get typed columns in Python. A module of its own, because workers import it by name."""

from __future__ import annotations

import functools
import json
from operator import attrgetter
from typing import Any

import pyarrow as pa

SCHEMA = "id BIGINT, user STRING, page STRING, price DOUBLE, time BIGINT"


class Events:
    """A record-by-record deserializer for Penstock."""

    def schema(self) -> str:
        return SCHEMA

    def deserialize_record(self, record: Any) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(record.value)
        return event


def parse_json(value: bytes) -> dict[str, Any]:
    """The same parsing as a Python UDF."""
    event: dict[str, Any] = json.loads(value)
    return event


@functools.cache
def message_class(descriptors: bytes, name: str) -> Any:
    """Google's class for a message of a descriptor set."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def parse_protobuf(values: pa.Array, descriptors: bytes, name: str, type_: pa.StructType) -> pa.StructArray:
    """Parse a column of messages one by one with Google's C library, and collect the values field by field."""
    parse = message_class(descriptors, name).FromString
    messages = [parse(value) for value in values.to_pylist()]
    columns = [pa.array(list(map(attrgetter(field.name), messages)), field.type) for field in type_]
    return pa.StructArray.from_arrays(columns, fields=list(type_))
