"""Derives the type of a column from a JSON Schema (drafts 4 to 2020-12) of a schema registry.

    object      STRUCT of its properties; MAP<STRING, ...> if it has only additionalProperties
    array       ARRAY
    string      STRING; format date-time TIMESTAMP, date DATE; base64 BINARY
    integer     BIGINT, or by connect.type
    number      DOUBLE, or by connect.type
    boolean     BOOLEAN

The type null beside another type is ignored, because every field is nullable. Alternatives (oneOf, anyOf, a list of
types) become their common type: objects become one struct with the fields of all. allOf is merged. A value without a
common type is STRING: the JSON as it was written. Keywords for validation (required, minimum, if ...) are ignored.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

import pyarrow as pa

from penstock.model.types import (
    MOST_FIELDS,
    MOST_LEVELS,
    TIMESTAMP,
    check_size,
    ddl_of,
    list_type,
    map_type,
    struct_type,
)

__all__ = ["json_schema_type"]

MAX_DECIMAL = 38

MOST_STEPS = 2_000_000
"""Limit for the cost of reading a schema, roughly in characters and keywords: a second or two."""

STEP = 10
"""The smallest cost."""

INTEGERS = {"int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32()}

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

TYPES_BY_KEYWORD = {
    **dict.fromkeys(("properties", "patternProperties", "additionalProperties"), "object"),
    **dict.fromkeys(("items", "prefixItems"), "array"),
}
"""The type of a schema without `type`, by its keywords."""


def json_schema_type(text: str, references: Sequence[tuple[str, str]] = ()) -> pa.StructType:
    """The struct that a JSON Schema describes. `references`: names and texts of the referenced schemas.

    Raises ValueError if it is not a JSON Schema, does not describe an object, or is recursive.
    """
    try:
        documents = {name: _document(each, f"the referenced schema {name}") for name, each in references}
        main = _document(text, "the JSON Schema")
        made = _Reader(main, documents).root()
    except RecursionError:
        raise ValueError("the JSON Schema is nested too deeply") from None
    if not pa.types.is_struct(made):
        shown = f"{ddl_of(made)} instead" if not pa.types.is_string(made) else "no single type"
        raise ValueError(f"the JSON Schema describes {shown}, but must describe an object with properties")
    check_size(made)
    return made


def _document(text: str, called: str) -> Any:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{called} is not JSON: {error}") from None
    if not isinstance(document, dict | bool):
        raise ValueError(f"{called} must be a JSON object, but is a {type(document).__name__}")
    if isinstance(document, dict) and document.get("type") == "record":
        raise ValueError(f"{called} is an Avro schema")
    return document


class _Resource(NamedTuple):
    """The base of a schema's references: a document, or a part of one with its own $id."""

    root: Any
    address: str
    document: Any


class _Schema(NamedTuple):
    body: Mapping[str, Any]
    resource: _Resource


