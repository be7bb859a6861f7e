"""Parses schemas in Spark's DDL or Spark's schema JSON to Arrow types.

    a INT, b ARRAY<STRUCT<x: STRING>> COMMENT 'c'        a list of columns
    struct<a:int,b:array<struct<x:string>>>              the same as one type
    {"type": "struct", "fields": [...]}                  StructType.json()

Spark's own parser needs a JVM, which the planner does not have. The types are those that PySpark derives from the same
text (`penstock.model.types`), except that every field is nullable: records need not obey a schema. NOT NULL and
comments are ignored.

All errors are ValueErrors with the place in the text, what was expected there, and what was found.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from penstock.model.types import (
    REFUSED,
    SIMPLE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    check_size,
    ddl_of,
    list_type,
    map_type,
    struct_type,
)

__all__ = ["ddl_of", "parse_schema"]

MAX_DECIMAL = 38

EXAMPLE = "id BIGINT, name STRING, tags ARRAY<STRING>"

OTHER_NAMES = {
    other: ours
    for ours, others in {
        "BOOLEAN": "bool",
        "TINYINT": "int8",
        "SMALLINT": "int16 uint8",
        "INT": "int32 uint16",
        "BIGINT": "int64 uint32",
        "DECIMAL(20, 0)": "uint64",
        "FLOAT": "float32",
        "DOUBLE": "float64 number",
        "STRING": "str text utf8 uuid json enum",
        "BINARY": "bytes blob bytea varbinary fixed",
        "TIMESTAMP": "datetime timestamptz",
        "ARRAY<...>": "list",
        "STRUCT<...>": "object record row",
    }.items()
    for other in others.split()
}
"""Names of types in other systems."""

COMPLEX = ("array", "map", "struct")
SIZED = ("char", "character", "varchar")
DECIMALS = ("decimal", "dec", "numeric")
TIMESTAMPS = ("timestamp", "timestamp_ltz", "timestamp_ntz")
KNOWN = (*SIMPLE, *COMPLEX, *SIZED, *DECIMALS, *TIMESTAMPS, "string")

LONGEST_TYPE = 40
"""Characters. Longer words are cut before the search for a similar type name."""

TOKENS = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      | (?P<word>\w+)
      | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)


def parse_schema(text: str) -> pa.StructType:
    """The struct that a text describes."""
    if not text.strip():
        raise ValueError(f"the schema is empty: expected columns, as in {EXAMPLE}")
    try:
        made = _of_json(text) if text.lstrip().startswith(("{", "[")) else _of_ddl(text)
    except RecursionError:
        raise ValueError("the schema is nested too deeply") from None
    check_size(made)
    return made


def _of_ddl(text: str) -> pa.StructType:
    try:
        return _Parser(text).schema()
    except ValueError as error:
        if hint := _hint(text):
            raise ValueError(f"{error}. {hint}") from None
        raise


def _hint(text: str) -> str:
    """What a text that is not a schema of Spark's may be instead."""
    text = text.strip()
    if re.match(r"syntax\s*=|message\s+\w+\s*\{", text):
        return "This is a .proto file: valueFormat protobuf takes its descriptor set, or a schema registry"
    has_suffix = re.search(r"\.(json|avsc|avro|proto|desc|pb|bin|ddl|sql|txt)$", text)
    if (has_suffix or re.match(r"\.{0,2}/|\w+://", text)) and not re.search(r"[\s<>]", text):
        return "This looks like a file name: give the content of the file, open(...).read()"
    return ""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def _tokens(text: str) -> Iterator[_Token]:
    """The tokens of a text, then endless end tokens."""
    for match in TOKENS.finditer(text):
        if match.lastgroup != "space":
            yield _Token(str(match.lastgroup), match.group(), match.start())
    while True:
        yield _Token("end", "", len(text))


