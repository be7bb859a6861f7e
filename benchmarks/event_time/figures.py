"""The names of the event-time figures, and the options that turn alignment on."""

from __future__ import annotations

from benchmarks.streaming.sides import JVM, PENSTOCK

CATCH_UP = "event-time-catch-up"
PLANNING = "event-time-planning"
REPLAY = "event-time-replay"
FIGURES = (CATCH_UP, PLANNING, REPLAY)
SIDES = (PENSTOCK, JVM)

OFF = "off"
ON = "on"

HOUR = 3_600_000

EVENT_TIME = {"eventTime.outOfOrderness": "5s", "eventTime.idleness": "30s", "eventTime.maxDrift": "15m"}
"""For topics whose partitions advance evenly over an hour: at every trigger of a limited stream the planner asks the
brokers where to stop, and no partition waits for another."""


def case(what: str, switched: str) -> str:
    return f"{what}, event time {switched}"
