"""How far groups are in event time, by the timestamps of the records that they have committed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from penstock.cli import table
from penstock.cli.output import json_text
from penstock.eventtime.strategy import WatermarkStrategy
from penstock.model.topic_partition import TopicPartition

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1))


class State(StrEnum):
    """What a partition does to the others, if anything."""

    NONE = ""
    SLOWEST = "slowest"
    HELD = "held back"
    """A query with that drift would not read it until the slowest has come nearer."""
    IDLE = "idle"
    """All of it is read: it holds nobody back."""
    UNKNOWN = "no watermark"
    """It has records to read, and none of those before them is in the log or has a timestamp."""
    GONE = "gone"
    """No such partition, or it has no leader."""


@dataclass(frozen=True, slots=True)
class EventTimeStanding:
    """How far a group is in one partition. Times and spans are milliseconds; None is not known or not there."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    watermark_ms: int | None
    newest_ms: int | None
    behind_newest_ms: int | None
    behind_now_ms: int | None
    ahead_ms: int | None
    state: State

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class GroupEventTime:
    """All partitions together: the watermark is the smallest of those that have records left to read (E2, E3)."""

    watermark_ms: int | None
    behind_now_ms: int | None
    slowest: str | None
    strategy: WatermarkStrategy
    partitions: tuple[EventTimeStanding, ...]

    def count(self, state: State) -> int:
        return sum(each.state is state for each in self.partitions)


def group_event_time(
    committed: Mapping[TopicPartition, int | None],
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    reached: Mapping[TopicPartition, int | None],
    newest: Mapping[TopicPartition, int | None],
    strategy: WatermarkStrategy,
    now: int,
) -> GroupEventTime:
    """`reached` and `newest` are the largest timestamps of the records below what is committed, and of all records."""
    watermarks = {tp: mark for tp, time in reached.items() if (mark := _watermark(time, strategy)) is not None}
    states = {
        tp: _state(max(committed[tp] or 0, begins.get(tp, 0)), ends.get(tp), tp in watermarks) for tp in committed
    }
    active = {tp: mark for tp, mark in watermarks.items() if states[tp] is State.NONE}
    slowest = min(active, key=lambda tp: (active[tp], tp), default=None)
    waiting = State.UNKNOWN in states.values()
    # With all of it read nobody is slow, and what counts is how far the furthest has come.
    least = max(watermarks.values(), default=None) if slowest is None else active[slowest]
    if strategy.max_drift is not None and least is not None:
        for tp, mark in active.items():
            if waiting or mark > least + strategy.max_drift:
                states[tp] = State.HELD
    if waiting:
        slowest = None
    elif slowest is not None:
        states[slowest] = State.SLOWEST
    combined = None if waiting else least
    rows = []
    for tp in sorted(committed):
        at, end, mark, last = committed[tp], ends.get(tp), watermarks.get(tp), newest.get(tp)
        time = reached.get(tp)
        rows.append(
            EventTimeStanding(
                *tp,
                at,
                end,
                None if at is None or end is None else max(0, end - at),
                mark,
                last,
                None if last is None or time is None else max(0, last - time),
                None if mark is None else now - mark,
                None if least is None or tp not in active else active[tp] - least,
                states[tp],
            )
        )
    behind = None if combined is None else now - combined
    return GroupEventTime(combined, behind, None if slowest is None else str(slowest), strategy, tuple(rows))


def _watermark(time: int | None, strategy: WatermarkStrategy) -> int | None:
    return None if time is None else strategy.watermark_of(time)


def _state(position: int, end: int | None, has_watermark: bool) -> State:
    """`position` is where it reads on: what is committed, or the begin of the log if that is gone."""
    if end is None:
        return State.GONE
    if position >= end:
        return State.IDLE
    return State.NONE if has_watermark else State.UNKNOWN


def document(group: GroupEventTime) -> dict[str, Any]:
    """For JSON."""
    return {
        "watermark_ms": group.watermark_ms,
        "behind_now_ms": group.behind_now_ms,
        "slowest": group.slowest,
        "out_of_orderness_ms": group.strategy.out_of_orderness,
        "max_drift_ms": group.strategy.max_drift,
        "partitions": [asdict(row) for row in group.partitions],
    }


def report(group: GroupEventTime) -> Iterator[str]:
    yield headline(group)
    yield ""
    yield from table.lines(
        ("TOPIC", "PARTITION", "COMMITTED", "LAG", "WATERMARK", "BEHIND NEWEST", "BEHIND NOW", "AHEAD", "STATE"),
        [
            (
                row.topic,
                f"{row.partition}",
                *("-" if number is None else f"{number:,}" for number in (row.committed, row.lag)),
                moment(row.watermark_ms),
                *map(span, (row.behind_newest_ms, row.behind_now_ms, row.ahead_ms)),
                row.state,
            )
            for row in group.partitions
        ],
        right=("PARTITION", "COMMITTED", "LAG", "BEHIND NEWEST", "BEHIND NOW", "AHEAD"),
    )


def headline(group: GroupEventTime) -> str:
    if group.watermark_ms is None:
        unknown = [row.name for row in group.partitions if row.state is State.UNKNOWN]
        others = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        why = f": nothing before what is committed has a timestamp in {unknown[0]}{others}" if unknown else ""
        said = f"Event time: no watermark yet{why}"
    else:
        said = f"Event time: watermark {moment(group.watermark_ms)}, {behind(group.behind_now_ms)}"
        said += f", slowest {group.slowest}" if group.slowest else ", all is read"
    for state in (State.IDLE, State.HELD, State.GONE):
        if count := group.count(state):
            said += f", {count:,} {state}"
            if state is State.HELD:
                said += f" by a drift of {span(group.strategy.max_drift)}"
    return said


def documents(groups: Mapping[str, GroupEventTime]) -> Iterator[str]:
    """A line of JSON for each group."""
    for name, group in groups.items():
        yield json_text({"group": name} | document(group))


def overview(groups: Mapping[str, GroupEventTime]) -> Iterator[str]:
    """A line for each group."""
    if not groups:
        yield "No group has committed offsets."
        return
    numbers = ("PARTITIONS", "IDLE", "HELD BACK")
    yield from table.lines(
        ("GROUP", "WATERMARK", "BEHIND NOW", "SLOWEST", *numbers),
        [
            (
                name,
                moment(group.watermark_ms),
                span(group.behind_now_ms),
                group.slowest or "-",
                *(f"{n:,}" for n in (len(group.partitions), group.count(State.IDLE), group.count(State.HELD))),
            )
            for name, group in groups.items()
        ],
        right=("BEHIND NOW", *numbers),
    )


def moment(milliseconds: int | None) -> str:
    """2025-01-31T12:00:00.000Z"""
    if milliseconds is None:
        return "-"
    try:
        at = EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:  # a timestamp may be any number
        return f"{milliseconds:,} ms"
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def behind(milliseconds: int | None) -> str:
    """A clock that runs ahead, or a wrong unit, makes timestamps that are still to come."""
    ahead = milliseconds is not None and milliseconds < 0
    return f"{span(abs(milliseconds or 0))} {'ahead of' if ahead else 'behind'} now"


def span(milliseconds: int | None) -> str:
    """The two largest units: 3 h 12 min."""
    if milliseconds is None:
        return "-"
    left = abs(milliseconds)
    parts: list[tuple[int, str]] = []
    for unit, size in UNITS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append((count, unit))
        if len(parts) == 2 or (parts and unit == "s"):
            break
    text = " ".join(f"{count:,} {unit}" for count, unit in parts if count) or "0 s"
    return f"-{text}" if milliseconds < 0 else text
