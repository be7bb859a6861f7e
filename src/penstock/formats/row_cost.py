"""What the columns of a row cost on the way to Spark, in bytes, as far as their types tell."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa

from penstock.formats.plan import TypedPlan
from penstock.masking import get_logger
from penstock.model.columns import arrow_schema

log = get_logger(__name__)


def log_row_cost(columns: Sequence[str] | TypedPlan) -> None:
    """Log the columns that tasks ship, at level DEBUG. Called once per query, by its planner."""
    if log.isEnabledFor(logging.DEBUG):
        schema = columns.layout.schema if isinstance(columns, TypedPlan) else arrow_schema(columns)
        note = "(+: and the content of texts, bytes, arrays and maps). Option columns selects fewer"
        log.debug("columns shipped, in bytes per row: %s %s", row_cost(schema), note)


def row_cost(schema: pa.Schema) -> str:
    """The columns and their bytes per row as text: `offset 8, value 12+`."""
    return ", ".join(f"{field.name} {_cost(field.type)}" for field in schema)


def _cost(type_: pa.DataType) -> str:
    bits, varies = _bits(type_)
    return f"{bits / 8:g}{'+' if varies else ''}"


def _bits(type_: pa.DataType) -> tuple[int, bool]:
    """The bits that each row takes, and whether its content takes more. Without nulls, which cost a bit per field."""
    if pa.types.is_struct(type_):
        parts = [_bits(field.type) for field in type_]
        return sum(bits for bits, _ in parts), any(varies for _, varies in parts)
    try:
        return int(type_.bit_width), False
    except ValueError:
        return 32, True  # an offset of 4 bytes, and the content
