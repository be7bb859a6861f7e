"""The text of a predicate beside sqlglot's tree of it: what the user wrote for a node, and errors with its position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import OptionError

if TYPE_CHECKING:
    from sqlglot import exp

OPTION = "where"

DIALECT = "databricks"
"""Spark's, with paths into JSON: `value:user.id`."""


class SourceText:
    """The text of a predicate."""

    def __init__(self, text: str) -> None:
        self.text = text

    def literal(self, node: exp.Expr) -> str:
        """What the user wrote for a literal."""
        start, end = node.meta.get("start"), node.meta.get("end")
        if start is None or end is None:
            if isinstance(node.this, str) and node.this.startswith("0."):
                return node.this  # the parser makes it from .5
            raise self.unsupported(node)
        return self.text[start : end + 1]

    def part(self, node: exp.Expr) -> str:
        part = str(node.sql(dialect=DIALECT))
        return part if len(part) <= 60 else f"{part[:57]}..."

    def unsupported(self, node: exp.Expr) -> OptionError:
        hint = "Filter by it in the query. docs/where.md lists what is"
        return self.error(node, f"{self.part(node)} is not supported", hint)

    def error(self, node: exp.Expr, reason: str, hint: str = "") -> OptionError:
        starts = [each.meta["start"] for each in node.walk() if "start" in each.meta]
        start = min(starts, default=0)
        line, column = self.text.count("\n", 0, start) + 1, start - self.text.rfind("\n", 0, start)
        place = f"character {column}" if "\n" not in self.text.strip() else f"line {line}, character {column}"
        return OptionError(OPTION, self.text, f"{place}: {reason}", hint)
