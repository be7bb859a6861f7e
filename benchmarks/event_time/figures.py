"""The event-time figures by name, and the options by which alignment is on."""

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
"""For topics whose partitions advance evenly, through an hour: brokers are asked where to stop at every trigger of a
limited stream, and no partition is ever kept waiting by another."""


def case(what: str, switched: str) -> str:
    return f"{what}, event time {switched}"