class _Parser:
    """Spark's DDL, by recursive descent."""

    def __init__(self, text: str) -> None:
        self._text = text
        # Lazily: the text after an error is not tokenized, because that may take long.
        self._tokens = _tokens(text)
        self._token, self._after = next(self._tokens), next(self._tokens)

    def schema(self) -> pa.StructType:
        """A whole text: `struct<...>`, or a list of columns."""
        first, second = self._token, self._after
        if first.text.lower() == "struct" and second.text == "<":
            made = self._type()
        elif second.kind == "end" or second.text in ("<", "("):
            self._fail(f"expected columns, each a name and a type, as in {EXAMPLE}", first)
        else:
            made = self._columns()
        self._end()
        return made

    def type(self) -> pa.DataType:
        """A whole text that is one type."""
        made = self._type()
        self._end()
        return made

    # One rule of the grammar each.

    def _columns(self) -> pa.StructType:
        columns: dict[str, pa.DataType] = {}
        while True:
            token = self._peek()
            name = self._name()
            if name in columns:
                self._fail(f"column {name} occurs twice", token, found=False)
            self._take(":")
            columns[name] = self._type()
            self._take_words("not", "null")
            if self._take_words("comment"):
                self._comment()
            if not self._take(","):
                return struct_type(columns)

    def _name(self) -> str:
        token = self._peek()
        if token.kind == "quoted" and len(token.text) > 2:
            name = token.text[1:-1].replace("``", "`")
        elif token.kind == "word":
            name = token.text
        else:
            self._fail("expected the name of a column", token)
        self._advance()
        if (after := self._peek()).kind == "mark" and after.text in "-.$/@#+":
            self._fail("expected a type, or `backquotes` around a name that is not only letters, digits and _")
        return name

    def _comment(self) -> None:
        if self._peek().kind != "text":
            self._fail("expected a comment in quotes")
        while self._peek().kind == "text":
            self._advance()

    def _type(self) -> pa.DataType:
        token = self._peek()
        name = token.text.lower()
        if token.kind != "word" or (name not in KNOWN and name not in REFUSED):
            self._unknown_type(token)
        self._advance()
        if name in REFUSED:
            self._fail(f"type {name.upper()} {REFUSED[name]}", token, found=False)
        if name in COMPLEX:
            return self._complex(name)
        if name in SIZED:
            return self._sized(name)
        if name in DECIMALS:
            return self._decimal()
        if name in TIMESTAMPS:
            return self._timestamp(name)
        if name == "string":
            return self._string()
        return SIMPLE[name]

    def _complex(self, name: str) -> pa.DataType:
        shape = {"array": "ARRAY<INT>", "map": "MAP<STRING, INT>", "struct": "STRUCT<a: INT>"}[name]
        self._expect("<", f"its element types, as in {shape}")
        made: pa.DataType
        if name == "array":
            made = list_type(self._type())
        elif name == "map":
            key = self._type()
            self._expect(",", f"a comma and the type of the values, as in {shape}")
            made = map_type(key, self._type())
        else:
            if self._is(">"):
                self._fail("a struct has at least one field: expected its name")
            made = self._columns()
        self._expect(">", f"> at the end of {name.upper()}<...>")
        return made

    def _sized(self, name: str) -> pa.DataType:
        self._expect("(", f"its length, as in {name.upper()}(20), or STRING instead")
        self._number(1, None)
        self._expect(")", ")")
        return pa.string()

    def _decimal(self) -> pa.DataType:
        if not self._take("("):
            return pa.decimal128(10, 0)
        precision = self._number(1, MAX_DECIMAL)
        scale = self._number(0, precision) if self._take(",") else 0
        self._expect(")", ")")
        return pa.decimal128(precision, scale)

    def _timestamp(self, name: str) -> pa.DataType:
        if self._take("("):
            token = self._peek()
            if self._number(0, None) != 6:
                self._fail("timestamps are in microseconds: expected 6 or nothing", token)
            self._expect(")", ")")
        if name == "timestamp" and self._take_words("without", "time", "zone"):
            return TIMESTAMP_NTZ
        if name == "timestamp":
            self._take_words("with", "local", "time", "zone")
        return TIMESTAMP_NTZ if name == "timestamp_ntz" else TIMESTAMP

    def _string(self) -> pa.DataType:
        if self._take_words("collate"):
            token = self._peek()
            if self._name().lower() != "utf8_binary":
                self._fail("collations are not supported: remove it and cast the column afterwards", token)
        return pa.string()

    def _number(self, least: int, most: int | None) -> int:
        token = self._peek()
        within = f"a number from {least} to {most}" if most is not None else f"a number of at least {least}"
        if not token.text.isdecimal() or int(token.text) < least or (most is not None and int(token.text) > most):
            self._fail(f"expected {within}", token)
        self._advance()
        return int(token.text)

    # Tokens and errors.

    def _peek(self) -> _Token:
        return self._token

    def _advance(self) -> None:
        self._token, self._after = self._after, next(self._tokens)

    def _is(self, mark: str) -> bool:
        return self._peek().kind == "mark" and self._peek().text == mark

    def _is_word(self, word: str) -> bool:
        return self._peek().kind == "word" and self._peek().text.lower() == word

    def _take(self, mark: str) -> bool:
        if not self._is(mark):
            return False
        self._advance()
        return True

    def _take_words(self, *words: str) -> bool:
        """Take all words if the first one follows. Fails if only some of them follow."""
        if not self._is_word(words[0]):
            return False
        for word in words:
            if not self._is_word(word):
                self._fail(f"expected {' '.join(words).upper()}")
            self._advance()
        return True

    def _expect(self, mark: str, what: str) -> None:
        if not self._take(mark):
            self._fail(f"expected {what}")

    def _end(self) -> None:
        if self._peek().kind != "end":
            self._fail("expected a comma or the end")

    def _unknown_type(self, token: _Token) -> NoReturn:
        if token.kind != "word":
            self._fail("expected a type", token)
        name = token.text[:LONGEST_TYPE].lower()
        near = OTHER_NAMES.get(name) or next(iter(difflib.get_close_matches(name, KNOWN, n=1)), "")
        self._fail("expected a type", token, hint=f"Did you mean {near.upper()}?" if near else "")

    def _fail(self, what: str, token: _Token | None = None, *, found: bool = True, hint: str = "") -> NoReturn:
        token = token or self._peek()
        line = self._text.count("\n", 0, token.at) + 1
        column = token.at - self._text.rfind("\n", 0, token.at)
        place = f"column {column}" if "\n" not in self._text.strip() else f"line {line}, column {column}"
        shown = "" if not found else ", found the end" if token.kind == "end" else f", found {token.text[:40]!r}"
        raise ValueError(f"{place} of the schema: {what}{shown}" + (f". {hint}" if hint else ""))


