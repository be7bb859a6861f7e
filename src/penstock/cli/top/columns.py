"""The columns of `penstock top`: what each shows of a group, a topic or a partition, and how it sorts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from penstock.cli.output import number_or_dash
from penstock.monitor.snapshot import Certainty, GroupPosition, MonitoredGroup, MonitoredPartition, MonitoredTopic

Item = TypeVar("Item")
SIGNS = {Certainty.EXACT: "", Certainty.ESTIMATED: "~", Certainty.AT_MOST: "<", Certainty.AT_LEAST: ">"}
"""Before a lag in seconds."""


@dataclass(frozen=True, slots=True)
class Column(Generic[Item]):
    name: str
    value: Callable[[Item], Any]
    """What it sorts by. None sorts last."""
    text: Callable[[Item], str]
    right: bool = True


def duration(seconds: float | None) -> str:
    """Two units at most: 4.2s, 3m 20s, 5h 1m, 2d 3h."""
    if seconds is None:
        return "-"
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}m {whole % 60}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60}m"
    return f"{whole // 86400:,}d {whole % 86400 // 3600}h"


def rate(per_second: float | None) -> str:
    if per_second is None:
        return "-"
    return f"{per_second:,.1f}" if abs(per_second) < 100 else f"{per_second:,.0f}"


def trend(per_second: float | None) -> str:
    if per_second is None:
        return "-"
    shown = rate(per_second)
    return f"+{shown}" if per_second > 0 and shown != "0.0" else shown


def size(count: int | None) -> str:
    if count is None:
        return "-"
    number, unit = float(count), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if number < 1024 or unit == "TB":
            break
        number /= 1024
    return f"{number:,.0f} {unit}" if unit == "B" or number >= 100 else f"{number:,.1f} {unit}"


def retention(seconds: float | None) -> str:
    return "forever" if seconds is not None and seconds < 0 else duration(seconds)


def _lag_seconds(item: GroupPosition | MonitoredGroup) -> str:
    return "-" if item.seconds is None else SIGNS.get(item.certainty, "") + duration(item.seconds)


GROUPS: tuple[Column[MonitoredGroup], ...] = (
    Column("GROUP", lambda group: group.name, lambda group: group.name, right=False),
    Column("STATE", lambda group: group.state, lambda group: group.state, right=False),
    Column("MEMBERS", lambda group: len(group.members), lambda group: f"{len(group.members)}"),
    Column("LAG", lambda group: group.lag, lambda group: number_or_dash(group.lag)),
    Column("BEHIND", lambda group: group.seconds, _lag_seconds),
    Column("TREND/S", lambda group: group.trend, lambda group: trend(group.trend)),
    Column("CATCHES UP", lambda group: group.catch_up_seconds, lambda group: duration(group.catch_up_seconds)),
    Column("READ/S", lambda group: group.consumed, lambda group: rate(group.consumed)),
    Column("DELETED", lambda group: group.deleted, lambda group: f"{group.deleted:,}"),
)
TOPICS: tuple[Column[MonitoredTopic], ...] = (
    Column("TOPIC", lambda topic: topic.name, lambda topic: topic.name, right=False),
    Column("PARTITIONS", lambda topic: len(topic.partitions), lambda topic: f"{len(topic.partitions):,}"),
    Column("RECORDS", lambda topic: topic.records, lambda topic: number_or_dash(topic.records)),
    Column("SIZE", lambda topic: topic.size, lambda topic: size(topic.size)),
    Column("IN/S", lambda topic: topic.rate_in, lambda topic: rate(topic.rate_in)),
    Column("RETENTION", lambda topic: topic.retention_seconds, lambda topic: retention(topic.retention_seconds)),
    Column("NO LEADER", lambda topic: topic.leaderless, lambda topic: f"{topic.leaderless:,}"),
)
POSITIONS: tuple[Column[GroupPosition], ...] = (
    Column("TOPIC", lambda row: row.topic, lambda row: row.topic, right=False),
    Column("PARTITION", lambda row: row.partition, lambda row: f"{row.partition}"),
    Column("COMMITTED", lambda row: row.committed, lambda row: number_or_dash(row.committed)),
    Column("END", lambda row: row.end, lambda row: number_or_dash(row.end)),
    Column("LAG", lambda row: row.lag, lambda row: number_or_dash(row.lag)),
    Column("BEHIND", lambda row: row.seconds, _lag_seconds),
    Column("DELETED", lambda row: row.deleted, lambda row: f"{row.deleted:,}"),
    Column("MEMBER", lambda row: row.member_id, lambda row: row.member_id or "-", right=False),
)
PARTITIONS: tuple[Column[MonitoredPartition], ...] = (
    Column("PARTITION", lambda row: row.partition, lambda row: f"{row.partition}"),
    Column("LEADER", lambda row: row.leader, lambda row: number_or_dash(row.leader)),
    Column("FIRST", lambda row: row.begin, lambda row: number_or_dash(row.begin)),
    Column("END", lambda row: row.end, lambda row: number_or_dash(row.end)),
    Column("RECORDS", lambda row: row.records, lambda row: number_or_dash(row.records)),
    Column("SIZE", lambda row: row.size, lambda row: size(row.size)),
    Column("IN/S", lambda row: row.rate_in, lambda row: rate(row.rate_in)),
)
