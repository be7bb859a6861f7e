"""Counts of a Streamer, per thread and in total."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class Counters:
    """The counts of one thread. Only that thread changes them."""

    records: int = 0
    """Records read from the stream."""
    rows: int = 0
    """Rows written to the sink."""
    skipped: int = 0
    """Records for which the extractor returned no row."""
    failed: int = 0
    """Records on which the extractor raised, or whose rows the sink refused."""
    dead_lettered: int = 0
    """Failed records that were written to the dead-letter topic."""
    already_stored: int = 0
    """Records that were not written, because the table has them: another member of the group wrote them."""
    flushes: int = 0
    retries: int = 0
    """Retries of the sink, of dead letters and of the stream."""
    committed: int = 0
    """Records whose offsets are committed."""
    commits: int = 0
    commits_failed: int = 0


@dataclass(frozen=True, slots=True)
class StreamerMetrics:
    """The counts of all threads, the lag, and the last error."""

    records: int
    rows: int
    skipped: int
    failed: int
    dead_lettered: int
    already_stored: int
    flushes: int
    retries: int
    committed: int
    commits: int
    commits_failed: int
    lag: int | None
    """Unread records in the assigned partitions, without those that threads hold. None while unknown."""
    last_error: str | None
    """The last error, whether or not a retry succeeded."""
    next_flush: float | None = None
    """The seconds until a thread writes the records that it holds. None if no thread holds any."""


def summed(
    counters: list[Counters], lag: int | None, last_error: str | None, next_flush: float | None = None
) -> StreamerMetrics:
    totals = {field.name: sum(getattr(one, field.name) for one in counters) for field in fields(Counters)}
    return StreamerMetrics(**totals, lag=lag, last_error=last_error, next_flush=next_flush)
