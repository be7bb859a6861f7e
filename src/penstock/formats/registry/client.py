"""A schema registry client: schemas by id, or by subject and version, with their references, and registration.

It uses Confluent's REST API, which Apicurio, Redpanda and Karapace also serve. The schema of an id never changes, so it
is requested once per process: Spark reuses its workers, so this cache outlives a micro-batch.
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
from penstock.formats.registry.connection import NotRegistered, RegistryConnection

__all__ = ["Kind", "RegisteredSchema", "RegistryConfig", "SchemaRegistry", "clear_schema_cache", "file_descriptor"]

Kind: TypeAlias = Literal["AVRO", "PROTOBUF", "JSON"]
KINDS: dict[object, Kind] = {None: "AVRO", "AVRO": "AVRO", "PROTOBUF": "PROTOBUF", "JSON": "JSON"}
"""Confluent's registry does not name the type AVRO: it was the first one."""

UNKNOWN_SECONDS = 10.0
"""How long an id that the registry did not have is not requested again. Records with an unknown id come in large
numbers. But one node of a registry may not yet know a schema that was registered at another node."""

SCHEMAS_KEPT = 1000
BYTES_KEPT = 64 << 20
"""Of all texts together. One text may have 16 MB, and references of the same size."""

# Limits for direct and indirect references, more than real schemas have. Each reference is a request, and a chain of
# references may have no end.
REFERENCES_LIMIT = 200
REFERENCES_DEEPEST = 32
REFERENCES_BYTES = 16 << 20
REFERENCES_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of the registry."""

    id: int
    kind: Kind
    text: str
    """Protobuf: the source, or a FileDescriptorProto in base64. Confluent's Python and Go clients register the latter,
    and some registries store it unchanged."""
    references: tuple[tuple[str, str], ...] = ()
    """Names and texts of all referenced schemas. A schema comes after those that it references."""
    subject: str | None = None
    version: int | None = None

    def avro_text(self) -> str:
        """Avro: one schema with all referenced types written out. Raises ValueError if it is not an Avro schema."""
        if self.kind != "AVRO":
            raise ValueError(f"schema {self.id} is of type {self.kind}, not AVRO")
        return inline(self.text, (text for _, text in self.references)) if self.references else self.text


def file_descriptor(text: str) -> bytes | None:
    """The FileDescriptorProto, if a Protobuf schema's text is one in base64; None if it is source."""
    try:
        # Base64 has none of the characters that every .proto file has: ; = { and the like.
        return base64.b64decode(text.strip(), validate=True) or None
    except (binascii.Error, ValueError):
        return None


