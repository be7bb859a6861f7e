"""How to decode a key or value to a typed column: resolved on the driver, used on the executors.

The driver resolves schemas once. Executors ask only the schema registry, and only for the schemas that records were
written with.

`reader/letter_scope.py` writes out these fields as an older version did: a new field must not change that.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class RawBytes:
    """The bytes as they are in Kafka."""

    type: ClassVar[pa.DataType] = pa.binary()


@dataclass(frozen=True, slots=True)
class Text:
    """UTF-8."""

    framed: bool = False
    type: ClassVar[pa.DataType] = pa.string()


@dataclass(frozen=True, slots=True)
class Json:
    """A JSON object."""

    type: pa.DataType
    framed: bool = False
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Avro:
    """Avro's binary encoding."""

    schema: str
    """The reader's schema, as JSON."""
    type: pa.DataType
    framed: bool = False
    schema_id: int | None = None
    """Id of the reader's schema, if the registry has it."""


@dataclass(frozen=True, slots=True)
class Protobuf:
    """Protobuf's binary encoding."""

    descriptors: bytes
    message: str
    type: pa.DataType
    framed: bool = False
    schema_id: int | None = None


@dataclass(frozen=True, slots=True)
class Custom:
    """A user's own class."""

    path: str
    type: pa.DataType
    columns: tuple[str, ...]
    """Kafka's columns that it reads."""
    may_end: bool = False
    """Whether a record can end the stream (F4)."""
    arguments: str | None = field(default=None, repr=False)
    """Those of the class, as a JSON object. They may hold secrets."""


ColumnSpec: TypeAlias = RawBytes | Text | Json | Avro | Protobuf | Custom


def pruned(spec: ColumnSpec, wanted: pa.DataType) -> ColumnSpec:
    """The spec, building only the wanted part of its type. A user's own class always builds the whole type: the caller
    drops the rest."""
    if isinstance(spec, RawBytes | Text | Custom):
        return spec
    return replace(spec, type=wanted)
