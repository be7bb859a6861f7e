"""One column of bytes, decoded: by the kernel, or by a user's own class."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Protocol, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from penstock._kernel import Format, compile_protobuf
from penstock.config.registry_config import RegistryConfig
from penstock.errors import IncompatibleSchema, PenstockError, SchemaNotFound, UnreadableSchema
from penstock.formats.registry.avro_references import root_names
from penstock.formats.registry.client import UNKNOWN_SECONDS, RegisteredSchema, SchemaRegistry, file_descriptor
from penstock.formats.spec import Avro, ColumnSpec, Custom, Json, Protobuf, RawBytes, Text

if TYPE_CHECKING:
    from penstock.formats.custom import CustomFormat


@dataclass(frozen=True, slots=True)
class Decoded:
    array: pa.Array
    """With `rows` None, it may have less rows than the input: what is left is to be decoded by another call."""
    faults: list[tuple[int, str]] = field(default_factory=list)
    """Rows of the input that did not parse, and why; in order."""
    rows: pa.Array | None = None
    """The rows of the input that the array's rows belong to; None: to the first of them, mostly all, in order."""
    end: int | None = None
    """The row of the input with which the stream has ended (F4). The array has none of it, nor of what follows."""
    failure: Callable[[int, str, int, int], Exception] | None = None
    """The error to raise for a row at fault, by its topic, partition and offset, if there is a better one than
    MalformedRecord."""


class ColumnDecoder(Protocol):
    def decode(self, records: pa.RecordBatch) -> Decoded: ...


def open_decoder(
    column: str, spec: ColumnSpec, registry: RegistryConfig | None, *, leaves_out: bool = False
) -> ColumnDecoder:
    """`leaves_out`: whether records that do not parse are left out. Then so are those whose schema does not fit."""
    match spec:
        case Custom(path=path):
            from penstock.formats.custom import load_deserializer

            own = load_deserializer(path, column)
            if own.type != spec.type:
                raise PenstockError(
                    f"{path} has another schema here than on the driver: {own.type}, not {spec.type}. Are there two "
                    "versions of it?"
                )
            return _Own(own)
        case RawBytes():
            raise ValueError("raw bytes need no decoder")
        case Text() | Json() | Avro() | Protobuf():
            return _Native(column, spec, None if registry is None else SchemaRegistry(registry), leaves_out)
        case _:
            assert_never(spec)


FRAME_BYTES = 5
"""A zero byte and a schema's id: see the kernel's `framing.rs`."""

LARGEST_ID = 2**31 - 1
"""Registries count with Java's int."""

VAIN = 100
"""Ids in UNKNOWN_SECONDS that the registry does not have, before others are refused without asking. Records that are
framed by chance name a new one each, and every question takes milliseconds, of the registry too. What one in so many
records of a batch names is asked for all the same: a new schema must not be lost among them."""

REFUSED_KEPT = 1000
"""Refused ids, above which all are forgotten after a batch: of records framed by chance there are ever more. What is
named again is looked up again, mostly in memory."""


