"""Which of sqlglot's nodes are known here, and what each may hold."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.model.types import SIMPLE, TIMESTAMP, TIMESTAMP_NTZ

if TYPE_CHECKING:
    from sqlglot import exp

TYPES_BY_NAME: dict[str, pa.DataType] = SIMPLE | {
    "text": pa.string(),
    "timestamptz": TIMESTAMP,
    "timestampltz": TIMESTAMP,
    "timestampntz": TIMESTAMP_NTZ,
    "timestamp": TIMESTAMP_NTZ,  # sqlglot's name of the type without a zone
}
"""Types by sqlglot's names in lower case."""


_ONE, _TWO = frozenset({"this"}), frozenset({"this", "expression"})
_ARGUMENTS = {
    **dict.fromkeys(("paren", "not", "neg", "lower", "upper", "length", "boolean", "rawstring"), _ONE),
    **dict.fromkeys(("and", "or", "eq", "neq", "nullsafeeq", "nullsafeneq", "lt", "lte", "gt", "gte", "is"), _TWO),
    **dict.fromkeys(("add", "sub", "mul", "mod", "intdiv", "escape", "dot"), _TWO),
    "div": _TWO | {"typed", "safe"},
    **dict.fromkeys(("like", "regexplike"), _TWO | {"negate"}),
    "jsonextract": _TWO | {"variant_extract"},
    "between": _ONE | {"low", "high"},
    **dict.fromkeys(("in", "bracket", "anonymous"), _ONE | {"expressions"}),
    **dict.fromkeys(("cast", "trycast"), _ONE | {"to", "safe"}),
    "column": _ONE | {"table", "db", "catalog"},
    "identifier": _ONE | {"quoted"},
    "literal": _ONE | {"is_string"},
    "hexstring": _ONE | {"is_integer"},
    "null": frozenset(),
}
"""By kind of node. Do not simplify: a part of the grammar that is not looked at would be dropped silently, such as the
NOT of NOT LIKE."""


def is_known(node: exp.Expr) -> bool:
    """Whether the kind of a node and all that it holds are known."""
    held = {name for name, value in node.args.items() if value not in (None, False, [])}
    return held <= _ARGUMENTS.get(node.key, frozenset())


@functools.cache
def conditions() -> tuple[type[exp.Expr], ...]:
    """The kinds of nodes that are true, false or null, without literals and casts."""
    from sqlglot import exp

    return (
        *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.LT, exp.LTE, exp.GT),
        *(exp.GTE, exp.Between, exp.In, exp.Is, exp.Like, exp.Escape, exp.RegexpLike),
    )