class SchemaRegistry:
    """A registry client. For any thread. All clients of a process share one cache."""

    def __init__(self, config: RegistryConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._connection: RegistryConnection | None = None
        self._owner = os.getpid()

    def schema(self, schema_id: int) -> RegisteredSchema:
        """The schema with this id, from the cache if it was requested before. Raises SchemaNotFound."""
        known = _CACHE.look_up(self._config, schema_id)
        if isinstance(known, RegisteredSchema):
            return known
        what = f"schema {schema_id}"
        if known is not None:
            raise SchemaNotFound(known.url, what)
        answer = self._connect().get(f"/schemas/ids/{schema_id}", what)
        if isinstance(answer, NotRegistered):
            _CACHE.keep(self._config, schema_id, answer)
            raise SchemaNotFound(answer.url, what)
        url, found = answer
        schema = self._registered(url, what, found, schema_id)
        _CACHE.keep(self._config, schema_id, schema)
        return schema

    def has_cached(self, schema_id: int) -> bool:
        """Whether `schema` answers without a request."""
        return _CACHE.look_up(self._config, schema_id) is not None

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest version of a subject. Not cached. Raises SchemaNotFound."""
        return self._version(subject, "latest")

    def version(self, subject: str, number: int) -> RegisteredSchema:
        """One version of a subject. Not cached. Raises SchemaNotFound."""
        return self._version(subject, str(number))

    def register(self, subject: str, kind: Kind, text: str) -> int:
        """Register a schema under a subject, unless it is there. Returns its id. Raises SchemaRefused."""
        what = f"a schema under subject {subject!r}"
        return self._post(f"/subjects/{quote(subject, safe='')}/versions", what, kind, text, subject)

    def id_of(self, subject: str, kind: Kind, text: str) -> int:
        """The id of a schema under a subject. Raises SchemaNotFound."""
        what = f"such schema under subject {subject!r}, and autoRegisterSchemas is false"
        return self._post(f"/subjects/{quote(subject, safe='')}", what, kind, text, subject)

    def _post(self, path: str, what: str, kind: Kind, text: str, subject: str) -> int:
        # Without AVRO: older registries do not know the member.
        body = {"schema": text} if kind == "AVRO" else {"schema": text, "schemaType": kind}
        answer = self._connect().post(path, what, body, subject)
        if isinstance(answer, NotRegistered):
            raise SchemaNotFound(answer.url, what)
        url, found = answer
        schema_id: int = _member(url, what, found, "id", int)
        return schema_id

    def close(self) -> None:
        """Close connections; the next request opens new ones."""
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

    def _connect(self) -> RegistryConnection:
        with self._lock:
            if (
                self._connection is None or self._owner != os.getpid()
            ):  # a forked process must not use its parent's sockets
                self._connection = RegistryConnection(self._config)
                self._owner = os.getpid()
            return self._connection

    def _version(self, subject: str, version: str) -> RegisteredSchema:
        what = f"{version} version of subject {subject!r}"
        if version != "latest":
            what = f"version {version} of subject {subject!r}"
        answer = self._connect().get(f"/subjects/{quote(subject, safe='')}/versions/{version}", what)
        if isinstance(answer, NotRegistered):
            raise SchemaNotFound(answer.url, what)
        url, found = answer
        schema_id = _member(url, what, found, "id", int)
        schema = self._registered(url, what, found, schema_id)
        _CACHE.keep(self._config, schema_id, schema)
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
        except _TooManyReferences as error:
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
        """Names and texts of all references of `found`. A schema comes after those that it references. The first
        reference of a name counts, as with Confluent's clients. Cycles, which JSON Schemas may have, are cut."""
        texts: dict[str, str] = {}
        seen: set[tuple[str, int]] = set()
        size, end = 0, time.monotonic() + REFERENCES_SECONDS
        # A depth-first walk without recursion: name and text of each schema on the path, and its remaining references.
        path: list[tuple[str, str, Iterator[_Reference]]] = [("", "", _references_of(url, what, found))]
        while path:
            parent, text, remaining = path[-1]
            reference = next(remaining, None)
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
                raise _TooManyReferences(f"more than {REFERENCES_LIMIT} other schemas")
            if len(path) > REFERENCES_DEEPEST:
                raise _TooManyReferences(f"schemas that refer to others more than {REFERENCES_DEEPEST} deep")
            if time.monotonic() > end:
                loaded = len(seen) - 1
                raise RegistryError(
                    f"{what} at {url}: only {loaded} of its references were loaded in {REFERENCES_SECONDS:g} s"
                )
            needed = f"{name!r}, version {number} of subject {subject!r}, to which {parent or what} refers"
            # A referenced schema may be soft-deleted.
            answer = self._connect().get(f"/subjects/{quote(subject, safe='')}/versions/{number}?deleted=true", needed)
            if isinstance(answer, NotRegistered):
                raise SchemaNotFound(answer.url, needed)
            text = _member(answer[0], needed, answer[1], "schema", str)
            size += len(text)
            if size > REFERENCES_BYTES:
                raise _TooManyReferences(f"schemas of more than {REFERENCES_BYTES >> 20} MB")
            path.append((name, text, _references_of(answer[0], needed, answer[1])))
        return tuple(texts.items())


_Reference: TypeAlias = tuple[str, str, int]
"""Name, subject and version."""


class _TooManyReferences(Exception):
    """A schema has more references than a real one."""


def _references_of(url: str, what: str, found: dict[str, Any]) -> Iterator[_Reference]:
    for reference in _optional(url, what, found, "references", list) or ():
        if not isinstance(reference, dict):
            raise _invalid_response(url, what, "references")
        yield (
            _member(url, what, reference, "name", str),
            _member(url, what, reference, "subject", str),
            _member(url, what, reference, "version", int),
        )


def _member(url: str, what: str, found: dict[str, Any], name: str, kind: type[Any]) -> Any:
    value = found.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _invalid_response(url, what, name)
    return value


def _optional(url: str, what: str, found: dict[str, Any], name: str, kind: type[Any]) -> Any:
    return None if found.get(name) is None else _member(url, what, found, name, kind)


def _invalid_response(url: str, what: str, name: str) -> RegistryError:
    return RegistryError(
        f"the response of {url} about {what} is invalid: its {name!r} is missing or of a wrong type. Check that "
        "schemaRegistry.url is the URL of a schema registry"
    )


class _SchemaCache:
    """Responses of registries, for the whole process. For any thread."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Start empty, also in a forked process: there the lock may be held by a thread that no longer exists."""
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[RegistryConfig, int], tuple[RegisteredSchema | NotRegistered, float]] = (
            OrderedDict()
        )
        self._bytes = 0

    def look_up(self, config: RegistryConfig, schema_id: int) -> RegisteredSchema | NotRegistered | None:
        with self._lock:
            found = self._kept.get((config, schema_id))
            if found is None:
                return None
            answer, since = found
            if isinstance(answer, NotRegistered) and time.monotonic() - since > UNKNOWN_SECONDS:
                self._drop((config, schema_id))
                return None
            self._kept.move_to_end((config, schema_id))
            return answer

    def keep(self, config: RegistryConfig, schema_id: int, answer: RegisteredSchema | NotRegistered) -> None:
        with self._lock:
            self._drop((config, schema_id))
            self._kept[config, schema_id] = (answer, time.monotonic())
            self._bytes += _size(answer)
            while len(self._kept) > SCHEMAS_KEPT or (self._bytes > BYTES_KEPT and len(self._kept) > 1):
                self._drop(next(iter(self._kept)))

    def _drop(self, key: tuple[RegistryConfig, int]) -> None:
        if (found := self._kept.pop(key, None)) is not None:
            self._bytes -= _size(found[0])


def _size(answer: RegisteredSchema | NotRegistered) -> int:
    if isinstance(answer, NotRegistered):
        return 0
    return len(answer.text) + sum(len(text) for _, text in answer.references)


_CACHE = _SchemaCache()
os.register_at_fork(after_in_child=_CACHE.clear)


def clear_schema_cache() -> None:
    """Drop all cached schemas, for tests and after schemas were deleted."""
    _CACHE.clear()
