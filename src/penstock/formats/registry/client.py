"""A schema registry: schemas by id, by subject and version, with everything that they refer to.

Confluent's REST API, which Apicurio, Redpanda and Karapace answer too. A schema with an id never changes, so it is
asked for once per process: Spark reuses its workers, and what is cached here lasts from micro-batch to micro-batch.
"""

from __future__ import annotations

import base64
import binascii
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias
from urllib.parse import quote

from penstock.config.registry_config import RegistryConfig
from penstock.errors import RegistryError, SchemaNotFound, UnreadableSchema
from penstock.formats.registry.avro_references import inline
from penstock.formats.registry.connection import NotThere, RegistryConnection

__all__ = ["RegisteredSchema", "RegistryConfig", "SchemaRegistry", "file_descriptor", "forget_schemas"]

Kind: TypeAlias = Literal["AVRO", "PROTOBUF", "JSON"]
KINDS: dict[object, Kind] = {None: "AVRO", "AVRO": "AVRO", "PROTOBUF": "PROTOBUF", "JSON": "JSON"}
"""Avro was there first: Confluent's registry does not name it."""

UNKNOWN_SECONDS = 10.0
"""For so long an id that the registry did not have is not asked for again. Records with such an id come in crowds; but
a registry of several nodes may answer so for a moment about a schema that was registered at another one."""

SCHEMAS_KEPT = 1000
BYTES_KEPT = 64 << 20
"""Of all texts together: one may have 16 MB, and refer to as much again."""

# What a schema refers to, and what that refers to: more than any schema has. Each is a request, and a chain of them may
# have no end.
REFERENCES_LIMIT = 200
REFERENCES_DEEPEST = 32
REFERENCES_BYTES = 16 << 20
REFERENCES_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as the registry has it."""

    id: int
    kind: Kind
    text: str
    """Protobuf: the source, or a FileDescriptorProto in base64. Confluent's Python and Go clients send the latter, and
    some registries keep what they were sent."""
    references: tuple[tuple[str, str], ...] = ()
    """Names and texts of all schemas that this one needs, what is needed always before what needs it."""
    subject: str | None = None
    version: int | None = None

    def avro_text(self) -> str:
        """Avro: one schema with every type that it refers to written out. Raises ValueError if it is none."""
        if self.kind != "AVRO":
            raise ValueError(f"schema {self.id} is of type {self.kind}, not AVRO")
        return inline(self.text, (text for _, text in self.references)) if self.references else self.text


def file_descriptor(text: str) -> bytes | None:
    """The FileDescriptorProto that a Protobuf schema's text holds in base64; None if it is source."""
    try:
        # Base64 has none of the characters that every .proto file has: ; = { and the like.
        return base64.b64decode(text.strip(), validate=True) or None
    except (binascii.Error, ValueError):
        return None


