"""Kafka's APIs as declarations: the fields of requests and responses, and in which versions they exist.

Why not kafka-python's messages: importing any module of kafka-python runs `kafka/__init__`, which loads all of its
clients. That takes 150 ms in every new Spark worker and in the planner of every query. Only a change of `sys.modules`
avoids it, and that belongs to the user's program. A declaration costs microseconds, and is compiled for a version when
that version is first used. Measured, CPU to import a worker's modules: 606 ms with the few messages of kafka-python
that a worker needs and a replaced `sys.modules["kafka"]`; 566 ms with declarations. The crate `kafka-protocol` was not
tried: nothing of kafka-python is left to save at start.

Fetch and ListOffsets are written by hand, because they carry data or are sent many times a second. So is the reading of
partitions in Metadata responses.

kafka-python remains for the admin client and old message sets, imported where it is needed. A test compares every
declaration with kafka-python's messages, byte for byte, in every version.
"""

from __future__ import annotations

import functools
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

from penstock.wire.api.frame import FrameReader, encode_count, encode_length, encode_nullable_text, encode_text

Fields: TypeAlias = tuple["Field", ...]
Values: TypeAlias = Mapping[str, Any]
Encode: TypeAlias = Callable[[Values], bytes]
ReadArray: TypeAlias = Callable[[FrameReader, int], Sequence[Any]]
Decode: TypeAlias = Callable[[FrameReader, dict[str, Any]], None]

LAST = 32767
"""The version up to which a field exists, if no version has dropped it."""

NEVER = LAST + 1
"""The first flexible version of an API that has none."""

_HEADER = struct.Struct(">ihhih")
_REQUIRED = object()


class Field(NamedTuple):
    """One field of a message. Use the functions below to declare one."""

    name: str
    kind: str
    """`text`, `texts`, `data`, `uuid`, `array`, `numbers`, `structure`, `nullable_structure`, or the format of one
    number for `struct`."""
    since: int
    until: int
    default: Any
    """The value in versions without the field, and in requests that do not name it."""
    nullable: bool = False
    element: Fields | str = ()
    """The fields of a structure or of an array's elements, or the format of an array's numbers."""
    read: ReadArray | None = None
    """Reads an array by hand, where field by field is too slow."""


def int8(name: str, *, since: int = 0, until: int = LAST, default: Any = _REQUIRED) -> Field:
    return Field(name, "b", since, until, default)


def int16(name: str, *, since: int = 0, until: int = LAST, default: Any = _REQUIRED) -> Field:
    return Field(name, "h", since, until, default)


def int32(name: str, *, since: int = 0, until: int = LAST, default: Any = _REQUIRED) -> Field:
    return Field(name, "i", since, until, default)


def int64(name: str, *, since: int = 0, until: int = LAST, default: Any = _REQUIRED) -> Field:
    return Field(name, "q", since, until, default)


def boolean(name: str, *, since: int = 0, until: int = LAST, default: Any = _REQUIRED) -> Field:
    return Field(name, "?", since, until, default)


def text(name: str, *, since: int = 0, until: int = LAST, default: Any = _REQUIRED) -> Field:
    return Field(name, "text", since, until, default)


def nullable_text(name: str, *, since: int = 0, until: int = LAST) -> Field:
    return Field(name, "text", since, until, None, nullable=True)


def data(name: str, *, since: int = 0, until: int = LAST) -> Field:
    """Bytes. A null is read as empty."""
    return Field(name, "data", since, until, b"")


def topic_id(name: str, *, since: int) -> Field:
    return Field(name, "uuid", since, LAST, None)


def array(name: str, *fields: Field, since: int = 0, until: int = LAST, read: ReadArray | None = None) -> Field:
    """An array of structures. None is written as null, and null is read as empty."""
    return Field(name, "array", since, until, (), element=fields, read=read)


def structure(name: str, *fields: Field, since: int = 0, until: int = LAST) -> Field:
    """A structure inside of another."""
    return Field(name, "structure", since, until, _REQUIRED, element=fields)


def nullable_structure(name: str, *fields: Field, since: int = 0, until: int = LAST) -> Field:
    """A structure inside of another, or None."""
    return Field(name, "nullable_structure", since, until, None, nullable=True, element=fields)


def numbers(name: str, layout: str = "i", *, since: int = 0, until: int = LAST) -> Field:
    """An array of numbers of one format."""
    return Field(name, "numbers", since, until, (), element=layout)


