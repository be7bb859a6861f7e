"""Rebalances and commits of groups, seen by comparing snapshots. No I/O.

What happens and is undone between two snapshots is not seen.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.monitor.snapshot import MonitoredGroup, Snapshot

COMMITS, CHANGES, POINTS = 50, 100, 240
"""Kept for each group: at the usual interval, 20 minutes of lag. Commits come with each round, and do not push out
rebalances. A thousand groups that all commit take 25 MB."""


class _Event(NamedTuple):
    at: float
    kind: str
    text: str


@dataclass(slots=True)
class _Known:
    """What the last snapshot said about a group, and what happened before."""

    members: dict[str, str] = field(default_factory=dict)
    owned: dict[tuple[str, int], str] = field(default_factory=dict)
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    state: str = ""
    coordinator: int = -1
    measured_at: float = 0.0
    commits: deque[_Event] = field(default_factory=lambda: deque(maxlen=COMMITS))
    changes: deque[_Event] = field(default_factory=lambda: deque(maxlen=CHANGES))
    points: array[float] = field(default_factory=lambda: array("d"))
    """Time, records and seconds in turn; NaN is unknown."""


class Timeline:
    """Called by one thread at a time."""

    def __init__(self) -> None:
        self._groups: dict[str, _Known] = {}
        self.since: float | None = None

    def learn(self, snapshot: Snapshot) -> None:
        """Compare a snapshot with the one before."""
        if not snapshot.is_reachable:
            return  # everything in it is older
        if self.since is None:
            self.since = snapshot.taken_at
        for group in snapshot.groups:
            known = self._groups.get(group.name)
            if known is None:
                known = self._groups[group.name] = _Known()
            else:
                for event in _changes(known, group, snapshot.taken_at):
                    (known.commits if event.kind == "commit" else known.changes).append(event)
            _remember(known, group)
        for name in self._groups.keys() - {group.name for group in snapshot.groups}:
            del self._groups[name]

    def of(self, group: str) -> dict[str, Any]:
        """The events of a group, the latest first, and its lag over time as (time, records, seconds)."""
        known = self._groups.get(group)
        if known is None:
            return {"since": self.since, "events": [], "points": []}
        events = sorted([*known.changes, *known.commits], key=lambda event: event.at)
        values = [None if math.isnan(value) else value for value in known.points]
        return {
            "since": self.since,
            "events": [event._asdict() for event in reversed(events)],
            "points": list(zip(values[::3], values[1::3], values[2::3], strict=True)),
        }


def _committed(group: MonitoredGroup) -> dict[tuple[str, int], int]:
    return {(each.topic, each.partition): each.committed for each in group.positions if each.committed is not None}


def _owned(group: MonitoredGroup) -> dict[tuple[str, int], str]:
    return {(tp.topic, tp.partition): member.member_id for member in group.members for tp in member.partitions}


def _remember(known: _Known, group: MonitoredGroup) -> None:
    known.members = {member.member_id: member.client_id for member in group.members}
    known.owned = _owned(group)
    known.committed = _committed(group)
    known.state, known.coordinator = group.state, group.coordinator
    if group.measured_at != known.measured_at:
        values = (group.measured_at, group.lag, group.seconds)
        known.points.extend(math.nan if value is None else value for value in values)
        del known.points[: -3 * POINTS]
        known.measured_at = group.measured_at


def _changes(known: _Known, group: MonitoredGroup, at: float) -> list[_Event]:
    found: list[_Event] = []

    def add(kind: str, text: str) -> None:
        found.append(_Event(at, kind, text))

    members = {member.member_id: member.client_id for member in group.members}
    if joined := [name for member, name in members.items() if member not in known.members]:
        add("rebalance", f"{_some(joined)} joined")
    if left := [name for member, name in known.members.items() if member not in members]:
        add("rebalance", f"{_some(left)} left")
    owned = _owned(group)
    moved = sum(known.owned.get(tp) != owner for tp, owner in owned.items()) + len(known.owned.keys() - owned.keys())
    if moved:
        add("rebalance", f"{_partitions(moved)} assigned otherwise")
    if group.state != known.state:
        add("state", f"{known.state or 'unknown'} → {group.state or 'unknown'}")
    if group.coordinator != known.coordinator:
        add("state", f"the coordinator moved to broker {group.coordinator}")
    committed = _committed(group)
    steps = [offset - known.committed[tp] for tp, offset in committed.items() if tp in known.committed]
    if forward := [step for step in steps if step > 0]:
        add("commit", f"{sum(forward):,} records in {_partitions(len(forward))} committed")
    if back := [-step for step in steps if step < 0]:
        add("reset", f"offsets set back by {sum(back):,} records in {_partitions(len(back))}")
    if first := len(committed.keys() - known.committed.keys()):
        add("commit", f"first commit in {_partitions(first)}")
    return found


def _partitions(count: int) -> str:
    return f"{count:,} {'partition' if count == 1 else 'partitions'}"


def _some(names: list[str]) -> str:
    """At most three names."""
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more:,} more" if more > 0 else "")
