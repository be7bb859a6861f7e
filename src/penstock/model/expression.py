"""The condition of `where`: a tree of typed expressions, built on the driver and evaluated by tasks.

Every implicit cast of Spark is an explicit one here, and every literal has the type that it is compared as. So a task
needs no rule of SQL, and no parser.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import pyarrow as pa

BOOLEAN = pa.bool_()

Comparison: TypeAlias = Literal["=", "<=>", "<", "<=", ">", ">="]
Operator: TypeAlias = Literal["+", "-", "*", "/", "%", "div"]
Function: TypeAlias = Literal["lower", "upper", "length"]


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a field in its structs."""

    source: str
    """The column of Kafka."""
    path: tuple[str, ...]
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Constant:
    value: Any
    """As Python's type; None for null."""
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class FieldOf:
    """A field of a struct that an expression returns."""

    of: Expression
    name: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class MapItem:
    """The value of a key in a map; null if the map does not have it."""

    of: Expression
    key: Any
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class ListItem:
    """An element of an array, counted from 0."""

    of: Expression
    index: int
    type: pa.DataType
    may_miss: bool
    """Whether an array without this element gives null. If not, it is an error."""
    text: str


@dataclass(frozen=True, slots=True)
class Header:
    """The value of a record's last header of a name; null if it has none."""

    name: str
    type: ClassVar[pa.DataType] = pa.binary()


@dataclass(frozen=True, slots=True)
class JsonText:
    """What a path finds in a text of JSON, as text; null if it finds nothing, or if the text is not JSON."""

    of: Expression
    steps: tuple[str | int, ...]
    """Names of fields, and indices of elements."""
    type: ClassVar[pa.DataType] = pa.string()


@dataclass(frozen=True, slots=True)
class Cast:
    of: Expression
    type: pa.DataType
    tries: bool
    """Whether a value that cannot be cast gives null. If not, it is an error."""
    text: str
    """The part of the predicate, for errors."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Both sides have the same type. An overflow and a division by zero are errors."""

    operator: Operator
    left: Expression
    right: Expression
    type: pa.DataType
    text: str


@dataclass(frozen=True, slots=True)
class Negative:
    of: Expression
    type: pa.DataType
    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function of a string, or of bytes."""

    name: Function
    of: Expression
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Compare:
    """Both sides have the same type."""

    operator: Comparison
    left: Expression
    right: Expression
    type: ClassVar[pa.DataType] = BOOLEAN


@dataclass(frozen=True, slots=True)
class OneOf:
    """Whether a value is one of some constants, none of which is null."""

    of: Expression
    values: tuple[Any, ...]
    or_null: bool
    """Whether the list also has a null: then a value that is none of the constants gives null."""
    type: ClassVar[pa.DataType] = BOOLEAN


@dataclass(frozen=True, slots=True)
class Matches:
    """Whether a string contains a match of a regular expression of RE2."""

    of: Expression
    pattern: str
    before_line_end: str | None
    """The pattern for strings that end with CR LF, if it is another one: see `predicate/java_regex.py`."""
    type: ClassVar[pa.DataType] = BOOLEAN


@dataclass(frozen=True, slots=True)
class IsNull:
    of: Expression
    type: ClassVar[pa.DataType] = BOOLEAN


@dataclass(frozen=True, slots=True)
class Not:
    of: Expression
    type: ClassVar[pa.DataType] = BOOLEAN


@dataclass(frozen=True, slots=True)
class And:
    left: Expression
    right: Expression
    type: ClassVar[pa.DataType] = BOOLEAN


@dataclass(frozen=True, slots=True)
class Or:
    left: Expression
    right: Expression
    type: ClassVar[pa.DataType] = BOOLEAN


Expression: TypeAlias = (
    Field
    | Constant
    | FieldOf
    | MapItem
    | ListItem
    | Header
    | JsonText
    | Cast
    | Arithmetic
    | Negative
    | Call
    | Compare
    | OneOf
    | Matches
    | IsNull
    | Not
    | And
    | Or
)


def walk(expression: Expression) -> Iterator[Expression]:
    """An expression and all its parts."""
    yield expression
    match expression:
        case Field() | Constant() | Header():
            return
        case Arithmetic() | Compare() | And() | Or():
            yield from walk(expression.left)
            yield from walk(expression.right)
        case _:
            yield from walk(expression.of)


def may_fail(expression: Expression) -> bool:
    """Whether some row can be an error."""
    for part in walk(expression):
        match part:
            case Arithmetic() | Negative():
                return True
            case Cast(tries=False) if not is_safe_cast(part.of.type, part.type):
                return True
            case ListItem(may_miss=False):
                return True
    return False


def is_safe_cast(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast succeeds for every value."""
    types = pa.types
    if types.is_string(target) or types.is_binary(target) or types.is_floating(target):
        return not (types.is_string(source) and types.is_floating(target))
    if types.is_integer(source) and types.is_integer(target):
        return bool(source.bit_width <= target.bit_width)
    if types.is_boolean(target):
        return not types.is_string(source)
    return bool(types.is_decimal(target) or types.is_boolean(source))


@dataclass(frozen=True, slots=True)
class ScopeColumn:
    """A column that a predicate can name: where it comes from, and its type."""

    source: str
    path: tuple[str, ...]
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Where:
    """A predicate: its text, and the condition that rows must meet."""

    text: str
    condition: Expression

    @property
    def fields(self) -> list[Field]:
        """The columns and fields that the condition reads, without repetitions."""
        found: dict[Field, None] = {}
        for part in walk(self.condition):
            if isinstance(part, Field):
                found[part] = None
            elif isinstance(part, Header):
                found[Field("headers", (), pa.null())] = None
        return list(found)

    @property
    def may_fail(self) -> bool:
        return may_fail(self.condition)
