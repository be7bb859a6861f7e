"""Aligned tables for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

from penstock.cli.output import printable

SAMPLE = 200
"""Rows from which the column widths are computed: printing starts before the last row is known."""

GAP = "  "


def lines(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[str] = (),
    width: int | None = None,
    sample: int = SAMPLE,
    least: Mapping[str, int] | None = None,
) -> Iterator[str]:
    """The lines of a table. Columns named in `right` are aligned right, and lines are cut at `width`.

    Column widths are computed from the first `sample` rows, are at least those in `least`, and grow with later rows. A
    sample of 0 prints every row as it arrives.
    """
    rows = (list(map(printable, row)) for row in rows)
    first = [list(map(printable, header)), *islice(rows, sample)]
    widths = [
        max((least or {}).get(name, 0), *(columns_of(row[at]) for row in first)) for at, name in enumerate(header)
    ]
    for row in chain(first, rows):
        cells = []
        for at, cell in enumerate(row):
            taken = columns_of(cell)
            if at < len(row) - 1:
                widths[at] = max(widths[at], taken)
            pad = " " * (widths[at] - taken)
            cells.append(pad + cell if header[at] in right else cell + pad)
        yield _cut(GAP.join(cells).rstrip(), width)


def columns_of(text: str) -> int:
    """The width of a text on a terminal: East Asian characters take two columns."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _cut(line: str, width: int | None) -> str:
    if width is None or columns_of(line) <= width:
        return line
    kept, used = [], 1
    for character in line:
        used += columns_of(character)
        if used > width:
            break
        kept.append(character)
    return "".join(kept) + "…"