class _Reader:
    def __init__(self, main: Any, documents: Mapping[str, Any]) -> None:
        self._left = MOST_STEPS
        self._fields = 0
        self._levels = 0
        self._anchors: dict[int, dict[str, Any]] = {}
        """By the identity of the root, then by name."""
        self._resources: dict[str, _Resource] = {}
        self._main = self._add("", main)
        for name, document in documents.items():
            self._resources[name] = self._add(name, document)
        self._names = list(documents)

    def _spend(self, steps: int) -> None:
        """Count steps before they are made. A few schemas that reference each other twice can take millions."""
        self._left -= steps
        if self._left < 0:
            raise ValueError("the JSON Schema takes too long to read with all its references")

    def _count(self, fields: int) -> None:
        self._fields += fields
        if self._fields > MOST_FIELDS:
            raise ValueError(f"the JSON Schema has more than {MOST_FIELDS} fields, with all its references")

    @contextmanager
    def _deeper(self, path: str) -> Iterator[None]:
        self._levels += 1
        if self._levels > MOST_LEVELS:
            raise ValueError(
                f"the JSON Schema is nested too deeply: more than {MOST_LEVELS} levels at {_called(path)[:200]}"
            )
        yield
        self._levels -= 1

    def root(self) -> pa.DataType:
        body = _body(self._main.root)
        return self._type([_Schema(body, self._main)], "", (id(body),))

    def _add(self, name: str, document: Any) -> _Resource:
        """Register the addresses ($id) of a document and of its parts."""
        main = _Resource(document, urldefrag(urljoin(name, _id(document)))[0], document)
        for part in _parts(document):
            if (id_ := _id(part)) and not id_.startswith("#"):
                self._spend(len(main.address) + len(id_))
                address = urldefrag(urljoin(main.address, id_))[0]
                self._resources.setdefault(address, _Resource(part, address, document))
        return main

    # Several schemas describe one value: its own and those of allOf and $ref.

    def _type(self, schemas: Sequence[_Schema], path: str, seen: tuple[int, ...]) -> pa.DataType:
        schemas, seen = self._gathered(schemas, path, seen)
        if alternatives := _alternatives(schemas):
            alone = [_Schema(_without(each.body, "oneOf", "anyOf"), each.resource) for each in schemas]
            # Several members of one allOf with alternatives are rare: the first such member counts.
            return _common([self._type([*alone, each], path, seen) for each in alternatives])
        made = [self._typed(name, schemas, path, seen) for name in self._type_names(schemas)]
        return _common(made)

    def _gathered(
        self, schemas: Iterable[_Schema], path: str, seen: tuple[int, ...]
    ) -> tuple[list[_Schema], tuple[int, ...]]:
        """All schemas of a value, with $ref and allOf resolved."""
        gathered: list[_Schema] = []
        here: list[int] = []
        waiting = deque(schemas)
        while waiting:
            schema = waiting.popleft()
            self._spend(STEP + len(schema.body) + len(seen) + len(here))
            body, resource = schema.body, self._inside(schema)
            for keyword in REFERENCES:
                if isinstance(reference := body.get(keyword), str):
                    target = self._target(reference, resource, path)
                    if id(target.body) in seen:
                        raise ValueError(
                            f"the JSON Schema is recursive: {_called(path)} contains {reference} again. Columns cannot "
                            "be recursive: give a schema yourself, with STRING for that field"
                        )
                    if id(target.body) not in here:
                        here.append(id(target.body))
                        waiting.append(target)
            waiting += [_Schema(_body(each), resource) for each in _list(body.get("allOf"))]
            gathered.append(_Schema(_without(body, "allOf", *REFERENCES), resource))
        return gathered, (*seen, *here)

    def _inside(self, schema: _Schema) -> _Resource:
        """The base for the references of a schema: its own $id, if it has one."""
        id_ = _id(schema.body)
        if not id_:
            return schema.resource
        self._spend(len(schema.resource.address) + len(id_))
        address = urldefrag(urljoin(schema.resource.address, id_))[0]
        return self._resources.get(address, schema.resource)

    def _type_names(self, schemas: Sequence[_Schema]) -> list[str]:
        self._spend(sum(len(_list(schema.body.get(keyword))) for schema in schemas for keyword in ("type", "enum")))
        return _type_names(schemas)

    def _typed(self, name: str, schemas: Sequence[_Schema], path: str, seen: tuple[int, ...]) -> pa.DataType:
        match name:
            case "object":
                return self._object(schemas, path, seen)
            case "array":
                return self._array(schemas, path, seen)
            case "string":
                return _string(schemas)
            case "integer":
                return INTEGERS.get(_first(schemas, "connect.type"), pa.int64())
            case "number":
                return _number(schemas)
            case "boolean":
                return pa.bool_()
        return pa.string()

    def _object(self, schemas: Sequence[_Schema], path: str, seen: tuple[int, ...]) -> pa.DataType:
        properties: dict[str, list[_Schema]] = {}
        for schema in schemas:
            for name, each in _dict(schema.body.get("properties")).items():
                properties.setdefault(name, []).append(_Schema(_body(each), schema.resource))
        if properties:
            self._count(len(properties))
            names = sorted(properties, key=lambda name: _index(properties[name]))
            made = {}
            with self._deeper(path):
                for name in names:
                    below = f"{path}.{name}" if path else name
                    self._spend(len(below))
                    made[name] = self._type(properties[name], below, seen)
            return struct_type(made)
        values = [
            _Schema(each, schema.resource)
            for schema in schemas
            for each in (schema.body.get("additionalProperties"), *_dict(schema.body.get("patternProperties")).values())
            if isinstance(each, dict)
        ]
        if not values:
            return pa.string()
        with self._deeper(path):
            return map_type(pa.string(), _common([self._type([each], f"{path}.value", seen) for each in values]))

    def _array(self, schemas: Sequence[_Schema], path: str, seen: tuple[int, ...]) -> pa.DataType:
        elements = []
        for schema in schemas:
            items = schema.body.get("items")
            each = [*_list(schema.body.get("prefixItems")), *(items if isinstance(items, list) else [items])]
            elements += [_Schema(item, schema.resource) for item in each if isinstance(item, dict)]
        with self._deeper(path):
            return list_type(_common([self._type([element], f"{path}.element", seen) for element in elements]))

    # References.

    def _target(self, reference: str, resource: _Resource, path: str) -> _Schema:
        self._spend(len(reference) + len(resource.address))
        address, fragment = urldefrag(reference)
        found = resource if not address else self._resource(address, resource)
        if found is None:
            known = f"only the references {', '.join(self._names)}" if self._names else "no references"
            where = f"refers to {reference} at {_called(path)}"
            raise ValueError(f"the JSON Schema {where}, but has {known}. Register it with all its references")
        for root in (found.root, found.document):
            target = self._at(root, unquote(fragment))
            if isinstance(target, dict | bool):
                return _Schema(_body(target), found._replace(root=root))
        raise ValueError(f"the JSON Schema refers to {reference} at {_called(path)}, which does not exist")

    def _at(self, root: Any, fragment: str) -> Any:
        """The part that a JSON pointer or an anchor names; None if there is none."""
        if not fragment or fragment.startswith("/"):
            return _pointed_at(root, fragment)
        anchors = self._anchors.get(id(root))
        if anchors is None:
            anchors = self._anchors[id(root)] = {}
            for part in _parts(root):
                for keyword in ("$anchor", "$dynamicAnchor", "$id", "id"):
                    if isinstance(name := part.get(keyword), str):
                        anchors.setdefault(name.removeprefix("#"), part)
        return anchors.get(fragment.removeprefix("#"))

    def _resource(self, address: str, resource: _Resource) -> _Resource | None:
        for name in (address, urljoin(resource.address, address)):
            if name in self._resources:
                return self._resources[name]
        # The name of a reference in a registry is often only the last part of an address.
        last = [name for name in self._names if name.rsplit("/", 1)[-1] == address.rsplit("/", 1)[-1]]
        return self._resources[last[0]] if len(last) == 1 else None


