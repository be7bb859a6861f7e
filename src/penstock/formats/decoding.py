"""Decodes one column of bytes, with the kernel or with a user's own class."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Protocol, assert_never

import pyarrow as pa

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
    """A decoded column, or the first part of it."""

    array: pa.Array
    """With `rows` None, it may have fewer rows than the input: another call decodes the rest."""
    faults: list[tuple[int, str]] = field(default_factory=list)
    """Rows of the input that could not be decoded, with the reason, in order."""
    rows: pa.Array | None = None
    """For each row of the array, its row in the input. None: the first rows of the input, mostly all, in order."""
    end: int | None = None
    """The row of the input that has ended the stream (F4). The array has neither that row nor later ones."""
    failure: Callable[[int, str, int, int], Exception] | None = None
    """Makes the error for a malformed row, by row, topic, partition and offset. None: MalformedRecord."""


class ColumnDecoder(Protocol):
    def decode(self, records: pa.RecordBatch) -> Decoded: ...


def open_decoder(
    column: str, spec: ColumnSpec, registry: RegistryConfig | None, *, drops_malformed: bool = False
) -> ColumnDecoder:
    """Open the decoder of a column. `drops_malformed`: drop malformed records, and records with another schema."""
    match spec:
        case Custom(path=path, arguments=arguments):
            from penstock.formats.custom import load_deserializer

            custom = load_deserializer(path, column, arguments)
            if custom.type != spec.type:
                raise PenstockError(
                    f"{path} has another schema here than on the driver: {custom.type}, not {spec.type}. Install the "
                    "same version of it on the driver and on all executors"
                )
            custom.open()
            return CustomDecoder(custom)
        case RawBytes():
            raise ValueError("raw bytes need no decoder")
        case Text() | Json() | Avro() | Protobuf():
            return _KernelDecoder(column, spec, None if registry is None else SchemaRegistry(registry), drops_malformed)
        case _:
            assert_never(spec)


FRAME_BYTES = 5
"""A zero byte and a schema id: see the kernel's `framing.rs`."""

LARGEST_ID = 2**31 - 1
"""Registries use Java's int."""

FAILED_LOOKUPS = 100
"""Unknown ids within UNKNOWN_SECONDS after which further ids are refused without a request. Unframed bytes that look
like a frame have a new id each, and every request costs milliseconds, for the registry too. An id that at least one in
so many records of a batch has is always looked up: a new schema must not be lost among random ids."""

REFUSED_KEPT = 1000
"""Above so many refused ids, all are dropped after a batch: random ids have no end. An id that comes again is looked up
again, mostly in the cache."""


