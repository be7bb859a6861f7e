"""A snapshot as JSON: for scripts, and for pages."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from penstock.monitor.snapshot import MonitoredGroup, MonitoredTopic, Snapshot


def document(snapshot: Snapshot) -> dict[str, Any]:
    """All values, with the names of the fields of `Snapshot`. None stands for what is unknown."""
    return {
        "number": snapshot.number,
        "taken_at": snapshot.taken_at,
        "is_reachable": snapshot.is_reachable,
        "answered_at": snapshot.answered_at,
        "cluster_id": snapshot.cluster_id,
        "brokers": [asdict(broker) for broker in snapshot.brokers],
        "topics": [topic_document(topic) for topic in snapshot.topics],
        "groups": [group_document(group) for group in snapshot.groups],
        "problems": list(snapshot.problems),
        "requests": snapshot.requests,
        "round_seconds": snapshot.round_seconds,
        "lookups_left": snapshot.lookups_left,
    }


def topic_document(topic: MonitoredTopic) -> dict[str, Any]:
    partitions = []
    for each in topic.partitions:
        row = asdict(each)
        del row["topic"]
        partitions.append(row)
    return asdict(topic) | {"partitions": partitions}


def group_document(group: MonitoredGroup) -> dict[str, Any]:
    members = [asdict(each) | {"partitions": [tp._asdict() for tp in each.partitions]} for each in group.members]
    return asdict(group) | {
        "members": members,
        "positions": [asdict(each) | {"certainty": each.certainty.value} for each in group.positions],
        "certainty": group.certainty.value,
        "trend": group.trend,
        "catch_up_seconds": group.catch_up_seconds,
    }