def texts(name: str, *, since: int = 0, until: int = LAST) -> Field:
    """An array of strings. None is written as null, and null is read as empty."""
    return Field(name, "texts", since, until, ())


class Structure:
    """The fields of a message, in the order in which they are sent. Compiled for a version when first used there."""

    __slots__ = ("_decoders", "_encoders", "fields")

    def __init__(self, *fields: Field) -> None:
        self.fields = fields
        self._encoders: dict[tuple[int, bool], Encode] = {}
        self._decoders: dict[tuple[int, bool], _Decoder] = {}

    def encode(self, version: int, flexible: bool, values: Values) -> bytes:
        """Encode these values. Those that the version does not have are left out."""
        encode = self._encoders.get((version, flexible))
        if encode is None:
            encode = self._encoders[version, flexible] = _encoder(self.fields, version, flexible)
        return encode(values)

    def decode(self, version: int, reader: FrameReader) -> Any:
        """The fields as attributes. Raises READ_ERRORS for bytes that make no sense."""
        decoder = self._decoders.get((version, reader.flexible))
        if decoder is None:
            decoder = self._decoders[version, reader.flexible] = _decoder(self.fields, version, reader.flexible)
        return decoder.read(reader)


_NOTHING = Structure()


@dataclass(frozen=True, slots=True, eq=False)
class Api:
    """One Kafka API: the versions that Penstock speaks, and its messages."""

    name: str
    key: int
    lowest: int
    highest: int
    flexible: int
    """The first flexible version."""
    request_body: Structure = _NOTHING
    response_body: Structure = _NOTHING
    tagged_response_header: bool = True
    """Whether the header of flexible responses has tagged fields. Those of ApiVersions have none (KIP-511)."""

    def request(self, version: int, **values: Any) -> EncodedRequest:
        """A request with these values. Those that the version does not have are left out."""
        return EncodedRequest(self, version, self.request_body.encode(version, version >= self.flexible, values))

    def read_response(self, frame: memoryview, version: int, correlation_id: int) -> Any:
        """The fields of a response as attributes. Raises READ_ERRORS for bytes that make no sense."""
        reader = FrameReader(frame, version >= self.flexible)
        reader.response_header(correlation_id, tagged=self.tagged_response_header)
        return self.response_body.decode(version, reader)


@dataclass(slots=True)
class EncodedRequest:
    """A request whose body is encoded."""

    api: Api
    version: int
    body: bytes

    @property
    def name(self) -> str:
        return f"{self.api.name}Request"

    def encode(self, correlation_id: int, client_id: str) -> bytes:
        """The frame to send: length, header and body."""
        return self.header(len(self.body), correlation_id, client_id) + self.body

    def header(self, body_size: int, correlation_id: int, client_id: str) -> bytes:
        """The length of the frame, and the header."""
        client = client_id.encode()
        tags = b"\0" if self.version >= self.api.flexible else b""
        size = _HEADER.size - 4 + len(client) + len(tags) + body_size
        return _HEADER.pack(size, self.api.key, self.version, correlation_id, len(client)) + client + tags


# --- encoding ---------------------------------------------------------------------------------------------------------


def _encoder(fields: Fields, version: int, flexible: bool) -> Encode:
    """A function that encodes a structure in one version."""
    steps = [_encode_step(field, version, flexible) for field in fields if field.since <= version <= field.until]
    if flexible:
        steps.append(lambda values: b"\0")  # no tagged fields
    return lambda values: b"".join([step(values) for step in steps])


def _encode_step(field: Field, version: int, flexible: bool) -> Encode:
    name, default = field.name, field.default
    write = _writer(field, version, flexible)
    if default is _REQUIRED:
        return lambda values: write(values[name])
    return lambda values: write(values.get(name, default))


def _writer(field: Field, version: int, flexible: bool) -> Callable[[Any], bytes]:
    match field.kind:
        case "text":
            return lambda value: encode_nullable_text(value, flexible)
        case "data":
            return lambda value: encode_length(len(value), flexible) + value
        case "uuid":
            return lambda value: bytes(16) if value is None else bytes(value.bytes)
        case "texts":
            return lambda value: _encode_array(
                None if value is None else [encode_text(each, flexible) for each in value], flexible
            )
        case "numbers":
            pack = struct.Struct(f">{field.element}").pack
            return lambda value: _encode_array([pack(each) for each in value], flexible)
        case "array":
            assert isinstance(field.element, tuple)
            element = _encoder(field.element, version, flexible)
            return lambda value: _encode_array(None if value is None else [element(each) for each in value], flexible)
        case "structure":
            assert isinstance(field.element, tuple)
            return _encoder(field.element, version, flexible)
        case "nullable_structure":
            assert isinstance(field.element, tuple)
            encode = _encoder(field.element, version, flexible)
            return lambda value: b"\xff" if value is None else b"\1" + encode(value)
        case layout:
            return struct.Struct(f">{layout}").pack


