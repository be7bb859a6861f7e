"""The targets of the event-time figures."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from benchmarks.event_time.figures import CATCH_UP, OFF, ON, PLANNING, REPLAY, case
from benchmarks.event_time.planning import BEHIND, HELD, LIVE
from benchmarks.event_time.replay import LOST
from benchmarks.figure import Figure
from benchmarks.measurement import Measurement
from benchmarks.streaming.catch_up import ALL_AT_ONCE, LIMITED
from benchmarks.streaming.sides import JVM, PENSTOCK
from benchmarks.target import Target, compare

CODEC = "none"
ADDED_MS = 50.0
SHARE = 0.25

TARGETS = tuple(
    Target(
        f"event time on / off, catching up, {what}", CATCH_UP,
        (PENSTOCK, case(what, ON)), (PENSTOCK, case(what, OFF)), at_least=0.9,
    )
    for what in (ALL_AT_ONCE, LIMITED)
)  # fmt: skip


def figures(measurements: Iterable[Measurement]) -> list[Figure]:
    measured = list(measurements)
    return compare(TARGETS, measured, CODEC) + _added(measured) + _lost(measured)


def _added(measured: list[Measurement]) -> list[Figure]:
    by_case = {one.case: one for one in measured if one.figure == PLANNING}
    found = []
    for what in (LIVE, HELD, BEHIND):
        on, off = by_case.get(case(what, ON)), by_case.get(case(what, OFF))
        if on is None or off is None:
            continue
        added = on.value - off.value
        share = added / median(each["triggerExecution"] for each in on.extra)
        name = f"event time, planning 200 partitions, {what}"
        found.append(Figure(f"{name}: added", CODEC, added, f"<= {ADDED_MS:g} ms", added <= ADDED_MS, " ms"))
        found.append(Figure(f"{name}: added, of the trigger", CODEC, share, f"<= {SHARE:g}", share <= SHARE))
    return found


def _lost(measured: list[Measurement]) -> list[Figure]:
    """Penstock must lose no record, and Spark's own source must lose some: otherwise the topic proves nothing."""
    by_side = {one.side: one.rounds for one in measured if (one.figure, one.case) == (REPLAY, LOST)}
    found = []
    if (ours := by_side.get(PENSTOCK)) is not None:
        name = "skewed replay: records lost by Penstock, worst run"
        found.append(Figure(name, CODEC, max(ours), "<= 0", max(ours) <= 0))
    if (theirs := by_side.get(JVM)) is not None:
        name = "skewed replay: records lost by Spark's own source, best run"
        found.append(Figure(name, CODEC, min(theirs), "> 0", min(theirs) > 0))
    return found