def _of_json(text: str) -> pa.StructType:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ValueError(f"the schema begins like JSON, but is not valid JSON: {error}") from None
    if not isinstance(document, dict) or document.get("type") != "struct":
        raise ValueError(f"the schema is JSON, but not that of a Spark struct. {_json_hint(document)}")
    return _struct_of_json(document, "")


def _json_hint(document: Any) -> str:
    if isinstance(document, dict):
        if document.get("type") in ("record", "enum", "fixed") or "namespace" in document:
            return "This is an Avro schema: set the format to avro, or describe the columns as in " + EXAMPLE
        if any(name in document for name in ("$schema", "properties", "$defs", "definitions", "$ref")):
            return "This is a JSON Schema, which a schema registry holds. Here describe the columns as in " + EXAMPLE
    return 'Expected {"type": "struct", "fields": [...]}, as StructType.json() writes it, or columns as in ' + EXAMPLE


def _struct_of_json(document: dict[str, Any], path: str) -> pa.StructType:
    where = f"field {path} of the schema" if path else "the schema"
    fields = document.get("fields")
    if not isinstance(fields, list) or not fields:
        raise ValueError(f'{where}: expected "fields", a list with at least one field')
    made: dict[str, pa.DataType] = {}
    for number, field in enumerate(fields):
        if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
            raise ValueError(f'{where}: its field number {number} needs a "name" and a "type"')
        name = field["name"]
        if name in made:
            raise ValueError(f"{where}: field {name} occurs twice")
        made[name] = _type_of_json(field["type"], f"{path}.{name}" if path else name)
    return struct_type(made)


def _type_of_json(document: Any, path: str) -> pa.DataType:
    match document:
        case str():
            try:
                return _Parser(document).type()
            except ValueError as error:
                raise ValueError(f"field {path} of the schema: {error}") from None
        case {"type": "struct"}:
            return _struct_of_json(document, path)
        case {"type": "array", "elementType": element}:
            return list_type(_type_of_json(element, f"{path}.element"))
        case {"type": "map", "keyType": key, "valueType": value}:
            return map_type(_type_of_json(key, f"{path}.key"), _type_of_json(value, f"{path}.value"))
        case {"type": "udt"}:
            reason = "has a user-defined type, which no format supports. Read its sqlType instead"
            raise ValueError(f"field {path} of the schema {reason}")
    raise ValueError(f"field {path} of the schema: expected a type of Spark's JSON, found {json.dumps(document)[:80]}")
