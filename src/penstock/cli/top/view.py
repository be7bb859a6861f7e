"""What `penstock top` shows: which table, sorted and filtered how. Keys change it; a snapshot fills it."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.cli.top.columns import GROUPS, PARTITIONS, POSITIONS, TOPICS, Column
from penstock.monitor.snapshot import Snapshot

HELP = "q quit · g groups · t topics · ↑↓ select · Enter partitions · Esc back · ←→ sort · r reverse · / filter"


class Table(enum.Enum):
    GROUPS = "groups"
    TOPICS = "topics"
    POSITIONS = "partitions of group"
    PARTITIONS = "partitions of topic"


_COLUMNS: dict[Table, tuple[Column[Any], ...]] = {
    Table.GROUPS: GROUPS,
    Table.TOPICS: TOPICS,
    Table.POSITIONS: POSITIONS,
    Table.PARTITIONS: PARTITIONS,
}
_DETAIL = {Table.GROUPS: Table.POSITIONS, Table.TOPICS: Table.PARTITIONS}
_FIRST_SORT = {
    Table.GROUPS: ("BEHIND", True),
    Table.TOPICS: ("IN/S", True),
    Table.POSITIONS: ("BEHIND", True),
    Table.PARTITIONS: ("PARTITION", False),
}


@dataclass
class View:
    """For the one thread that shows it."""

    table: Table = Table.GROUPS
    of: str = ""
    """The group or topic whose partitions are shown."""
    sort: dict[Table, tuple[str, bool]] = field(default_factory=lambda: dict(_FIRST_SORT))
    """By table: the column, and whether the largest values come first."""
    filter: str = ""
    is_typing: bool = False
    """Whether keys are letters of the filter."""
    selected: str | None = None
    """The name in the selected row. It stays selected when others overtake it."""
    is_over: bool = False

    @property
    def columns(self) -> tuple[Column[Any], ...]:
        return _COLUMNS[self.table]

    def sort_by(self, name: str, *, largest_first: bool) -> None:
        self.sort[self.table] = (name, largest_first)

    def rows(self, snapshot: Snapshot) -> list[Any]:
        """The items of the table, filtered and sorted. Unknown values come last, and equal ones by name."""
        name, largest_first = self.sort[self.table]
        column = next(each for each in self.columns if each.name == name)
        wanted = self.filter.lower()
        found = [item for item in self._items(snapshot) if wanted in _name(item).lower()]  # sorted by name
        known = [item for item in found if column.value(item) is not None]
        known.sort(key=column.value, reverse=largest_first)
        return known + [item for item in found if column.value(item) is None]

    def _items(self, snapshot: Snapshot) -> Sequence[Any]:
        match self.table:
            case Table.GROUPS:
                return snapshot.groups
            case Table.TOPICS:
                return snapshot.topics
            case Table.POSITIONS:
                return next((group.positions for group in snapshot.groups if group.name == self.of), ())
            case Table.PARTITIONS:
                return next((topic.partitions for topic in snapshot.topics if topic.name == self.of), ())

    def place(self, rows: Sequence[Any]) -> int:
        """The number of the selected row."""
        return next((at for at, item in enumerate(rows) if _name(item) == self.selected), 0)

    def press(self, key: str, snapshot: Snapshot | None) -> None:
        """A key: a character, or one of `up down left right page-up page-down home end enter escape backspace`."""
        if self.is_typing:
            self._type(key)
            return
        match key:
            case "q":
                self.is_over = True
            case "g":
                self._show(Table.GROUPS)
            case "t":
                self._show(Table.TOPICS)
            case "/":
                self.is_typing, self.filter = True, ""
            case "escape":
                self._back()
            case "r":
                name, largest_first = self.sort[self.table]
                self.sort[self.table] = (name, not largest_first)
            case "left" | "right":
                self._sort_beside(1 if key == "right" else -1)
            case _ if snapshot is not None:
                self._move(key, self.rows(snapshot))

    def _type(self, key: str) -> None:
        if key == "enter":
            self.is_typing = False
        elif key == "escape":
            self.is_typing, self.filter = False, ""
        elif key == "backspace":
            self.filter = self.filter[:-1]
        elif len(key) == 1 and key.isprintable():
            self.filter += key

    def _show(self, table: Table, of: str = "") -> None:
        self.table, self.of, self.filter, self.selected = table, of, "", None

    def _back(self) -> None:
        of = self.of
        if self.table is Table.POSITIONS:
            self._show(Table.GROUPS)
        elif self.table is Table.PARTITIONS:
            self._show(Table.TOPICS)
        else:
            self.filter = ""
            return
        self.selected = of

    def _sort_beside(self, step: int) -> None:
        names = [column.name for column in self.columns]
        at = (names.index(self.sort[self.table][0]) + step) % len(names)
        self.sort[self.table] = (names[at], self.columns[at].right)

    def _move(self, key: str, rows: Sequence[Any]) -> None:
        if not rows:
            return
        at = self.place(rows)
        if key == "enter":
            if self.table in _DETAIL:
                self._show(_DETAIL[self.table], rows[at].name)
            return
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "page-up": -20, "page-down": 20}
        ends = {"home": 0, "end": len(rows) - 1}
        if key in steps or key in ends:
            self.selected = _name(rows[ends.get(key, max(0, min(len(rows) - 1, at + steps.get(key, 0))))])


def _name(item: Any) -> str:
    """What distinguishes an item from others of its table."""
    return str(item.name) if hasattr(item, "name") else f"{item.topic}-{item.partition}"
