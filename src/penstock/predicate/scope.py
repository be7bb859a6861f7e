"""The columns that a predicate can name, their fields and elements, and paths into JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.errors import did_you_mean
from penstock.model.expression import (
    Constant,
    Expression,
    Field,
    FieldOf,
    Header,
    JsonText,
    ListItem,
    MapItem,
    ScopeColumn,
)
from penstock.model.types import type_name
from penstock.predicate.coercion import cast_to, common_type
from penstock.predicate.source_text import SourceText

if TYPE_CHECKING:
    from sqlglot import exp

types = pa.types

MOST_STEPS = 32
"""Steps of a path into JSON."""


class Scope:
    """The columns of a source. Each method finds what a node names, and raises an error at the node."""

    def __init__(self, source: SourceText, columns: Mapping[str, ScopeColumn]) -> None:
        self._source = source
        self._columns = columns

    def column(self, name: exp.Identifier) -> Expression:
        found = self._lookup(name, list(self._columns), "column")
        column = self._columns[found]
        return Field(column.source, column.path, column.type)

    def field_of(self, name: exp.Identifier, of: Expression) -> Expression:
        if not types.is_struct(of.type):
            what = f"{name.this} is not a field: what stands before it is {type_name(of.type)}, not a STRUCT"
            hint = "Set its format to read its fields" if types.is_binary(of.type) else ""
            raise self._source.error(name, what, hint)
        kind = of.type.field(found := self._lookup(name, [field.name for field in of.type], "field")).type
        if isinstance(of, Field):
            return Field(of.source, (*of.path, found), kind)
        return FieldOf(of, found, kind)

    def item_of(self, node: exp.Expr, value: Expression, index: Expression, *, may_miss: bool) -> Expression:
        if not isinstance(index, Constant) or index.value is None:
            raise self._source.error(node, "an index or key must be a constant")
        kind = value.type
        if isinstance(value, Field) and value.source == "headers" and not value.path and isinstance(index.value, str):
            return Header(index.value)
        if types.is_map(kind):
            if common_type(kind.key_type, index.type) != kind.key_type:
                raise self._source.error(
                    node, f"the keys of this map are {type_name(kind.key_type)}, not {type_name(index.type)}"
                )
            return MapItem(value, cast_to(kind.key_type, index).value, kind.item_type)  # type: ignore[union-attr]
        if types.is_list(kind) and types.is_integer(index.type):
            if index.value < 0:
                raise self._source.error(node, f"the index {index.value} is negative: elements are counted from 0")
            return ListItem(value, index.value, kind.value_type, may_miss, self._source.part(node))
        raise self._source.error(node, f"{type_name(kind)} has no element {index.value!r}")

    def json_text(self, node: exp.Expr, of: Expression) -> Expression:
        """A path into JSON: value:user.id, value:items[0].name."""
        if types.is_struct(of.type) or not (types.is_string(of.type) or types.is_binary(of.type)):
            what = f"{self._source.part(node.this)} is {type_name(of.type)}, and a path after : reads a text of JSON"
            raise self._source.error(
                node.this, what, "Write . instead of : for its fields" if types.is_struct(of.type) else ""
            )
        steps = tuple(self._step(node, each) for each in node.expression.expressions[1:])
        if len(steps) > MOST_STEPS:
            raise self._source.error(node, f"a path of {len(steps)} steps is not supported: {MOST_STEPS} are")
        return JsonText(of, steps)

    def _step(self, node: exp.Expr, part: exp.Expr) -> str | int:
        from sqlglot import exp

        step = part.this if isinstance(part, exp.JSONPathKey | exp.JSONPathSubscript) else None
        if isinstance(step, str) or (isinstance(step, int) and step >= 0):
            return step
        raise self._source.error(node, f"{self._source.part(node)}: a path has names of fields, and indices from 0")

    def _lookup(self, name: exp.Identifier, known: list[str], noun: str) -> str:
        """A name as it is declared. As in Spark, case does not matter."""
        found = [each for each in known if each.lower() == name.this.lower()]
        if len(found) == 1:
            return found[0]
        if found:
            raise self._source.error(name, f"{noun} {name.this} is ambiguous: there are {' and '.join(found)}")
        hint = did_you_mean(name.this, known) or f"There are {', '.join(known)}"
        raise self._source.error(name, f"{noun} {name.this} does not exist", hint)
