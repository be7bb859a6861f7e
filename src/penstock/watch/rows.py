"""Snapshots as rows of the page's tables, and what changes from one to the next. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

from penstock.monitor.snapshot import MonitoredGroup, MonitoredTopic, Snapshot

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tables:
    """The rows of one snapshot, by name, and the values that belong to no row."""

    head: Row = field(default_factory=dict)
    topics: Mapping[str, Row] = field(default_factory=dict)
    groups: Mapping[str, Row] = field(default_factory=dict)


def tables_of(snapshot: Snapshot) -> Tables:
    head = {
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
    changed = []
    for name, row in new.items():
        before = old.get(name)
        if before is None:
            changed.append(row)
        elif before != row:
            changed.append({"name": name} | {key: value for key, value in row.items() if before[key] != value})
    return {"set": changed, "gone": [name for name in old if name not in new]}


def event(name: str, number: int, data: Row) -> bytes:
    """A server-sent event. JSON escapes line ends, so that the data is one line."""
    return f"event: {name}\nid: {number}\ndata: {compact(data)}\n\n".encode("ascii")


def compact(data: Any) -> str:
    """JSON in ASCII. NaN is not JSON and would end the page's parser: no value here is one."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def topic_detail(topic: MonitoredTopic) -> Row:
    partitions = [
        {
            "partition": each.partition,
            "leader": each.leader,
            "begin": each.begin,
            "end": each.end,
            "records": each.records,
            "size": each.size,
            "rate_in": _rounded(each.rate_in),
        }
        for each in topic.partitions
    ]
    return {"row": topic_row(topic), "partitions": partitions}


def group_detail(group: MonitoredGroup) -> Row:
    clients = {member.member_id: member.client_id for member in group.members}
    positions = [
        {
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
        for each in group.positions
    ]
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
    return {"row": group_row(group), "positions": positions, "members": members}
