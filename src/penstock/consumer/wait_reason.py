"""Why a stream gets no message: the likely cause that its ConsumerTimeout names. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from penstock.config.consumer import ConsumerConfig
from penstock.consumer.fetch.cursor import Cursor


@dataclass(frozen=True, slots=True)
class MembershipStatus:
    """What a member knows about its group and the way to it."""

    is_stable: bool
    """Whether it has an assignment."""
    problem: str | None
    """The last failed attempt to reach the group; None after a success."""
    topics: int
    """The number of subscribed topics. A filter may match none."""
    missing: tuple[str, ...] = ()
    """Subscribed topics that do not exist. Only the group's leader knows."""
    members: int | None = None
    """The number of members; None if another one leads the group."""
    partitions: int | None = None
    """The number of partitions of the group's topics; None likewise."""
    reason: str | None = None
    """Why nothing can arrive, if the membership itself knows it."""


def wait_reason(
    config: ConsumerConfig, status: MembershipStatus | None, assigned: Collection[Cursor], thread_id: str
) -> str:
    """One sentence. `status` is None before the streams exist; `assigned` are all partitions of this consumer."""
    if status is None:
        return ""
    if status.reason is not None:
        return status.reason
    if not status.is_stable:
        return _not_joined(config, status)
    if status.missing:
        names = ", ".join(map(repr, status.missing[:5])) + (", ..." if len(status.missing) > 5 else "")
        do = "does not exist. Create it, or check its name" if len(status.missing) == 1 else "do not exist"
        return f"topic{'s' * (len(status.missing) > 1)} {names} {do}"
    if not status.topics:
        return "the filter matches no topic that this user may see"
    if not assigned:
        return _not_assigned(config, status)
    mine = [cursor for cursor in assigned if cursor.reader.thread_id == thread_id]
    if not mine:
        count = f"{len(assigned)} partition{'s' * (len(assigned) != 1)}"
        return f"this consumer has {count}, and more streams: none is left for this stream. Create fewer streams"
    return _not_read(config, mine)


def _not_joined(config: ConsumerConfig, status: MembershipStatus) -> str:
    if status.problem is None:
        return f"group {config.group!r} is not joined yet: it waits until its other members have joined, too"
    first = status.problem.splitlines()[0]
    servers = config.client.option("bootstrap.servers")
    return f"no broker has let this consumer into group {config.group!r} yet ({first}). Check {servers}"


def _not_assigned(config: ConsumerConfig, status: MembershipStatus) -> str:
    has = "the group has more members than the topic has partitions"
    if status.members is not None and status.partitions is not None:
        has = f"group {config.group!r} has {status.members} members for {status.partitions} partitions"
    return f"no partition is assigned to this consumer: {has}. `penstock groups describe {config.group}` shows them"


def _not_read(config: ConsumerConfig, mine: list[Cursor]) -> str:
    if any(cursor.readable is None or cursor.consumed is None for cursor in mine if not cursor.paused):
        tp = next(cursor.tp for cursor in mine if cursor.readable is None or cursor.consumed is None)
        return f"the broker that leads {tp} has not answered yet"
    behind = [cursor for cursor in mine if (cursor.consumed or 0) < (cursor.readable or 0)]
    if not behind:
        return _nothing_new(config, mine)
    if all(cursor.paused for cursor in behind):
        return f"{behind[0].tp} is paused" if len(behind) == 1 else f"{len(behind)} partitions are paused"
    if all(cursor.waits for cursor in behind):
        return "event-time alignment holds back all partitions that have records"
    return "there are records, and none has arrived in this time"


def _nothing_new(config: ConsumerConfig, mine: list[Cursor]) -> str:
    ends = f"{mine[0].tp} has" if len(mine) == 1 else f"all {len(mine)} partitions of the stream have"
    text = f"{ends} no new records"
    if config.group and config.reset == "latest" and all(cursor.uncommitted_since is None for cursor in mine):
        reset = config.client.option("auto.offset.reset")
        text += f". A new group starts at the end, because {reset} is latest: set it to earliest for older records"
    return text
