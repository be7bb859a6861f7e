"""Snapshots as rows of the page's tables, and what changes from one to the next. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

from penstock.monitor.snapshot import GroupPosition, MonitoredGroup, MonitoredPartition, MonitoredTopic, Snapshot

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tables:
    """The rows of one snapshot, by name, and the values that belong to no row."""

    head: Row = field(default_factory=dict)
    topics: Mapping[str, Row] = field(default_factory=dict)
    groups: Mapping[str, Row] = field(default_factory=dict)


def tables_of(snapshot: Snapshot, name: str = "", *, allows_writes: bool = False) -> Tables:
    """`name`: what the page calls the cluster."""
    head = {
        "name": name,
        "allows_writes": allows_writes,
        "number": snapshot.number,
        "taken_at": snapshot.taken_at,
        "is_reachable": snapshot.is_reachable,
        "answered_at": snapshot.answered_at,
        "cluster_id": snapshot.cluster_id,
        "brokers": [asdict(broker) for broker in snapshot.brokers],
        "problems": list(snapshot.problems),
        "requests": snapshot.requests,
        "round_seconds": _rounded(snapshot.round_seconds),
        "lookups_left": snapshot.lookups_left,
    }
    return Tables(
        head,
        {topic.name: topic_row(topic) for topic in snapshot.topics},
        {group.name: group_row(group) for group in snapshot.groups},
    )


def cluster_row(name: str, tables: Tables | None) -> Row:
    """A cluster in the table of clusters; without tables, before its first snapshot."""
    if tables is None:
        return {"name": name}
    head, topics, groups = tables.head, tables.topics.values(), tables.groups.values()
    latest = max(groups, key=lambda group: -1.0 if group["seconds"] is None else group["seconds"], default=None)
    return {
        "name": name,
        "is_reachable": head["is_reachable"],
        "answered_at": head["answered_at"],
        "brokers": len(head["brokers"]),
        "topics": len(topics),
        "rate_in": _rounded(sum(topic["rate_in"] or 0.0 for topic in topics)),
        "groups": len(groups),
        "lag": sum(group["lag"] or 0 for group in groups),
        "seconds": None if latest is None else latest["seconds"],
        "certainty": None if latest is None else latest["certainty"],
        "problems": len(head["problems"]),
    }


def topic_row(topic: MonitoredTopic) -> Row:
    return {
        "name": topic.name,
        "rate_in": _rounded(topic.rate_in),
        "size": topic.size,
        "records": topic.records,
        "partitions": len(topic.partitions),
        "leaders": len({each.leader for each in topic.partitions if each.leader is not None}),
        "leaderless": topic.leaderless,
        "retention_seconds": topic.retention_seconds,
        "retention_bytes": topic.retention_bytes,
        "cleanup_policy": topic.cleanup_policy,
    }


def group_row(group: MonitoredGroup) -> Row:
    return {
        "name": group.name,
        "kind": group.kind,
        "state": group.state,
        "members": len(group.members),
        "lag": group.lag,
        "seconds": _rounded(group.seconds),
        "certainty": group.certainty.value,
        "trend": _rounded(group.trend),
        "catch_up_seconds": _rounded(group.catch_up_seconds),
        "consumed": _rounded(group.consumed),
        "deleted": group.deleted,
    }


def _rounded(value: float | None) -> float | None:
    """One decimal is shown. More would make every row of a quiet cluster a changed one."""
    return None if value is None else round(value, 1)


def full(tables: Tables) -> Row:
    """All rows."""
    return {"head": tables.head, "topics": list(tables.topics.values()), "groups": list(tables.groups.values())}


def delta(old: Tables, new: Tables) -> Row:
    """What turns the old rows into the new ones."""
    return {
        "head": new.head,
        "base": old.head.get("number", 0),
        "topics": _changes(old.topics, new.topics),
        "groups": _changes(old.groups, new.groups),
    }


def _changes(old: Mapping[str, Row], new: Mapping[str, Row]) -> Row:
    """Changed cells of known rows, whole new rows, and the names of those that are gone."""
    changed = [_changed_cells(old.get(name), row, "name") for name, row in new.items()]
    return _rows(changed, [{"name": name} for name in old if name not in new])


def event(name: str, number: int, data: Row) -> bytes:
    """A server-sent event. JSON escapes line ends, so that the data is one line."""
    return f"event: {name}\nid: {number}\ndata: {compact(data)}\n\n".encode("ascii")


def compact(data: Any) -> str:
    """JSON in ASCII. NaN is not JSON and would end the page's parser: no value here is one."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


