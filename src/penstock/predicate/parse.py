"""Parses a predicate in Spark's SQL into a typed condition. Runs on the driver, once per query.

sqlglot reads the grammar. Everything that follows is decided in `bind.py`: which parts are supported, the types of
Spark's ANSI mode, and what a literal means. A part outside of the subset is an error with its position, never another
result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.errors import OptionError
from penstock.model.expression import ScopeColumn, Where
from penstock.predicate.bind import Binder
from penstock.predicate.source_text import DIALECT, OPTION

if TYPE_CHECKING:
    from sqlglot import exp

LONGEST = 100_000
"""Characters of a predicate."""

INSTALL = 'pip install "penstock[where]"'


def parse_where(text: str, columns: Mapping[str, ScopeColumn]) -> Where:
    """The condition that a predicate means. `columns`: those that it can name. Raises OptionError."""
    if len(text) > LONGEST:
        raise OptionError(OPTION, f"{text[:80]}...", f"is longer than {LONGEST} characters")
    tree = _tree(text)
    try:
        condition = Binder(text, columns).condition(tree)
    except RecursionError:
        raise OptionError(OPTION, text, "is nested too deeply") from None
    return Where(text, condition)


def _tree(text: str) -> exp.Expr:
    try:
        import sqlglot
        from sqlglot.errors import ParseError, SqlglotError
    except ModuleNotFoundError:
        raise OptionError(OPTION, text, "needs the package sqlglot", f"Install it on the driver: {INSTALL}") from None
    try:
        trees = sqlglot.parse(text, dialect=DIALECT)
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        what = str(first.get("description") or error).split("\n")[0].rstrip(".")
        highlight = first.get("highlight") or ""
        place = f"character {first.get('col', 1) - len(highlight) + 1}: " if first else ""
        found = f", found {highlight!r}" if highlight else ""
        raise OptionError(OPTION, text, f"{place}is not a predicate: {_plain(what)}{found}") from None
    except SqlglotError as error:
        raise OptionError(OPTION, text, f"is not a predicate: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise OptionError(OPTION, text, "is nested too deeply") from None
    whole = [tree for tree in trees if tree is not None]
    if len(whole) != 1:
        raise OptionError(OPTION, text, "is empty" if not whole else "must be one predicate, without a semicolon")
    return whole[0]


def _plain(message: str) -> str:
    """A message of the parser without the names of its classes."""
    return re.sub(r"<class '[\w.]*\.(\w+)'>", lambda found: found[1].upper(), message)