class _Native:
    """A format of the kernel, with the writers' schemas that it has met."""

    def __init__(
        self, column: str, spec: Text | Json | Avro | Protobuf, registry: SchemaRegistry | None, leaves_out: bool
    ) -> None:
        self._leaves_out = leaves_out
        self._column = column
        self._spec = spec
        self._registry = registry
        self._format = kernel_format(spec)
        self._refused: dict[int, float] = {}
        """Ids whose records are bad, and until when that is believed: for ever, unless the registry had none."""
        self._in_vain: deque[float] = deque(maxlen=VAIN)
        """When it was last asked for those that it does not have."""
        if registry is None and isinstance(spec, Avro | Protobuf) and spec.framed:
            # Nobody can say more of the writers than what we were told of the data.
            self._format.assume_schema(spec.schema.encode() if isinstance(spec, Avro) else spec.descriptors)

    def decode(self, records: pa.RecordBatch) -> Decoded:
        values = records.column(self._column)
        asked: set[int] = set()
        while True:
            decoded = self._format.decode(values)
            unknown = set(decoded.unknown_schemas) or self._missing_no_more(values, decoded.faults) - asked
            if not unknown:
                break
            counts = _frame_counts(values)
            # The likeliest first: what many records name; then the smallest, for registries count from 1 on.
            for schema_id in sorted(unknown, key=lambda each: (-counts.get(each, 0), each)):
                self._learn(schema_id, is_common=1 < counts.get(schema_id, 0) >= len(values) / VAIN)
            asked |= unknown
        if len(self._refused) > REFUSED_KEPT:  # not before: the batch needs all of its own
            self._format.forget_refused()
            self._refused.clear()
        return Decoded(pa.array(decoded), decoded.faults)

    def _missing_no_more(self, values: pa.Array, faults: list[tuple[int, str]]) -> set[int]:
        """Ids of rows at fault that the registry did not have, so long ago that it may have them by now."""
        if not self._refused:
            return set()
        now = time.monotonic()
        heads = (memoryview(values[row].as_buffer())[:FRAME_BYTES] for row, _ in faults)
        ids = {int.from_bytes(head[1:]) for head in heads if len(head) == FRAME_BYTES and head[0] == 0}
        return {schema_id for schema_id in ids if self._refused.get(schema_id, now) < now}

    def _has_asked_in_vain(self) -> bool:
        return len(self._in_vain) == VAIN and time.monotonic() - self._in_vain[0] <= UNKNOWN_SECONDS

    def _refuse(self, schema_id: int, reason: str, seconds: float = inf) -> None:
        self._format.refuse_schema(schema_id, reason)
        self._refused[schema_id] = time.monotonic() + seconds

    def _learn(self, schema_id: int, *, is_common: bool) -> None:
        """`is_common`: so many records name it that it is no chance. There are VAIN of those in a batch at most."""
        spec = self._spec
        assert isinstance(spec, Avro | Protobuf)
        assert self._registry is not None
        kind = "AVRO" if isinstance(spec, Avro) else "PROTOBUF"
        if schema_id > LARGEST_ID:
            self._refuse(schema_id, f"schema id {schema_id} is none: no registry has one so large")
            return
        if not is_common and self._has_asked_in_vain() and not self._registry.remembers(schema_id):
            reason = f"schema {schema_id} was not asked for: the registry has none of {VAIN} others"
            self._refuse(schema_id, reason, UNKNOWN_SECONDS)
            return
        try:
            found = self._registry.schema(schema_id)
        except SchemaNotFound as error:
            self._refuse(schema_id, str(error), UNKNOWN_SECONDS)
            self._in_vain.append(time.monotonic())
            return
        except UnreadableSchema as error:
            is_other = error.kind != kind or self._other(error.text) is not None
            if not is_other and not self._leaves_out:
                raise
            self._refuse(schema_id, str(error))
            return
        self._refused.pop(schema_id, None)
        if found.kind != kind:
            self._refuse(schema_id, f"schema {schema_id} is of type {found.kind}, not {kind}")
            return
        other = None
        try:
            if isinstance(spec, Avro):
                text = found.avro_text()
                other = self._other(text)
                # By their fields alone they may fit: orders and payments both have an id. A schema that a user
                # has written may be called anything, as in Spark and Java.
                if other is not None and spec.schema_id is not None and _is_object(text) and _is_object(spec.schema):
                    raise ValueError("records of another name are not read")
                schema = text.encode()
            else:
                other = self._other(found.text)
                schema = descriptors_of(found)
            self._format.add_schema(schema_id, schema)
        except ValueError as error:
            if other is not None:
                # Not a version of what is read: the producer framed this record with a wrong id. One bad record.
                self._refuse(schema_id, f"schema {schema_id} is another's: {other} ({error})")
                return
            incompatible = IncompatibleSchema(self._column, schema_id, spec.schema_id, str(error))
            if not self._leaves_out:
                raise incompatible from error
            self._refuse(schema_id, str(incompatible))

    def _other(self, written: str) -> str | None:
        """Why a writer's schema is not a version of the reader's; None if it is, or may be."""
        spec = self._spec
        assert isinstance(spec, Avro | Protobuf)
        return _other_record(written, spec.schema) if isinstance(spec, Avro) else _other_message(written, spec.message)


def _frame_counts(values: pa.Array) -> dict[int, int]:
    """How many values name a schema's id, by ids."""
    heads = pc.value_counts(pc.binary_slice(values, 0, FRAME_BYTES))
    pairs = zip(heads.field("values").to_pylist(), heads.field("counts").to_pylist(), strict=True)
    return {
        int.from_bytes(head[1:]): count for head, count in pairs if head and head[0] == 0 and len(head) == FRAME_BYTES
    }


def _other_record(written: str, read: str) -> str | None:
    """Names are compared without their namespaces, as in Avro's resolution."""
    theirs, ours = root_names(written), root_names(read)
    if theirs is None or ours is None or (not theirs and not ours):
        return None
    names, known = [each[0] for each in theirs if each], [name for each in ours for name in each]
    if not set(names).isdisjoint(known):
        return None
    what = f"{' or '.join(names)} was written" if names else "a value without a name was written"
    return f"{what}, which is none of {' or '.join(known)}" if known else what


def _is_object(schema: str) -> bool:
    """Whether a schema is one type, and not a union."""
    return schema.lstrip().startswith("{")


def _other_message(written: str, message: str) -> str | None:
    """The kernel looks each record's message up: this is for schemas that it cannot compile. One that does not even
    hold the message's name is not a version of it."""
    name = message.rpartition(".")[2]
    descriptor = file_descriptor(written)
    known = name in written if descriptor is None else name.encode() in descriptor
    return None if known else f"it has no message {name}"


class _Own:
    def __init__(self, own: CustomFormat) -> None:
        self._own = own

    def decode(self, records: pa.RecordBatch) -> Decoded:
        found = self._own.decode(records)
        return Decoded(found.array, found.faults, found.rows, found.end, partial(self._own.failed, found))


PROTO_NAME = "penstock.proto"
"""What a registry's Protobuf schema is called while it is compiled: registries keep no names of files."""


def descriptors_of(found: RegisteredSchema) -> bytes:
    """A registry's Protobuf schema with all it refers to, as a descriptor set. Raises ValueError."""
    files = [*found.references, (PROTO_NAME, found.text)]
    return compile_protobuf(PROTO_NAME, [(name, file_descriptor(text) or text) for name, text in files])


def kernel_format(spec: Text | Json | Avro | Protobuf) -> Format:
    """Raises ValueError if the kernel cannot make the type."""
    match spec:
        case Text(framed=framed):
            return Format.text(framed=framed)
        case Json(type=wanted, framed=framed, time_zone=zone):
            return Format.json(pa.field("", wanted), time_zone=zone, framed=framed)
        case Avro(schema=schema, type=wanted, framed=framed):
            return Format.avro(schema, pa.field("", wanted), framed=framed)
        case Protobuf(descriptors=descriptors, message=message, type=wanted, framed=framed):
            return Format.protobuf(descriptors, message, pa.field("", wanted), framed=framed)
        case _:
            assert_never(spec)