Source: TypeAlias = MonitoredTopic | MonitoredGroup
"""What a detail is made of."""


def size_of(source: Source) -> int:
    """The number of rows in its detail."""
    return len(source.partitions) if isinstance(source, MonitoredTopic) else len(source.positions)


def detail(source: Source) -> Row:
    """All rows of a topic or group."""
    if isinstance(source, MonitoredTopic):
        return {"row": topic_row(source), "partitions": [_partition_row(each) for each in source.partitions]}
    clients = _clients(source)
    return _group_values(source) | {"positions": [_position_row(each, clients) for each in source.positions]}


def detail_delta(old: Source, new: Source) -> Row:
    """What turns the old rows of a detail into the new ones: changed cells with the cells that name the row, whole new
    rows, and the names of rows that are gone. All else is small and sent whole."""
    if isinstance(old, MonitoredTopic) and isinstance(new, MonitoredTopic):
        known = {each.partition: each for each in old.partitions}
        changed = []
        for each in new.partitions:
            before = known.pop(each.partition, None)
            if before != each:
                row = None if before is None else _partition_row(before)
                changed.append(_changed_cells(row, _partition_row(each), "partition"))
        return {"row": topic_row(new), "partitions": _rows(changed, [{"partition": partition} for partition in known])}
    assert isinstance(old, MonitoredGroup)
    assert isinstance(new, MonitoredGroup)
    return _group_values(new) | {"positions": _position_changes(old, new)}


def _position_changes(old: MonitoredGroup, new: MonitoredGroup) -> Row:
    earlier, clients = _clients(old), _clients(new)
    known = {(each.topic, each.partition): each for each in old.positions}
    changed = []
    for each in new.positions:
        before = known.pop((each.topic, each.partition), None)
        if before != each or earlier != clients:
            row = None if before is None else _position_row(before, earlier)
            changed.append(_changed_cells(row, _position_row(each, clients), "topic", "partition"))
    return _rows(changed, [{"topic": topic, "partition": partition} for topic, partition in known])


def _rows(changed: Sequence[Row | None], gone: Sequence[Row]) -> Row:
    return {"set": [row for row in changed if row is not None], "gone": gone}


def _changed_cells(old: Row | None, new: Row, *names: str) -> Row | None:
    if old is None:
        return new
    changed = {key: value for key, value in new.items() if old[key] != value}
    return {name: new[name] for name in names} | changed if changed else None


def _partition_row(each: MonitoredPartition) -> Row:
    return {
        "partition": each.partition,
        "leader": each.leader,
        "begin": each.begin,
        "end": each.end,
        "size": each.size,
        "rate_in": _rounded(each.rate_in),
    }


def _clients(group: MonitoredGroup) -> dict[str, str]:
    return {member.member_id: member.client_id for member in group.members}


def _position_row(each: GroupPosition, clients: Mapping[str, str]) -> Row:
    return {
        "topic": each.topic,
        "partition": each.partition,
        "committed": each.committed,
        "end": each.end,
        "lag": each.lag,
        "seconds": _rounded(each.seconds),
        "certainty": each.certainty.value,
        "deleted": each.deleted,
        "client": None if each.member_id is None else clients.get(each.member_id, each.member_id),
    }


def _group_values(group: MonitoredGroup) -> Row:
    members = [
        {
            "member_id": member.member_id,
            "client_id": member.client_id,
            "host": member.host,
            "instance_id": member.instance_id,
            "partitions": len(member.partitions),
        }
        for member in group.members
    ]
    return {"row": group_row(group), "members": members}
