"""HOW the bytes of a key or value become a typed column: settled on the driver, carried out on the executors.

Schemas are settled once, with everything they need inside: an executor asks nobody but the registry, and that only for
the schemas that records were written with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class RawBytes:
    """As they are in Kafka."""

    type: ClassVar[pa.DataType] = pa.binary()


@dataclass(frozen=True, slots=True)
class Text:
    framed: bool = False
    type: ClassVar[pa.DataType] = pa.string()


@dataclass(frozen=True, slots=True)
class Json:
    type: pa.DataType
    framed: bool = False
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Avro:
    schema: str
    """The reader's, as JSON."""
    type: pa.DataType
    framed: bool = False
    schema_id: int | None = None
    """The reader's, if it came from the registry."""


@dataclass(frozen=True, slots=True)
class Protobuf:
    descriptors: bytes
    message: str
    type: pa.DataType
    framed: bool = False
    schema_id: int | None = None


@dataclass(frozen=True, slots=True)
class Custom:
    path: str
    type: pa.DataType
    columns: tuple[str, ...]
    """Kafka's columns that it looks at."""
    may_end: bool = False
    """Whether it can say that a record ends the stream (F4)."""


ColumnSpec: TypeAlias = RawBytes | Text | Json | Avro | Protobuf | Custom


def narrowed(spec: ColumnSpec, wanted: pa.DataType) -> ColumnSpec:
    """The same, but only a part of its type is built. A user's own class builds everything: what it leaves out is the
    caller's to drop."""
    if isinstance(spec, RawBytes | Text | Custom):
        return spec
    return replace(spec, type=wanted)
