"""How to encode typed columns to keys and values: resolved on the driver, used on the executors.

The driver resolves schemas and their ids. Executors ask no registry.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias, assert_never

import pyarrow as pa

from penstock._kernel import FormatEncoder
from penstock.formats.encodable_types import as_encodable, encodable_type

COLUMNS = ("key", "value", "topic", "partition", "headers", "timestamp")
"""Kafka's columns that a row to write may have."""


@dataclass(frozen=True, slots=True)
class WriteAsIs:
    """The column is binary or a string already."""


@dataclass(frozen=True, slots=True)
class WriteJson:
    """A JSON document, by the rules of Spark's `to_json`."""

    time_zone: str | None = None
    """None: that of each column."""
    ignore_null_fields: bool = True
    schema_id: int | None = None


@dataclass(frozen=True, slots=True)
class WriteAvro:
    """Avro's binary encoding."""

    schema: str
    schema_id: int | None = None


@dataclass(frozen=True, slots=True)
class WriteProtobuf:
    """Protobuf's binary encoding."""

    descriptors: bytes
    message: str
    schema_id: int | None = None


WriteSpec: TypeAlias = WriteAsIs | WriteJson | WriteAvro | WriteProtobuf


class EncodingFault(NamedTuple):
    """A row that cannot be encoded."""

    row: int
    column: str
    """`key` or `value`."""
    reason: str


class Encoded(NamedTuple):
    batch: pa.RecordBatch
    """Kafka's columns. The bytes of a row with a fault are null: do not write it, it would be a tombstone."""
    faults: list[EncodingFault]
    """By row, at most one for each of key and value."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """Encodes batches of a write."""

    key: WriteSpec = WriteAsIs()
    value: WriteSpec = WriteAsIs()
    flatten: bool = False
    prefix: str = ""
    """Of Kafka's columns, if `flatten`."""

    def encode(self, batch: pa.RecordBatch) -> Encoded:
        """The batch with Kafka's columns, key and value as bytes. One row per row."""
        arrays: dict[str, pa.Array] = {}
        faults: list[EncodingFault] = []
        for column, name in self.kafka_columns(batch.schema).items():
            arrays[column] = batch.column(name)
        if self.flatten:
            fields = self.value_fields(batch.schema)
            columns = [batch.column(field.name) for field in fields]
            # Do not simplify: without fields, a struct array would have no rows.
            arrays["value"] = (
                pa.StructArray.from_arrays(columns, fields=fields)
                if columns
                else pa.array([{}] * batch.num_rows, pa.struct([]))
            )
        for column, spec in (("key", self.key), ("value", self.value)):
            if column in arrays and not isinstance(spec, WriteAsIs):
                arrays[column], found = _encode(arrays[column], spec)
                faults += [EncodingFault(row, column, reason) for row, reason in found]
        faults.sort(key=lambda fault: fault.row)
        return Encoded(pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays)), faults)

    def kafka_columns(self, schema: pa.Schema) -> dict[str, str]:
        """Kafka's columns that the rows have, and their names there."""
        prefix = self.prefix if self.flatten else ""
        return {column: prefix + column for column in COLUMNS if prefix + column in schema.names}

    def value_fields(self, schema: pa.Schema) -> list[pa.Field]:
        """The columns that the value is built from, if `flatten`."""
        of_kafka = {self.prefix + column for column in _OF_KAFKA if self.prefix or column in COLUMNS}
        return [field for field in schema if field.name not in of_kafka]


_OF_KAFKA = (*COLUMNS, "offset", "timestampType")
"""With a prefix, also the columns that only a read returns: they are not part of a value."""


def _encode(array: pa.Array, spec: WriteJson | WriteAvro | WriteProtobuf) -> tuple[pa.Array, list[tuple[int, str]]]:
    type_ = encodable_type(array.type, "")
    encoded = open_encoder(spec, type_).encode(as_encodable(array, type_))
    return pa.array(encoded), encoded.faults


@lru_cache(maxsize=64)
def open_encoder(spec: WriteJson | WriteAvro | WriteProtobuf, type_: pa.DataType) -> FormatEncoder:
    """The kernel's encoder for columns of an encodable type. Raises ValueError if the type does not fit the schema."""
    field = pa.field("", type_)
    match spec:
        case WriteJson():
            return FormatEncoder.json(
                field,
                time_zone=spec.time_zone,
                ignore_null_fields=spec.ignore_null_fields,
                schema_id=spec.schema_id,
            )
        case WriteAvro():
            return FormatEncoder.avro(spec.schema, field, schema_id=spec.schema_id)
        case WriteProtobuf():
            return FormatEncoder.protobuf(spec.descriptors, spec.message, field, schema_id=spec.schema_id)
        case _:
            assert_never(spec)