class SchemaRegistry:
    """Asks a registry, and remembers. Used by any thread. What it remembers is shared by all of the process."""

    def __init__(self, config: RegistryConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._connection: RegistryConnection | None = None
        self._owner = os.getpid()

    def schema(self, schema_id: int) -> RegisteredSchema:
        """The schema with this id, from memory if it was asked for before. Raises SchemaNotFound."""
        known = _MEMORY.look_up(self._config, schema_id)
        if isinstance(known, RegisteredSchema):
            return known
        what = f"schema {schema_id}"
        if known is not None:
            raise SchemaNotFound(known.url, what)
        answer = self._ask().get(f"/schemas/ids/{schema_id}", what)
        if isinstance(answer, NotThere):
            _MEMORY.keep(self._config, schema_id, answer)
            raise SchemaNotFound(answer.url, what)
        url, found = answer
        schema = self._registered(url, what, found, schema_id)
        _MEMORY.keep(self._config, schema_id, schema)
        return schema

    def remembers(self, schema_id: int) -> bool:
        """Whether `schema` has the answer without asking."""
        return _MEMORY.look_up(self._config, schema_id) is not None

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest version of a subject. Always asked for. Raises SchemaNotFound."""
        return self._version(subject, "latest")

    def version(self, subject: str, number: int) -> RegisteredSchema:
        """One version of a subject. Always asked for. Raises SchemaNotFound."""
        return self._version(subject, str(number))

    def close(self) -> None:
        """Close connections; the next question opens new ones."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self) -> RegistryConnection:
        with self._lock:
            if self._connection is None or self._owner != os.getpid():  # a fork's sockets are its parent's
                self._connection = RegistryConnection(self._config)
                self._owner = os.getpid()
            return self._connection

    def _version(self, subject: str, version: str) -> RegisteredSchema:
        what = f"{version} version of subject {subject!r}"
        if version != "latest":
            what = f"version {version} of subject {subject!r}"
        answer = self._ask().get(f"/subjects/{quote(subject, safe='')}/versions/{version}", what)
        if isinstance(answer, NotThere):
            raise SchemaNotFound(answer.url, what)
        url, found = answer
        schema_id = _member(url, what, found, "id", int)
        schema = self._registered(url, what, found, schema_id)
        _MEMORY.keep(self._config, schema_id, schema)
        return schema

    def _registered(self, url: str, what: str, found: dict[str, Any], schema_id: int) -> RegisteredSchema:
        text = _member(url, what, found, "schema", str)
        kind = KINDS.get(_optional(url, what, found, "schemaType", str))
        if kind is None:
            given = str(found["schemaType"])[:40]
            reason = f"is of type {given!r}. Penstock reads AVRO, PROTOBUF and JSON: name another subject"
            raise UnreadableSchema(url, what, reason, given, text)
        try:
            references = self._references(url, what, found)
        except _TooMuch as error:
            raise UnreadableSchema(url, what, f"refers to {error}", kind, text) from None
        return RegisteredSchema(
            schema_id,
            kind,
            text,
            references,
            _optional(url, what, found, "subject", str),
            _optional(url, what, found, "version", int),
        )

    def _references(self, url: str, what: str, found: dict[str, Any]) -> tuple[tuple[str, str], ...]:
        """Names and texts of what `found` refers to, what is needed always before what needs it. The first of a name
        counts, as with Confluent's clients. Circles, which JSON Schemas may have, end."""
        texts: dict[str, str] = {}
        seen: set[tuple[str, int]] = set()
        size, end = 0, time.monotonic() + REFERENCES_SECONDS
        # A path through what refers to each other, without recursion: of each its name and text, and what is left of
        # its references.
        path: list[tuple[str, str, Iterator[_Reference]]] = [("", "", _references_of(url, what, found))]
        while path:
            parent, text, left = path[-1]
            reference = next(left, None)
            if reference is None:
                path.pop()
                if path:
                    texts.setdefault(parent, text)
                continue
            name, subject, number = reference
            if name in texts or (subject, number) in seen:
                continue
            seen.add((subject, number))
            if len(seen) > REFERENCES_LIMIT:
                raise _TooMuch(f"more than {REFERENCES_LIMIT} other schemas")
            if len(path) > REFERENCES_DEEPEST:
                raise _TooMuch(f"schemas that refer to others more than {REFERENCES_DEEPEST} deep")
            if time.monotonic() > end:
                came = len(seen) - 1
                raise RegistryError(f"{what} at {url}: only {came} of its references came in {REFERENCES_SECONDS:g} s")
            needed = f"{name!r}, version {number} of subject {subject!r}, to which {parent or what} refers"
            # A schema that others refer to may be deleted for everybody but them.
            answer = self._ask().get(f"/subjects/{quote(subject, safe='')}/versions/{number}?deleted=true", needed)
            if isinstance(answer, NotThere):
                raise SchemaNotFound(answer.url, needed)
            text = _member(answer[0], needed, answer[1], "schema", str)
            size += len(text)
            if size > REFERENCES_BYTES:
                raise _TooMuch(f"schemas of more than {REFERENCES_BYTES >> 20} MB")
            path.append((name, text, _references_of(answer[0], needed, answer[1])))
        return tuple(texts.items())


_Reference: TypeAlias = tuple[str, str, int]
"""Name, subject and version."""


class _TooMuch(Exception):
    """A schema refers to more than any schema does."""


def _references_of(url: str, what: str, found: dict[str, Any]) -> Iterator[_Reference]:
    for reference in _optional(url, what, found, "references", list) or ():
        if not isinstance(reference, dict):
            raise _senseless(url, what, "references")
        yield (
            _member(url, what, reference, "name", str),
            _member(url, what, reference, "subject", str),
            _member(url, what, reference, "version", int),
        )


def _member(url: str, what: str, found: dict[str, Any], name: str, kind: type[Any]) -> Any:
    value = found.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _senseless(url, what, name)
    return value


def _optional(url: str, what: str, found: dict[str, Any], name: str, kind: type[Any]) -> Any:
    return None if found.get(name) is None else _member(url, what, found, name, kind)


def _senseless(url: str, what: str, name: str) -> RegistryError:
    return RegistryError(
        f"the answer of {url} about {what} makes no sense: its {name!r} is missing or of a wrong type. Check that "
        "schemaRegistry.url is a schema registry's"
    )


class _Memory:
    """What registries have told this process. Used by any thread."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin empty. Also after a fork, in which another thread may have held the lock."""
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[RegistryConfig, int], tuple[RegisteredSchema | NotThere, float]] = OrderedDict()
        self._bytes = 0

    def look_up(self, config: RegistryConfig, schema_id: int) -> RegisteredSchema | NotThere | None:
        with self._lock:
            found = self._kept.get((config, schema_id))
            if found is None:
                return None
            answer, since = found
            if isinstance(answer, NotThere) and time.monotonic() - since > UNKNOWN_SECONDS:
                self._drop((config, schema_id))
                return None
            self._kept.move_to_end((config, schema_id))
            return answer

    def keep(self, config: RegistryConfig, schema_id: int, answer: RegisteredSchema | NotThere) -> None:
        with self._lock:
            self._drop((config, schema_id))
            self._kept[config, schema_id] = (answer, time.monotonic())
            self._bytes += _size(answer)
            while len(self._kept) > SCHEMAS_KEPT or (self._bytes > BYTES_KEPT and len(self._kept) > 1):
                self._drop(next(iter(self._kept)))

    def _drop(self, key: tuple[RegistryConfig, int]) -> None:
        if (found := self._kept.pop(key, None)) is not None:
            self._bytes -= _size(found[0])


def _size(answer: RegisteredSchema | NotThere) -> int:
    if isinstance(answer, NotThere):
        return 0
    return len(answer.text) + sum(len(text) for _, text in answer.references)


_MEMORY = _Memory()
os.register_at_fork(after_in_child=_MEMORY.forget)


def forget_schemas() -> None:
    """Ask registries anew for everything, for tests and for those who delete schemas."""
    _MEMORY.forget()
