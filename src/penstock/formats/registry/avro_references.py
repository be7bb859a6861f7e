"""Inlines the references of an Avro schema: each type is written out where it is named first."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

LONGEST_NAME = 1024
"""Characters. A namespace stands once in a schema, but would be written out for each type."""

_NAMED = ("record", "error", "enum", "fixed")
_PRIMITIVES = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string", "array", "map", "union", *_NAMED)
)


def inline(text: str, references: Iterable[str]) -> str:
    """The schema, with all named types of `references` that it uses, at any depth, written out.

    Names follow Avro's rules: a name without a dot belongs to the enclosing namespace or, if that has no such type, to
    no namespace. Raises ValueError for a text that is not a schema.
    """
    try:
        types: dict[str, tuple[dict[str, Any], str]] = {}
        for reference in references:
            _collect(json.loads(reference), "", types)
        return json.dumps(_Writer(types).write(json.loads(text), ""))
    except RecursionError:
        raise ValueError("the Avro schema is nested too deeply") from None


class _Writer:
    def __init__(self, types: dict[str, tuple[dict[str, Any], str]]) -> None:
        self._types = types
        self._written: set[str] = set()

    def write(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, str):
            return self._name(schema, namespace)
        if isinstance(schema, list):
            return [self.write(branch, namespace) for branch in schema]
        if not isinstance(schema, dict):
            raise ValueError(f"{str(schema)[:40]!r} is not an Avro schema")
        kind = schema.get("type")
        if kind in _NAMED:
            return self._definition(schema, namespace, namespace)
        parts = dict(schema)
        for part in ("items", "values"):
            if part in schema:
                parts[part] = self.write(schema[part], namespace)
        if "type" in schema:
            parts["type"] = self.write(kind, namespace)
        return parts

    def _name(self, name: str, namespace: str) -> Any:
        if name in _PRIMITIVES:
            return name
        for full in dict.fromkeys((full_name(name, namespace), name)):
            if full in self._written:
                return full
            if full in self._types:
                definition, home = self._types[full]
                return self._definition(definition, home, namespace)
        return name  # a type of this schema that follows, or an unknown type: the parser decides

    def _definition(self, schema: dict[str, Any], home: str, around: str) -> Any:
        """A named type that was defined in namespace `home`, for a place in namespace `around`."""
        full = _full_name_of(schema, home)
        if full in self._written:
            return full
        self._written.add(full)
        inner, _, name = full.rpartition(".")
        parts = dict(schema)
        if inner != around or "namespace" in schema:
            parts["name"], parts["namespace"] = name, inner
        if isinstance(schema.get("fields"), list):
            parts["fields"] = [self._field(field, inner) for field in schema["fields"]]
        return parts

    def _field(self, field: Any, namespace: str) -> Any:
        if not isinstance(field, dict) or "type" not in field:
            raise ValueError(f"{str(field)[:40]!r} is not a field of an Avro record")
        return field | {"type": self.write(field["type"], namespace)}


def _collect(schema: Any, namespace: str, types: dict[str, tuple[dict[str, Any], str]]) -> None:
    """Collect all named types that a schema defines, with the namespace around each."""
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, namespace, types)
    elif isinstance(schema, dict):
        kind = schema.get("type")
        if kind in _NAMED:
            full = _full_name_of(schema, namespace)
            types.setdefault(full, (schema, namespace))
            fields = schema.get("fields")
            for field in fields if isinstance(fields, list) else ():
                if isinstance(field, dict):
                    _collect(field.get("type"), full.rpartition(".")[0], types)
        else:
            for part in ("type", "items", "values"):
                _collect(schema.get(part), namespace, types)


def root_names(text: str) -> list[list[str]] | None:
    """The names at the root of a schema, without namespaces: for each named type its name, then its aliases.

    A union may have several types, a primitive type has none. None for a text that is not JSON.
    """
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        return None
    names = []
    for branch in schema if isinstance(schema, list) else [schema]:
        if isinstance(branch, str) and branch not in _PRIMITIVES:
            names.append([branch.rpartition(".")[2]])
        if isinstance(branch, dict) and branch.get("type") in _NAMED:
            aliases = branch.get("aliases")
            given = [branch.get("name"), *(aliases if isinstance(aliases, list) else ())]
            names.append([name.rpartition(".")[2] for name in given if isinstance(name, str)])
    return names


def root_full_name(text: str) -> str | None:
    """The full name of the record, enum or fixed at the root of a schema; None if there is none."""
    try:
        schema = json.loads(text)
        is_named = isinstance(schema, dict) and schema.get("type") in _NAMED
        return _full_name_of(schema, "") if is_named else None
    except (ValueError, RecursionError):
        return None


def full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _full_name_of(schema: dict[str, Any], around: str) -> str:
    name, namespace = schema.get("name"), schema.get("namespace", around)
    if not isinstance(name, str) or not name or not isinstance(namespace, str):
        raise ValueError(f"a named type of the Avro schema has no name: {str(schema)[:40]}")
    if len(name) + len(namespace) > LONGEST_NAME:
        raise ValueError(f"a named type of the Avro schema has a name of more than {LONGEST_NAME} characters")
    return full_name(name, namespace)