class _KernelDecoder:
    """A format of the kernel, with the writers' schemas that it has seen."""

    def __init__(
        self, column: str, spec: Text | Json | Avro | Protobuf, registry: SchemaRegistry | None, drops_malformed: bool
    ) -> None:
        self._drops_malformed = drops_malformed
        self._column = column
        self._spec = spec
        self._registry = registry
        self._format = kernel_format(spec)
        self._refused: dict[int, float] = {}
        """Ids whose records are malformed, and until when: forever, unless the registry did not have the id."""
        self._failed_lookups: deque[float] = deque(maxlen=FAILED_LOOKUPS)
        """Times of the last lookups of ids that the registry does not have."""
        if registry is None and isinstance(spec, Avro | Protobuf) and spec.framed:
            # Without a registry, the writers' schema is assumed to be the reader's.
            self._format.assume_schema(spec.schema.encode() if isinstance(spec, Avro) else spec.descriptors)

    def decode(self, records: pa.RecordBatch) -> Decoded:
        values = records.column(self._column)
        asked: set[int] = set()
        while True:
            decoded = self._format.decode(values)
            unknown = set(decoded.unknown_schemas) or self._expired_refusals(values, decoded.faults) - asked
            if not unknown:
                break
            counts = _frame_counts(values)
            # The likeliest ids first: those of many records, then the smallest, because registries count from 1.
            for schema_id in sorted(unknown, key=lambda each: (-counts.get(each, 0), each)):
                self._look_up(schema_id, is_common=1 < counts.get(schema_id, 0) >= len(values) / FAILED_LOOKUPS)
            asked |= unknown
        if len(self._refused) > REFUSED_KEPT:  # after the batch, which needs all of its own
            self._format.forget_refused()
            self._refused.clear()
        return Decoded(pa.array(decoded), decoded.faults)

    def _expired_refusals(self, values: pa.Array, faults: list[tuple[int, str]]) -> set[int]:
        """Ids of malformed rows that the registry did not have a while ago, and may have by now."""
        if not self._refused:
            return set()
        now = time.monotonic()
        heads = (memoryview(values[row].as_buffer())[:FRAME_BYTES] for row, _ in faults)
        ids = {int.from_bytes(head[1:]) for head in heads if len(head) == FRAME_BYTES and head[0] == 0}
        return {schema_id for schema_id in ids if self._refused.get(schema_id, now) < now}

    def _has_many_failed_lookups(self) -> bool:
        lookups = self._failed_lookups
        return len(lookups) == FAILED_LOOKUPS and time.monotonic() - lookups[0] <= UNKNOWN_SECONDS

    def _refuse(self, schema_id: int, reason: str, seconds: float = inf) -> None:
        self._format.refuse_schema(schema_id, reason)
        self._refused[schema_id] = time.monotonic() + seconds

    def _look_up(self, schema_id: int, *, is_common: bool) -> None:
        """Add a writer's schema to the format, or refuse its id. `is_common`: too many records have it for chance.

        A batch has at most FAILED_LOOKUPS common ids.
        """
        spec = self._spec
        assert isinstance(spec, Avro | Protobuf)
        assert self._registry is not None
        kind = "AVRO" if isinstance(spec, Avro) else "PROTOBUF"
        if schema_id > LARGEST_ID:
            self._refuse(schema_id, f"schema id {schema_id} is larger than any registry's")
            return
        if not is_common and self._has_many_failed_lookups() and not self._registry.has_cached(schema_id):
            reason = f"schema {schema_id} was not looked up: the registry has none of {FAILED_LOOKUPS} other ids"
            self._refuse(schema_id, reason, UNKNOWN_SECONDS)
            return
        try:
            found = self._registry.schema(schema_id)
        except SchemaNotFound as error:
            self._refuse(schema_id, str(error), UNKNOWN_SECONDS)
            self._failed_lookups.append(time.monotonic())
            return
        except UnreadableSchema as error:
            unrelated = error.kind != kind or self._unrelated(error.text) is not None
            if not unrelated and not self._drops_malformed:
                raise
            self._refuse(schema_id, str(error))
            return
        self._refused.pop(schema_id, None)
        if found.kind != kind:
            self._refuse(schema_id, f"schema {schema_id} is of type {found.kind}, not {kind}")
            return
        unrelated_because = None
        try:
            if isinstance(spec, Avro):
                text = found.avro_text()
                unrelated_because = self._unrelated(text)
                # Their fields alone may fit: orders and payments both have an id. A schema that a user has written
                # may have any name, as in Spark and Java.
                both_objects = _is_object(text) and _is_object(spec.schema)
                if unrelated_because is not None and spec.schema_id is not None and both_objects:
                    raise ValueError("records of another name are not read")
                schema = text.encode()
            else:
                unrelated_because = self._unrelated(found.text)
                schema = descriptors_of(found)
            self._format.add_schema(schema_id, schema)
        except ValueError as error:
            if unrelated_because is not None:
                # Not a version of the reader's schema: the producer framed this record with a wrong id.
                self._refuse(schema_id, f"schema {schema_id} is unrelated: {unrelated_because} ({error})")
                return
            incompatible = IncompatibleSchema(self._column, schema_id, spec.schema_id, str(error))
            if not self._drops_malformed:
                raise incompatible from error
            self._refuse(schema_id, str(incompatible))

    def _unrelated(self, written: str) -> str | None:
        """Why a writer's schema is not a version of the reader's; None if it is, or may be."""
        spec = self._spec
        assert isinstance(spec, Avro | Protobuf)
        return (
            _unrelated_record(written, spec.schema)
            if isinstance(spec, Avro)
            else _unrelated_message(written, spec.message)
        )


def _frame_counts(values: pa.Array) -> dict[int, int]:
    """The number of values for each schema id."""
    import pyarrow.compute as pc  # 55 ms of CPU time, which planning and most tasks save

    heads = pc.value_counts(pc.binary_slice(values, 0, FRAME_BYTES))
    pairs = zip(heads.field("values").to_pylist(), heads.field("counts").to_pylist(), strict=True)
    return {
        int.from_bytes(head[1:]): count for head, count in pairs if head and head[0] == 0 and len(head) == FRAME_BYTES
    }


def _unrelated_record(written: str, read: str) -> str | None:
    """Compare names without their namespaces, as in Avro's schema resolution."""
    theirs, ours = root_names(written), root_names(read)
    if theirs is None or ours is None or (not theirs and not ours):
        return None
    names, known = [each[0] for each in theirs if each], [name for each in ours for name in each]
    if not set(names).isdisjoint(known):
        return None
    what = f"{' or '.join(names)} was written" if names else "a value without a name was written"
    return f"{what}, not {' or '.join(known)}" if known else what


def _is_object(schema: str) -> bool:
    """Whether a schema is one type, and not a union."""
    return schema.lstrip().startswith("{")


def _unrelated_message(written: str, message: str) -> str | None:
    """The kernel looks up the message of each record. This is for schemas that it cannot compile: a schema without the
    message's name is not a version of the reader's."""
    name = message.rpartition(".")[2]
    descriptor = file_descriptor(written)
    known = name in written if descriptor is None else name.encode() in descriptor
    return None if known else f"it has no message {name}"


class CustomDecoder:
    """A class of the user, opened."""

    def __init__(self, custom: CustomFormat) -> None:
        self._custom = custom

    def close(self) -> None:
        self._custom.close()

    def decode(self, records: pa.RecordBatch) -> Decoded:
        found = self._custom.decode(records)
        return Decoded(found.array, found.faults, found.rows, found.end, partial(self._custom.failed, found))


PROTO_NAME = "penstock.proto"
"""File name of a registry's Protobuf schema while it is compiled: registries keep no file names."""


def descriptors_of(found: RegisteredSchema) -> bytes:
    """A registry's Protobuf schema with its references, as a descriptor set. Raises ValueError."""
    files = [*found.references, (PROTO_NAME, found.text)]
    return compile_protobuf(PROTO_NAME, [(name, file_descriptor(text) or text) for name, text in files])


def kernel_format(spec: Text | Json | Avro | Protobuf) -> Format:
    """The kernel's format for a spec. Raises ValueError if the kernel cannot build the type."""
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
