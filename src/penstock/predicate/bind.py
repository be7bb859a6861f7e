"""Translates sqlglot's tree of a predicate into typed expressions, with the rules of Spark's ANSI mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.errors import OptionError
from penstock.model.expression import (
    And,
    Arithmetic,
    Call,
    Cast,
    Compare,
    Comparison,
    Constant,
    Expression,
    Function,
    IsNull,
    JsonText,
    Matches,
    Negative,
    Not,
    OneOf,
    Operator,
    Or,
    ScopeColumn,
)
from penstock.model.types import type_name
from penstock.predicate import literals
from penstock.predicate.casts import can_cast
from penstock.predicate.coercion import cast_to, common_type, is_number
from penstock.predicate.grammar import TYPES_BY_NAME, conditions, is_known
from penstock.predicate.java_regex import Patterns, like, rlike
from penstock.predicate.scope import Scope
from penstock.predicate.source_text import DIALECT, SourceText

if TYPE_CHECKING:
    from sqlglot import exp

types = pa.types

MOST_LEVELS = 100
"""How deeply a predicate may be nested."""


class Binder:
    """Translates sqlglot's tree into typed expressions."""

    def __init__(self, text: str, columns: Mapping[str, ScopeColumn]) -> None:
        self._source = SourceText(text)
        self._scope = Scope(self._source, columns)
        self._depth = 0

    def condition(self, node: exp.Expr) -> Expression:
        """An expression that is true, false or null."""
        made = self._value(node)
        if types.is_null(made.type):
            return Constant(None, pa.bool_())
        if not types.is_boolean(made.type):
            raise self._source.error(
                node,
                f"{self._source.part(node)} is {type_name(made.type)}, not a condition",
                "Compare it with something",
            )
        return made

    def _value(self, node: exp.Expr) -> Expression:
        self._depth += 1
        if self._depth > MOST_LEVELS:
            raise RecursionError
        try:
            return self._translate(node)
        except ValueError as error:
            if isinstance(error, OptionError):
                raise
            raise self._source.error(node, str(error)) from None
        finally:
            self._depth -= 1

    def _translate(self, node: exp.Expr) -> Expression:  # noqa: C901 (one case per kind of node)
        from sqlglot import exp

        if not is_known(node):
            if isinstance(node, exp.Concat) and ("''" in self._source.text or '""' in self._source.text):
                raise self._source.error(node, "a doubled quote within a string is not supported", "Write \\' instead")
            raise self._source.unsupported(node)
        match node:
            case exp.Paren():
                return self._value(node.this)
            case exp.And() | exp.Or():
                return self._logic(node)
            case exp.Not():
                return Not(self.condition(node.this))
            case (
                exp.EQ()
                | exp.NEQ()
                | exp.NullSafeEQ()
                | exp.NullSafeNEQ()
                | exp.LT()
                | exp.LTE()
                | exp.GT()
                | exp.GTE()
            ):
                return self._comparison(node)
            case exp.Between():
                return self._between(node)
            case exp.In():
                return self._one_of(node)
            case exp.Is():
                return self._is(node)
            case exp.Like():
                return self._like(node, "\\")
            case exp.Escape() if isinstance(node.this, exp.Like):
                escape = self._operand(node.expression)
                if not isinstance(escape, Constant) or not isinstance(escape.value, str) or len(escape.value) != 1:
                    raise self._source.error(node.expression, "an escape must be one character in quotes")
                return self._like(node.this, escape.value)
            case exp.RegexpLike():
                return self._matches(node, rlike)
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.IntDiv() | exp.Mod():
                return self._arithmetic(node)
            case exp.Neg():
                return self._negative(node)
            case exp.Cast():
                return self._cast(node)
            case exp.Lower() | exp.Upper() | exp.Length():
                return self._call(node)
            case exp.Column() | exp.Dot():
                return self._field(node)
            case exp.Bracket():
                return self._item(node)
            case exp.JSONExtract():
                return self._scope.json_text(node, self._operand(node.this))
            case exp.Literal() | exp.RawString() | exp.HexString():
                return self._literal(node)
            case exp.Boolean():
                return Constant(bool(node.this), pa.bool_())
            case exp.Null():
                return Constant(None, pa.null())
            case exp.Anonymous() if str(node.this).lower() == "get" and len(node.expressions) == 2:
                return self._get(node)
        raise self._source.unsupported(node)

    # --- conditions -------------------------------------------------------------------------------------------------

    def _logic(self, node: exp.Expr) -> Expression:
        """AND or OR. A chain of hundreds is a deep tree for the parser, and a flat one afterwards."""
        from sqlglot import exp

        kind = type(node)
        operands: list[exp.Expr] = []
        while isinstance(node, kind):
            operands.append(node.expression)
            node = node.this
        conditions = [self.condition(each) for each in (node, *reversed(operands))]
        return _balanced(And if kind is exp.And else Or, conditions)

    def _comparison(self, node: exp.Expr) -> Expression:
        from sqlglot import exp

        operators: dict[type[exp.Expr], Comparison] = {
            exp.EQ: "=",
            exp.NEQ: "=",
            exp.NullSafeEQ: "<=>",
            exp.NullSafeNEQ: "<=>",
            exp.LT: "<",
            exp.LTE: "<=",
            exp.GT: ">",
            exp.GTE: ">=",
        }
        if operators[type(node)] == "<=>" and isinstance(node.expression.unnest(), conditions()):
            # The parser adds parentheses here: a <=> b < c is a <=> (b < c) for it, and (a <=> b) < c for Spark.
            raise self._source.error(
                node.expression, "a condition to the right of <=> is not supported", "Swap the two sides"
            )
        left, right = self._operand(node.this), self._operand(node.expression)
        made = self._compare(node, operators[type(node)], left, right)
        return Not(made) if isinstance(node, exp.NEQ | exp.NullSafeNEQ) else made

    def _compare(self, node: exp.Expr, operator: Comparison, left: Expression, right: Expression) -> Expression:
        if types.is_null(left.type) and types.is_null(right.type):
            return Constant(True if operator == "<=>" else None, pa.bool_())
        for one, other in ((left, right), (right, left)):
            beyond = isinstance(other, Constant) and types.is_decimal(other.type) and not _is_long(other.value)
            if beyond and types.is_integer(one.type):
                # Spark simplifies these comparisons to true or false, also for null.
                raise self._source.error(
                    node, f"{type_name(one.type)} is compared with a number that BIGINT does not have"
                )
        kind = self._common(node, left, right)
        return Compare(operator, cast_to(kind, left), cast_to(kind, right))

    def _common(self, node: exp.Expr, left: Expression, right: Expression) -> pa.DataType:
        for one, other in ((left, right), (right, left)):
            is_text = isinstance(one, Constant) and types.is_string(one.type)
            if is_text and (types.is_timestamp(other.type) or types.is_date(other.type)):
                return other.type
            if isinstance(one, JsonText) and _is_exact_double(other):
                return pa.float64()  # JSON has one kind of number: 5.7 is more than 5
        kind = common_type(left.type, right.type)
        if kind is None or types.is_nested(kind):
            what = f"{type_name(left.type)} and {type_name(right.type)}"
            raise self._source.error(node, f"comparing {what} is not supported", "Cast one of them")
        return kind

    def _between(self, node: exp.Expr) -> Expression:
        value, low, high = (self._operand(node.args[name]) for name in ("this", "low", "high"))
        return And(self._compare(node, ">=", value, low), self._compare(node, "<=", value, high))

    def _one_of(self, node: exp.Expr) -> Expression:
        if not node.expressions:
            raise self._source.unsupported(node)
        value = self._operand(node.this)
        items = [self._operand(each) for each in node.expressions]
        kind = value.type
        for item in items:
            kind = self._common(node, value if value.type == kind else Constant(None, kind), item)
        value, items = cast_to(kind, value), [cast_to(kind, item) for item in items]
        if types.is_null(kind):
            return Constant(None, pa.bool_())
        constants = [item for item in items if isinstance(item, Constant)]
        if len(constants) == len(items) and not types.is_floating(kind):
            known = tuple(dict.fromkeys(item.value for item in constants if item.value is not None))
            return OneOf(value, known, or_null=any(item.value is None for item in constants))
        return _balanced(Or, [Compare("=", value, item) for item in items])

    def _is(self, node: exp.Expr) -> Expression:
        from sqlglot import exp

        value = self._operand(node.this)
        match node.expression:
            case exp.Null():
                return IsNull(value)
            case exp.Boolean() if types.is_boolean(value.type):
                return Compare("<=>", value, Constant(bool(node.expression.this), pa.bool_()))
        raise self._source.unsupported(node)

    def _like(self, node: exp.Expr, escape: str) -> Expression:
        return self._matches(node, lambda pattern: like(pattern, escape))

    def _matches(self, node: exp.Expr, translate: Callable[[str], Patterns]) -> Expression:
        pattern, text = self._operand(node.expression), self._text_operand(node.this)
        if not isinstance(pattern, Constant) or not isinstance(pattern.value, str | None):
            raise self._source.error(node.expression, "a pattern must be a string in quotes")
        if pattern.value is None:
            return Constant(None, pa.bool_())
        made = Matches(text, *translate(pattern.value))
        return Not(made) if node.args.get("negate") else made

    # --- values -----------------------------------------------------------------------------------------------------

    def _operand(self, node: exp.Expr) -> Expression:
        """A value beside an operator. A condition must be in parentheses: Spark and the parser differ in how tightly
        some operators bind."""
        if isinstance(node, conditions()):
            raise self._source.error(node, "a condition within another needs parentheses")
        return self._value(node)

    def _text_operand(self, node: exp.Expr) -> Expression:
        """A string; bytes are cast to one, as in Spark."""
        value = self._operand(node)
        if types.is_string(value.type):
            return value
        if types.is_binary(value.type) or types.is_null(value.type):
            return _as_string(value)
        raise self._source.error(
            node, f"{self._source.part(node)} is {type_name(value.type)}, not a STRING", "Cast it: cast(... AS STRING)"
        )

    def _arithmetic(self, node: exp.Expr) -> Expression:
        from sqlglot import exp

        operators: dict[type[exp.Expr], Operator] = {
            exp.Add: "+",
            exp.Sub: "-",
            exp.Mul: "*",
            exp.Div: "/",
            exp.IntDiv: "div",
            exp.Mod: "%",
        }
        operator = operators[type(node)]
        left, right = self._operand(node.this), self._operand(node.expression)
        text = self._source.part(node)
        for side, part in ((left, node.this), (right, node.expression)):
            if not is_number(side.type) and not types.is_null(side.type):
                raise self._source.error(
                    part, f"{self._source.part(part)} is {type_name(side.type)}: {operator} needs numbers", "Cast it"
                )
        kind = common_type(left.type, right.type)
        if kind is None or types.is_decimal(kind) or types.is_null(kind):
            what = f"{operator} of {type_name(left.type)} and {type_name(right.type)} is not supported"
            raise self._source.error(node, what, "Cast one side to DOUBLE. 1.5 is a DECIMAL, and 1.5D a DOUBLE")
        if operator == "/":
            kind = pa.float64()
        elif operator in ("div", "%"):
            if not types.is_integer(kind):
                raise self._source.error(node, f"{operator} of {type_name(kind)} is not supported: it needs integers")
            kind = pa.int64() if operator == "div" else kind
        return Arithmetic(operator, cast_to(kind, left), cast_to(kind, right), kind, text)

    def _negative(self, node: exp.Expr) -> Expression:
        from sqlglot import exp

        inner = node.this.this if isinstance(node.this, exp.Cast) else node.this
        if isinstance(inner, exp.Literal) and not inner.is_string and not isinstance(node.this, exp.Paren):
            return self._number(inner, negative=True)
        value = self._operand(node.this)
        if not is_number(value.type) or types.is_decimal(value.type):
            raise self._source.error(node, f"the negative of {type_name(value.type)} is not supported")
        return Negative(value, value.type, self._source.part(node))

    def _cast(self, node: exp.Expr) -> Expression:
        from sqlglot import exp

        inner = node.this
        if isinstance(inner, exp.Literal) and not inner.is_string and self._source.literal(inner) != inner.this:
            return self._number(inner)  # a suffix: the parser turns 1L into a cast
        kind = self._type(node)
        value = self._value(inner)
        if types.is_timestamp(kind) or types.is_date(kind):
            if isinstance(value, Constant) and isinstance(value.value, str):
                return literals.time_constant(value.value, kind)
            if value.type == kind:
                return value
        elif can_cast(value.type, kind):
            # Only TRY_CAST is marked safe: the parser calls every cast of Spark a TryCast.
            tries = bool(node.args.get("safe"))
            return value if value.type == kind else Cast(value, kind, tries, self._source.part(node))
        raise self._source.error(node, f"a cast from {type_name(value.type)} to {type_name(kind)} is not supported")

    def _type(self, node: exp.Expr) -> pa.DataType:
        to = node.args["to"]
        name = to.this.value.lower() if hasattr(to.this, "value") else str(to.this).lower()
        kind = TYPES_BY_NAME.get(name)
        if kind is None or to.expressions:
            raise self._source.error(node, f"a cast to {to.sql(dialect=DIALECT)} is not supported")
        return kind

    def _call(self, node: exp.Expr) -> Expression:
        name: Function = node.key  # type: ignore[assignment]
        if name != "length":
            return Call(name, self._text_operand(node.this), pa.string())
        value = self._operand(node.this)
        if types.is_null(value.type):
            value = _as_string(value)
        if not (types.is_string(value.type) or types.is_binary(value.type)):
            raise self._source.error(
                node.this,
                f"{self._source.part(node.this)} is {type_name(value.type)}: length needs a STRING or BINARY",
                "Cast it",
            )
        return Call(name, value, pa.int32())

    # --- columns ----------------------------------------------------------------------------------------------------

    def _field(self, node: exp.Expr) -> Expression:
        from sqlglot import exp

        names: list[exp.Identifier] = []
        while isinstance(node, exp.Dot):
            if not isinstance(node.expression, exp.Identifier):
                raise self._source.unsupported(node)
            names.insert(0, node.expression)
            node = node.this
        if isinstance(node, exp.Column):
            parts = [part for part in node.parts if isinstance(part, exp.Identifier)]
            if len(parts) < len(node.parts):
                raise self._source.unsupported(node)
            names = [*parts, *names]
            value: Expression = self._scope.column(names.pop(0))
        else:
            value = self._operand(node)
        for name in names:
            value = self._scope.field_of(name, value)
        return value

    def _item(self, node: exp.Expr) -> Expression:
        if len(node.expressions) != 1:
            raise self._source.unsupported(node)
        value, index = self._operand(node.this), self._operand(node.expressions[0])
        return self._scope.item_of(node, value, index, may_miss=False)

    def _get(self, node: exp.Expr) -> Expression:
        value, index = (self._operand(each) for each in node.expressions)
        if not types.is_list(value.type):
            raise self._source.error(node, f"get needs an array, not {type_name(value.type)}")
        return self._scope.item_of(node, value, index, may_miss=True)

    # --- literals ---------------------------------------------------------------------------------------------------

    def _literal(self, node: exp.Expr) -> Constant:
        from sqlglot import exp

        if isinstance(node, exp.Literal) and not node.is_string:
            return self._number(node)
        quoted = self._source.literal(node)
        if isinstance(node, exp.HexString):
            digits = quoted[2:-1]
            return Constant(bytes.fromhex(digits.rjust(len(digits) + len(digits) % 2, "0")), pa.binary())
        if quoted[-1:] not in ("'", '"'):
            raise self._source.error(node, f"{quoted} is not a string in quotes")
        return Constant(literals.string(quoted), pa.string())

    def _number(self, node: exp.Expr, *, negative: bool = False) -> Constant:
        return literals.number(self._source.literal(node), negative=negative)


def _balanced(made: type[And] | type[Or], conditions: Sequence[Expression]) -> Expression:
    """A chain of conditions as a tree that is not deep. They are still evaluated from left to right."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return made(_balanced(made, conditions[:half]), _balanced(made, conditions[half:]))


def _is_long(value: Decimal | None) -> bool:
    return value is None or -(2**63) <= value < 2**63


def _is_exact_double(of: Expression) -> bool:
    """Whether this is an integer of SQL that a DOUBLE holds exactly, as it does its neighbours."""
    return isinstance(of, Constant) and types.is_integer(of.type) and of.value is not None and abs(of.value) < 2**53


def _as_string(value: Expression) -> Expression:
    if isinstance(value, Constant):
        return Constant(None if value.value is None else value.value.decode(errors="replace"), pa.string())
    return Cast(value, pa.string(), tries=False, text="the implicit cast to STRING")