# --- one schema's keywords --------------------------------------------------------------------------------------------


def _type_names(schemas: Sequence[_Schema]) -> list[str]:
    """The types that a value may have, without null; [] if the schemas do not say."""
    for schema in schemas:
        given = schema.body.get("type")
        names = [given] if isinstance(given, str) else [name for name in _list(given) if isinstance(name, str)]
        if names:
            kept = [name for name in names if name != "null"]
            # An integer is also a number.
            return [name for name in kept if name != "integer"] if {"integer", "number"} <= set(kept) else kept
    for schema in schemas:
        for keyword, name in TYPES_BY_KEYWORD.items():
            if isinstance(schema.body.get(keyword), dict | list):
                return [name]
    for schema in schemas:
        values = [schema.body["const"]] if "const" in schema.body else _list(schema.body.get("enum"))
        if values:
            return sorted({name for value in values if (name := _type_name_of(value)) != "null"})
    return []


def _type_name_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
    return "any"


def _alternatives(schemas: Sequence[_Schema]) -> list[_Schema]:
    """The alternatives of oneOf or anyOf, without null."""
    for schema in schemas:
        for keyword in ("oneOf", "anyOf"):
            bodies = [_body(each) for each in _list(schema.body.get(keyword))]
            kept = [body for body in bodies if body.get("type") not in ("null", ["null"]) and body != {"const": None}]
            # Alternatives that only list required properties do not describe types.
            if kept and not all(set(body) <= {"required", "not", "title", "description"} for body in kept):
                return [_Schema(body, schema.resource) for body in kept]
    return []


