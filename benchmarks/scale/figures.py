"""The names, sizes and cases of the figures about growth."""

from __future__ import annotations

PLANNING = "scale-planning"
RANGES = "scale-ranges"
GROUP = "scale-group"
BROKER = "scale-broker"
FIGURES = (PLANNING, RANGES, GROUP, BROKER)

PARTITIONS = {100: (1, 100), 1_000: (10, 100), 10_000: (100, 100), 100_000: (1_000, 100)}
"""Sizes of the simulated cluster: topics, and partitions of each."""
RANGE_COUNTS = (1, 10, 100, 1_000)
MEMBERS = (1, 4, 16, 64)
GROUP_PARTITIONS = 256

BATCH = "batch"
IDLE = "idle"
FEW = "data in 4 partitions"
ALL = "data in all partitions"
DISCOVERY = "idle, discovery at every trigger"
PLANNED = (BATCH, ALL, FEW, IDLE, DISCOVERY)
MEMORY = "memory"

RANGE_STEPS = ("planning", "pickling", "unpickling")
PICKLED = "pickled"

START = "all members start"
JOIN = "one more member joins"
LEAVE = "one member leaves"
CHANGES = (START, JOIN, LEAVE)

EVERY_TRIGGER = "discovery at every trigger"


def case(what: str, size: int) -> str:
    return f"{what}, {size:,}"


def processor(what: str) -> str:
    return f"{what}: CPU per member"