def _encode_array(elements: Sequence[bytes] | None, flexible: bool) -> bytes:
    if elements is None:
        return encode_count(-1, flexible)
    return b"".join((encode_count(len(elements), flexible), *elements))


# --- decoding ---------------------------------------------------------------------------------------------------------


class _Decoder(NamedTuple):
    steps: tuple[Decode, ...]
    defaults: Mapping[str, Any]
    """Of the fields that this version does not have."""
    least: int
    """The smallest number of bytes that such a structure takes: bounds the arrays that claim to hold many."""

    def read(self, reader: FrameReader) -> Any:
        values = dict(self.defaults)
        for step in self.steps:
            step(reader, values)
        reader.tags()
        return SimpleNamespace(**values)


def _decoder(fields: Fields, version: int, flexible: bool) -> _Decoder:
    """Reads a structure in one version."""
    present = [field for field in fields if field.since <= version <= field.until]
    steps: list[Decode] = []
    fixed: list[Field] = []
    least = 1 if flexible else 0
    for field in present:
        if len(field.kind) == 1:
            fixed.append(field)
            least += struct.calcsize(field.kind)
            continue
        if fixed:
            steps.append(_decode_numbers(fixed))
            fixed = []
        steps.append(_decode_step(field, version, flexible))
        least += 16 if field.kind == "uuid" else 1 if flexible else 2 if field.kind == "text" else 4
    if fixed:
        steps.append(_decode_numbers(fixed))
    absent = {field.name: _absent(field) for field in fields if field not in present}
    return _Decoder(tuple(steps), absent, max(least, 1))


def _absent(field: Field) -> Any:
    return None if field.default is _REQUIRED else field.default


def _decode_numbers(fields: Iterable[Field]) -> Decode:
    """Reads neighbouring numbers at once."""
    fields = tuple(fields)
    names = [field.name for field in fields]
    layout = struct.Struct(">" + "".join(field.kind for field in fields))

    def step(reader: FrameReader, values: dict[str, Any]) -> None:
        values.update(zip(names, layout.unpack_from(reader.frame, reader.at), strict=True))
        reader.at += layout.size

    return step


def _decode_step(field: Field, version: int, flexible: bool) -> Decode:
    name, read = field.name, _reader(field, version, flexible)

    def step(reader: FrameReader, values: dict[str, Any]) -> None:
        values[name] = read(reader)

    return step


def _reader(field: Field, version: int, flexible: bool) -> Callable[[FrameReader], Any]:
    match field.kind:
        case "text":
            return FrameReader.nullable_text if field.nullable else FrameReader.text
        case "data":
            return lambda reader: bytes(reader.data())
        case "uuid":
            return lambda reader: _read_uuid(reader)
        case "texts":
            return lambda reader: [reader.text() for _ in range(reader.count(1 if flexible else 2))]
        case "numbers":
            return functools.partial(_read_numbers, struct.Struct(f">{field.element}"))
        case "array" if (by_hand := field.read) is not None:
            return lambda reader: by_hand(reader, version)
        case "array":
            assert isinstance(field.element, tuple)
            element = _decoder(field.element, version, flexible)
            return lambda reader: [element.read(reader) for _ in range(reader.count(element.least))]
        case "structure":
            assert isinstance(field.element, tuple)
            return _decoder(field.element, version, flexible).read
        case "nullable_structure":
            assert isinstance(field.element, tuple)
            present = _decoder(field.element, version, flexible)
            return lambda reader: present.read(reader) if reader.number(">b") >= 0 else None
        case kind:
            raise AssertionError(f"{kind} is read together with its neighbours")


def _read_uuid(reader: FrameReader) -> uuid.UUID | None:
    """A topic id; None for the one that stands for no topic."""
    found = uuid.UUID(bytes=bytes(reader.take(16)))
    return found if found.int else None


def _read_numbers(layout: struct.Struct, reader: FrameReader) -> list[int]:
    taken = reader.take(layout.size * reader.count(layout.size))
    return [number for (number,) in layout.iter_unpack(taken)]
