"""Aligned tables for a terminal."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

from penstock.cli.output import Colour, Painted, painted, printable, terminal_width

SAMPLE = 200
"""Rows from which the column widths are computed: printing starts before the last row is known."""

GAP = "  "

LEAST_WIDTH = 12
"""A column of text is not made narrower than this to fit the terminal."""


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


def shown(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[str] = (),
    colour: Callable[[str, Mapping[str, str]], Colour] | None = None,
) -> Iterator[str]:
    """The lines of a table for standard output. On a terminal it is not wider than that: columns of text are shortened.

    `colour` returns the colour of a cell, by the name of its column and the row.
    """
    table = [list(map(printable, row)) for row in (header, *rows)]
    widest = [max(columns_of(row[at]) for row in table) for at in range(len(header))]
    widths = fitted(widest, [name not in right for name in header], terminal_width(sys.stdout))
    for number, row in enumerate(table):
        named = dict(zip(header, row, strict=True))
        cells = []
        for name, cell, width in zip(header, row, widths, strict=True):
            text = shortened(cell, width)
            pad = " " * (width - columns_of(text))
            kind = Colour.BOLD if number == 0 else colour(name, named) if colour is not None else Colour.NONE
            paint = painted(text, kind, sys.stdout) if text else text
            cells.append(pad + paint if name in right else paint + pad)
        yield Painted(GAP.join(cells).rstrip())


def fitted(widths: Sequence[int], shrinks: Sequence[bool], width: int | None) -> list[int]:
    """The widths of columns so that their line fits, if that is possible. The widest of those that shrink go first."""
    found = list(widths)
    excess = 0 if width is None else sum(found) + len(GAP) * (len(found) - 1) - width
    while excess > 0:
        wide = [at for at, may in enumerate(shrinks) if may and found[at] > LEAST_WIDTH]
        if not wide:
            break
        found[max(wide, key=lambda at: found[at])] -= 1
        excess -= 1
    return found


def shortened(text: str, width: int) -> str:
    """A text of at most this width. Its middle is left out: names differ at their ends more often than there."""
    if columns_of(text) <= width:
        return text
    tail = text[len(text) - (width - 1) // 2 :]
    while columns_of(tail) > (width - 1) // 2:
        tail = tail[1:]
    head = text[:width]
    while columns_of(head) > width - 1 - columns_of(tail):
        head = head[:-1]
    return f"{head}…{tail}"


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
