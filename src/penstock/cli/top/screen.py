"""Draws a view with rich, as large as the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console, Group
from rich.table import Table as Grid
from rich.text import Text

from penstock.cli.output import counted, printable
from penstock.cli.table import columns_of, fitted, shortened
from penstock.cli.top.columns import duration
from penstock.cli.top.view import HELP, Table, View
from penstock.monitor.snapshot import Snapshot

AROUND = 5
"""Lines that are not rows: title, problems, header, filter and help."""

GAP = 2
"""Blanks between columns."""


def drawn(view: View, snapshot: Snapshot | None, console: Console, wall: float) -> Group:
    """The whole screen. All names come from the cluster, and are escaped here."""
    width, height = console.size
    if snapshot is None:
        return Group(Text("asking the cluster ...", no_wrap=True))
    rows = view.rows(snapshot)
    place = view.place(rows)
    most = max(1, height - AROUND)
    first = max(0, min(place - most // 2, len(rows) - most))
    return Group(
        _line(title(snapshot, wall), width, "bold" if snapshot.is_reachable else "bold red"),
        _line(problem(snapshot), width, "red"),
        _grid(view, rows[first : first + most], place - first, width),
        _line(f"{footer(view, len(rows))}", width, "dim"),
    )


def title(snapshot: Snapshot, wall: float) -> str:
    if snapshot.answered_at is None:
        return "no broker has answered yet"
    parts = [
        f"cluster {snapshot.cluster_id or '?'}",
        counted(len(snapshot.brokers), "broker"),
        counted(len(snapshot.topics), "topic"),
        counted(len(snapshot.groups), "group"),
    ]
    if not snapshot.is_reachable:
        parts.append(f"no broker answers since {duration(max(0.0, wall - snapshot.answered_at))}: old values")
    return ", ".join(parts)


def problem(snapshot: Snapshot) -> str:
    if not snapshot.problems:
        return ""
    more = f" (and {len(snapshot.problems) - 1} more)" if len(snapshot.problems) > 1 else ""
    return f"{snapshot.problems[0]}{more}"


def footer(view: View, count: int) -> str:
    what = f"{view.table.value} {view.of}".strip()
    if view.is_typing:
        return f"{what}: {count:,} · filter: {view.filter}_ · Enter keep · Esc clear"
    kept = f" with {view.filter!r}" if view.filter else ""
    return f"{what}: {count:,}{kept} · {HELP}"


def _grid(view: View, rows: Sequence[Any], place: int, width: int) -> Grid:
    sorted_by, largest_first = view.sort[view.table]
    columns = [
        column.name + (("▼" if largest_first else "▲") if column.name == sorted_by else "") for column in view.columns
    ]
    texts = [[printable(column.text(item)) for column in view.columns] for item in rows]
    widths = [max(columns_of(row[at]) for row in [columns, *texts]) for at in range(len(columns))]
    widths = fitting(widths, [not column.right for column in view.columns], width)
    grid = Grid(box=None, padding=(0, GAP, 0, 0), show_edge=False, header_style="bold", pad_edge=False)
    for name, column, least in zip(columns, view.columns, widths, strict=False):
        grid.add_column(Text(name), justify="right" if column.right else "left", no_wrap=True, width=least)
    for at, cells in enumerate(texts):
        shown = [Text(shortened(cell, least), no_wrap=True) for cell, least in zip(cells, widths, strict=False)]
        grid.add_row(*shown, style="reverse" if at == place else _style(view, rows[at]))
    return grid


def fitting(widths: Sequence[int], shrinks: Sequence[bool], width: int) -> list[int]:
    """The widths of as many columns as fit. Names are shortened first, and then the last columns are left out."""
    kept = list(widths)
    while True:
        found = fitted(kept, shrinks[: len(kept)], width - GAP)
        if len(kept) == 1 or sum(found) + GAP * len(found) <= width:
            return found
        kept.pop()


def _style(view: View, item: Any) -> str:
    """Red: records are lost, or cannot be read. Yellow: a lag that grows."""
    if view.table in (Table.GROUPS, Table.POSITIONS) and item.deleted:
        return "red"
    if view.table is Table.GROUPS and item.lag and (item.trend or 0) > 0:
        return "yellow"
    is_leaderless = view.table is Table.TOPICS and item.leaderless
    return "red" if is_leaderless or (view.table is Table.PARTITIONS and item.leader is None) else ""


def _line(text: str, width: int, style: str) -> Text:
    return Text(shortened(printable(text.replace("\n", " ")), max(1, width)), style=style, no_wrap=True)
