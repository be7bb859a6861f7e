"""Evaluates conditions on whole batches with Arrow's kernels.

Results are those of Spark in ANSI mode, with its three-valued logic. Some rows can be errors: a cast of `abc` to INT, a
division by zero, an overflow. As in Spark, the right side of AND is not evaluated for a row whose left side is false,
that of OR for one whose left side is true, and an operand not for one whose other operand is null. A batch is
evaluated at once, so such rows are left out of the check for errors: `active` says which rows count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.expression import (
    And,
    Arithmetic,
    Call,
    Cast,
    Compare,
    Constant,
    Expression,
    Field,
    FieldOf,
    Header,
    IsNull,
    JsonText,
    ListItem,
    MapItem,
    Matches,
    Negative,
    Not,
    OneOf,
    Or,
    may_fail,
    walk,
)
from penstock.model.types import type_name
from penstock.predicate.casts import cast
from penstock.predicate.elements import elements, has_element
from penstock.predicate.json_texts import Steps, json_texts
from penstock.predicate.texts import call, decodable

types = pa.types

Values: TypeAlias = Any
"""An Arrow array with a value per row, or an Arrow scalar, which counts for every row."""

Active: TypeAlias = Any
"""The rows whose errors count: a boolean array without nulls; None for all rows."""

MASKED = pa.scalar(None, pa.bool_())


class RowError(Exception):
    """A row for which the condition has no value."""

    def __init__(self, reason: str, row: int | None, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.row = row
        """None if it is not known."""
        self.hint = hint


def evaluate(condition: Expression, rows: int, column: Callable[[str], pa.Array]) -> pa.Array:
    """For each row whether it meets a condition: true, false or null. `column` returns a column of Kafka, decoded if
    it is typed. Raises RowError."""
    result = _Evaluation(condition, rows, column).values(condition, None)
    return result if isinstance(result, pa.Array) else pa.repeat(result, rows)


class _Evaluation:
    """The evaluation of a condition on one batch."""

    def __init__(self, condition: Expression, rows: int, column: Callable[[str], pa.Array]) -> None:
        self._condition = condition
        self._rows = rows
        self._column = column
        self._json_texts: dict[Field, Mapping[Steps, pa.Array]] = {}
        """What all paths of the condition find in a column."""

    def values(self, of: Expression, active: Active) -> Values:  # noqa: C901 (one case per kind of expression)
        match of:
            case Field(source, path):
                return _at_path(self._column(source), path)
            case Constant(value, kind):
                return pa.scalar(value, kind)
            case FieldOf(inner, name):
                return _at_path(self._array(inner, active), (name,))
            case MapItem(inner, key):
                column = self._array(inner, active)
                return pc.map_lookup(column, pa.scalar(key, column.type.key_type), "first")
            case ListItem():
                return _list_item(of, self._array(of.of, active), active)
            case Header(name):
                return header_values(self._column("headers"), name)
            case JsonText(inner, steps):
                return self._json_text(inner, steps, active)
            case Cast():
                return self._cast(of, active)
            case Arithmetic():
                return self._arithmetic(of, active)
            case Negative():
                return self._negative(of, active)
            case Call(name, inner):
                return call(name, self._array(inner, active))
            case Compare():
                return self._compare(of, active)
            case OneOf():
                return _one_of(of, self._array(of.of, active))
            case Matches():
                return _matches(of, decodable(self._array(of.of, active)))
            case IsNull(inner):
                return pc.is_null(self.values(inner, active))
            case Not(inner):
                return pc.invert(self.values(inner, active))
            case And(left, right):
                first = self.values(left, active)
                return pc.and_kleene(first, self.values(right, _narrowed(active, right, pc.fill_null(first, True))))
            case Or(left, right):
                first = self.values(left, active)
                others = pc.invert(pc.fill_null(first, False))
                return pc.or_kleene(first, self.values(right, _narrowed(active, right, others)))
            case _:
                assert_never(of)

    def _json_text(self, of: Expression, steps: Steps, active: Active) -> pa.Array:
        if not isinstance(of, Field):  # a value that may be an error, of other rows at another place of the condition
            return json_texts(self._array(of, active), [steps])[steps]
        if of not in self._json_texts:
            paths = [part.steps for part in walk(self._condition) if isinstance(part, JsonText) and part.of == of]
            self._json_texts[of] = json_texts(self._array(of, active), paths)
        return self._json_texts[of][steps]

    def _array(self, of: Expression, active: Active) -> pa.Array:
        values = self.values(of, active)
        return values if isinstance(values, pa.Array) else pa.repeat(values, self._rows)

    def _compare(self, of: Compare, active: Active) -> Values:
        left = self.values(of.left, active)
        is_equal_null = of.operator == "<=>"
        right = self.values(of.right, active if is_equal_null else _narrowed(active, of.right, pc.is_valid(left)))
        if not is_equal_null:
            return _compared(of.operator, left, right, of.left.type)
        equal = pc.fill_null(_compared("=", left, right, of.left.type), False)
        return pc.or_(equal, pc.and_(pc.is_null(left), pc.is_null(right)))

    def _cast(self, of: Cast, active: Active) -> Values:
        values = self._array(of.of, active)
        source = values.type
        if types.is_string(source) and not types.is_binary(of.type):
            values = decodable(values)
        made = cast(values, of.type)
        if not of.tries and made.null_count > values.null_count:
            bad = _active(pc.and_(pc.is_null(made), pc.is_valid(values)), active)
            if (row := _first(bad)) is not None:
                what = f"{_shown(values[row])} cannot be cast from {type_name(source)} to {type_name(of.type)}"
                raise RowError(f"{of.text}: {what}", row, "try_cast gives null instead")
        return made

    def _arithmetic(self, of: Arithmetic, active: Active) -> Values:
        divides = of.operator in ("/", "%", "div")
        # Spark looks at a divisor first.
        first, second = (of.right, of.left) if divides else (of.left, of.right)
        one = self.values(first, active)
        other = self.values(second, _narrowed(active, second, pc.is_valid(one)))
        left, right = (other, one) if divides else (one, other)
        if divides:
            return self._divided(of, left, right, active)
        if types.is_floating(of.type):
            return _FLOATING[of.operator](left, right)
        try:
            return _CHECKED[of.operator](_masked(left, active), right)
        except pa.ArrowInvalid:
            raise RowError(f"{of.text}: the result does not fit into {type_name(of.type)}", None, WIDER) from None

    def _divided(self, of: Arithmetic, left: Values, right: Values, active: Active) -> Values:
        zero = pc.equal(right, pa.scalar(0, of.left.type))
        bad = pc.fill_null(pc.and_(zero, pc.is_valid(left)), False)
        if (row := _first(_active(self._spread(bad), active))) is not None:
            raise RowError(f"{of.text}: division by zero", row, "Exclude zeros first: x <> 0 AND ...")
        right = pc.if_else(zero, pa.scalar(None, of.left.type), right)
        if of.operator == "/":
            return pc.divide(left, right)
        minus_one = pc.equal(right, pa.scalar(-1, of.left.type))
        if of.operator == "%":
            # The smallest integer divided by -1 overflows, but the remainder does not.
            right = pc.if_else(minus_one, pa.scalar(1, of.left.type), right)
            return pc.subtract(left, pc.multiply(pc.divide(left, right), right))
        try:
            return pc.divide_checked(_masked(left, active), right)
        except pa.ArrowInvalid:
            raise RowError(f"{of.text}: the result does not fit into {type_name(of.type)}", None, WIDER) from None

    def _negative(self, of: Negative, active: Active) -> Values:
        values = self.values(of.of, active)
        if types.is_floating(of.type):
            return pc.negate(values)
        try:
            return pc.negate_checked(_masked(values, active))
        except pa.ArrowInvalid:
            raise RowError(f"{of.text}: the result does not fit into {type_name(of.type)}", None, WIDER) from None

    def _spread(self, values: Values) -> pa.Array:
        return values if isinstance(values, pa.Array) else pa.repeat(values, self._rows)


WIDER = "Cast one side to a wider type"

_FLOATING: Mapping[str, Callable[[Any, Any], Any]] = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_CHECKED: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def _narrowed(active: Active, of: Expression, rows: Values) -> Active:
    """The active rows of an expression that is evaluated for some rows only."""
    if not may_fail(of):
        return None
    if not isinstance(rows, pa.Array):
        return active if rows.as_py() else (pa.scalar(False) if active is None else pc.and_(active, False))
    return rows if active is None else pc.and_(active, rows)


def _active(bad: pa.Array, active: Active) -> pa.Array:
    return bad if active is None else pc.and_(bad, active)


def _masked(values: Values, active: Active) -> Values:
    """Null where a row does not count."""
    return values if active is None else pc.if_else(active, values, pa.scalar(None, values.type))


def _first(bad: pa.Array) -> int | None:
    row = pc.index(bad, True).as_py()
    return None if row < 0 else int(row)


def _shown(value: pa.Scalar) -> str:
    text = repr(value.as_py())
    return text if len(text) <= 80 else text[:77] + "..."


def _at_path(column: Any, path: tuple[str, ...]) -> Any:
    """A field of a struct column; null where one of its structs is null."""
    indices = []
    kind = column.type
    for name in path:
        indices.append(kind.get_field_index(name))
        kind = kind.field(indices[-1]).type
    return pc.struct_field(column, indices) if indices else column


def _compared(operator: str, left: Values, right: Values, kind: pa.DataType) -> Values:
    made = _COMPARISONS[operator](left, right)
    if not types.is_floating(kind):
        return made
    # For Spark, NaN equals NaN and is larger than any other number.
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    if not (pc.any(left_nan).as_py() or pc.any(right_nan).as_py()):
        return made
    match operator:
        case "=":
            special = pc.and_(left_nan, right_nan)
        case "<":
            special = pc.and_(pc.invert(left_nan), right_nan)
        case ">":
            special = pc.and_(left_nan, pc.invert(right_nan))
        case "<=":
            special = right_nan
        case _:
            special = left_nan
    return pc.or_(made, special)


def _one_of(of: OneOf, values: pa.Array) -> pa.Array:
    found = pc.is_in(values, value_set=pa.array(of.values, values.type))
    if of.or_null:
        return pc.if_else(pc.and_(found, pc.is_valid(values)), True, MASKED)
    return pc.if_else(pc.is_valid(values), found, MASKED) if values.null_count else found


def _matches(of: Matches, values: pa.Array) -> pa.Array:
    usual = pc.match_substring_regex(values, pattern=of.pattern)
    if of.before_line_end is None:
        return usual
    line_ends = pc.ends_with(values, "\r\n")
    if not pc.any(line_ends).as_py():
        return usual
    return pc.if_else(line_ends, pc.match_substring_regex(values, pattern=of.before_line_end), usual)


def _list_item(of: ListItem, lists: pa.ListArray, active: Active) -> pa.Array:
    if not of.may_miss:
        bad = _active(pc.and_(pc.invert(has_element(lists, of.index)), pc.is_valid(lists)), active)
        if (row := _first(bad)) is not None:
            what = f"{of.text}: the array has {len(lists[row])} elements"
            raise RowError(what, row, "get(array, index) gives null instead")
    return elements(lists, of.index)


def header_values(headers: pa.ListArray, name: str) -> pa.Array:
    """The value of each record's last header of a name, as `Headers.lastHeader` in Java; null if it has none."""
    flat = headers.flatten()
    found = pc.indices_nonzero(pc.equal(pc.struct_field(flat, [0]), name))
    rows = pc.list_parent_indices(headers).take(found)
    if len(rows) > 1:
        last = pc.not_equal(rows.slice(1), rows.slice(0, len(rows) - 1))
        kept = pa.concat_arrays([last, pa.array([True])])
        found, rows = found.filter(kept), rows.filter(kept)
    every = pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), len(headers))), 1)
    places = pc.index_in(every, value_set=rows.cast(pa.int64()))
    return pc.struct_field(flat, [1]).take(found.take(places))
