"""What a Streamer has done so far."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class Counters:
    """Of one thread, which alone writes them."""

    records: int = 0
    """Taken from the stream."""
    rows: int = 0
    """In the sink."""
    skipped: int = 0
    """Records that the extractor made no row of, by its own will."""
    failed: int = 0
    """Records that the extractor raised on, or whose rows the sink refuses."""
    dead_lettered: int = 0
    """Those of them that are in the dead-letter topic."""
    flushes: int = 0
    retries: int = 0
    """Of the sink, of dead letters and of the stream."""
    commits: int = 0
    commits_failed: int = 0


@dataclass(frozen=True, slots=True)
class StreamerMetrics:
    """A Streamer's counts over all threads, and its lag."""

    records: int
    rows: int
    skipped: int
    failed: int
    dead_lettered: int
    flushes: int
    retries: int
    commits: int
    commits_failed: int
    lag: int | None
    """Records that wait in the partitions that are ours, not counting what threads hold; None if nobody knows yet."""
    last_error: str | None
    """The last thing that went wrong, whether or not it was overcome."""


def summed(counters: list[Counters], lag: int | None, last_error: str | None) -> StreamerMetrics:
    totals = {field.name: sum(getattr(one, field.name) for one in counters) for field in fields(Counters)}
    return StreamerMetrics(**totals, lag=lag, last_error=last_error)