def _string(schemas: Sequence[_Schema]) -> pa.DataType:
    if _first(schemas, "connect.type") == "bytes" or _first(schemas, "contentEncoding") == "base64":
        return pa.binary()
    return {"date-time": TIMESTAMP, "date": pa.date32()}.get(str(_first(schemas, "format")), pa.string())


def _number(schemas: Sequence[_Schema]) -> pa.DataType:
    match _first(schemas, "connect.type"):
        case "float32":
            return pa.float32()
        case "bytes":  # Connect's decimals
            parameters = _dict(_first(schemas, "connect.parameters"))
            precision, scale = (
                str(parameters.get(name, default))
                for name, default in (("connect.decimal.precision", MAX_DECIMAL), ("scale", ""))
            )
            if precision.isdecimal() and scale.isdecimal() and int(scale) <= int(precision) <= MAX_DECIMAL:
                return pa.decimal128(int(precision), int(scale))
    return pa.float64()


def _index(schemas: Sequence[_Schema]) -> int:
    """Connect's order of fields; fields without one come after them, in their order."""
    index = _first(schemas, "connect.index")
    return index if isinstance(index, int) else 1 << 31


def _common(types: Sequence[pa.DataType]) -> pa.DataType:
    """The common type; STRING if there is none, or if `types` is empty."""
    if not types:
        return pa.string()
    first, *others = types
    if all(each.equals(first) for each in others):
        return first
    if all(pa.types.is_struct(each) for each in types):
        fields: dict[str, list[pa.DataType]] = {}
        for each in types:
            for field in each:
                fields.setdefault(field.name, []).append(field.type)
        return struct_type({name: _common(kinds) for name, kinds in fields.items()})
    if all(pa.types.is_list(each) for each in types):
        return list_type(_common([each.value_type for each in types]))
    if all(pa.types.is_integer(each) for each in types):
        return max(types, key=lambda each: int(each.bit_width))
    if all(pa.types.is_integer(each) or pa.types.is_floating(each) for each in types):
        return pa.float64()
    return pa.string()


# --- JSON -------------------------------------------------------------------------------------------------------------


def _body(schema: Any) -> Mapping[str, Any]:
    """The keywords of a schema. `true` and `false` are schemas without keywords."""
    return schema if isinstance(schema, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _without(body: Mapping[str, Any], *keywords: str) -> Mapping[str, Any]:
    return {keyword: value for keyword, value in body.items() if keyword not in keywords}


def _first(schemas: Sequence[_Schema], keyword: str) -> Any:
    return next((schema.body[keyword] for schema in schemas if keyword in schema.body), None)


def _id(body: Any) -> str:
    """The $id, which is called id in draft 4."""
    found = _dict(body).get("$id", _dict(body).get("id"))
    return found if isinstance(found, str) else ""


def _parts(document: Any) -> Iterator[dict[str, Any]]:
    """All objects of a document, outer ones first."""
    waiting = [document]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting += reversed(each.values())
        elif isinstance(each, list):
            waiting += reversed(each)


def _pointed_at(root: Any, fragment: str) -> Any:
    """The part that a JSON pointer names; None if there is none."""
    found = root
    for step in fragment.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(step)
        elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
            found = found[int(step)]
        else:
            return None
    return found


def _called(path: str) -> str:
    return f"field {path}" if path else "its root"
