"""What a worker process has done at the brokers for one query (F26). A part of task reports."""

from __future__ import annotations

import math
from dataclasses import dataclass

LONGEST_NAME = 300
"""Characters. A host name has at most 253."""

LARGEST = 2**53
"""Above it a float is not exact."""


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """Counts since the worker's first task of the query. So a report that is lost, or arrives twice, costs nothing."""

    worker: str
    """Host and process id: `node-7:4711`."""
    fetches: int = 0
    """Fetch requests that brokers have answered."""
    awaited: int = 0
    """Those whose answer came while the task waited for it. The others arrived while the task decoded records, so
    their time is not known."""
    fetch_seconds: float = 0.0
    """The time from request to answer of the awaited ones."""
    slowest_fetch: float = 0.0
    """The longest of these times since the report before."""
    throttle_seconds: float = 0.0
    """The time for which brokers have throttled the worker."""
    retries: int = 0
    """Requests that have failed in a way that a retry may heal."""
    connections: int = 0
    """Open connections to brokers at the time of the report, of all queries of the worker."""

    def __post_init__(self) -> None:
        if not isinstance(self.worker, str) or not 0 < len(self.worker) <= LONGEST_NAME:
            raise ValueError("figures need the name of a worker")
        counts = (self.fetches, self.awaited, self.retries, self.connections)
        if not all(type(count) is int and 0 <= count <= LARGEST for count in counts):
            raise ValueError(f"the counts of a worker must be integers of 0 or more, not {counts}")
        times = (self.fetch_seconds, self.slowest_fetch, self.throttle_seconds)
        if not all(type(each) in (int, float) and math.isfinite(each) and 0 <= each <= LARGEST for each in times):
            raise ValueError(f"the times of a worker must be seconds of 0 or more, not {times}")
