"""The progress of groups in event time, by the timestamps of their committed records. Pure."""

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
    """The state of a partition among the others."""

    NONE = ""
    SLOWEST = "slowest"
    HELD = "held back"
    """A query with that drift does not read it until the slowest partition catches up."""
    IDLE = "idle"
    """Read to its end: it does not hold back others."""
    UNKNOWN = "no watermark"
    """It has unread records, and no record before them exists or has a timestamp."""
    GONE = "gone"
    """The partition does not exist, or has no leader."""


@dataclass(frozen=True, slots=True)
class EventTimeStanding:
    """The progress of a group in one partition. Times and spans are milliseconds. None: unknown or missing."""

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
    """All partitions together. The watermark is the smallest of the partitions with unread records (E2, E3)."""

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
    """`reached`: the largest timestamp of the records below the committed offset. `newest`: of all records."""
    watermarks = {tp: mark for tp, time in reached.items() if (mark := _watermark(time, strategy)) is not None}
    states = {
        tp: _state(max(committed[tp] or 0, begins.get(tp, 0)), ends.get(tp), tp in watermarks) for tp in committed
    }
    active = {tp: mark for tp, mark in watermarks.items() if states[tp] is State.NONE}
    slowest = min(active, key=lambda tp: (active[tp], tp), default=None)
    waiting = State.UNKNOWN in states.values()
    # If all partitions are read to their ends, the largest watermark counts.
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
    """`position`: the committed offset, or the beginning of the log if that no longer exists."""
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
    yield from table.shown(
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
        why = f": no committed record has a timestamp in {unknown[0]}{others}" if unknown else ""
        text = f"Event time: no watermark yet{why}"
    else:
        text = f"Event time: watermark {moment(group.watermark_ms)}, {behind(group.behind_now_ms)}"
        text += f", slowest {group.slowest}" if group.slowest else ", all records are read"
    for state in (State.IDLE, State.HELD, State.GONE):
        if count := group.count(state):
            text += f", {count:,} {state}"
            if state is State.HELD:
                text += f" by a drift of {span(group.strategy.max_drift)}"
    return text


def documents(groups: Mapping[str, GroupEventTime]) -> Iterator[str]:
    """One line of JSON per group."""
    for name, group in groups.items():
        yield json_text({"group": name} | document(group))


def overview(groups: Mapping[str, GroupEventTime]) -> Iterator[str]:
    """One line per group."""
    if not groups:
        yield "No group has committed offsets."
        return
    numbers = ("PARTITIONS", "IDLE", "HELD BACK")
    yield from table.shown(
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
    """Timestamps may be in the future: a clock is ahead, or the unit is wrong."""
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
