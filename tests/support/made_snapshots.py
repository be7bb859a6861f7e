"""Snapshots of made-up clusters."""

from __future__ import annotations

from penstock.model.topic_partition import TopicPartition
from penstock.monitor.snapshot import (
    Certainty,
    GroupPosition,
    MonitoredGroup,
    MonitoredPartition,
    MonitoredTopic,
    Snapshot,
)
from penstock.wire.api.group_admin import GroupMember

HOSTILE = "<img src=x onerror=alert(1)>\"'&\x1b[2J\u202e\u2028\n\U0001f600"


def topic(name="t", *, end=1000, partitions=1):
    rows = tuple(MonitoredPartition(name, at, 1, 0, end, 100, 2.04) for at in range(partitions))
    return MonitoredTopic(name, False, rows, 3600.0, -1, "delete", end * partitions, 100, 2.04, 0)


def member(name="m", *partitions, topic_name="t"):
    return GroupMember(
        name, f"client {name}", "/127.0.0.1", None, tuple(TopicPartition(topic_name, p) for p in partitions)
    )


def group(name="g", *, committed=900, members=(), state="Stable", seconds=3.04, measured_at=1.0):
    position = GroupPosition("t", 0, committed, 1000, 1000 - committed, seconds, Certainty.EXACT, 0, None)
    return MonitoredGroup(
        *(name, "classic", state, "consumer", "range", 1, tuple(members), (position,), 1000 - committed, seconds),
        *(Certainty.EXACT, 0, 1.0, 1.0, measured_at),
    )


def snapshot(number=1, topics=(), groups=(), *, is_reachable=True, taken_at=None):
    at = float(number) if taken_at is None else taken_at
    return Snapshot(number, at, is_reachable, at, "cluster", (), tuple(topics), tuple(groups))
