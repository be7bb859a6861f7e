"""`await_end`: stops a streaming query that has come to the end its options set, or its deserializer finds.

A source can go no further than its end, but Spark gives it no way to end the query, which would poll on for ever. So
the source says in its progress that it has finished, and whoever waits for the query stops it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress

from penstock.spark.listener import source_metrics

POLL_SECONDS = 0.1


def await_end(query: Any, timeout: float | None = None) -> bool:
    """Wait until a query with `endingOffsets`, `endingTimestamp` or a deserializer that has `is_end_of_stream` has read
    all of it, and stop it.

        stream = spark.readStream.format("penstock").option("endingTimestamp", 1738324800000)...
        query = stream.load().writeStream...start()
        await_end(query)

    When this returns, the last batch is in sink and checkpoint, batches that Spark runs without data (to close windows)
    are done, and the consumer group has been told. True if the end was reached; False if the query was over before it
    (somebody stopped it, or Trigger.AvailableNow had read what there was). Raises the query's exception if it failed,
    ValueError if it has no end, and TimeoutError after `timeout` seconds; the query then runs on.

    Works with a classic session and through Spark Connect. It returns with the trigger after the last one with data.
    Where the end is found without new data (the last batch was run again after a restart, or a time came to pass) it
    may take `spark.sql.streaming.noDataProgressEventInterval` (10 s) more: so often does Spark report an idle query.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while not _at_end(progress := _last_progress(query)):
        if _ended(query, deadline):
            return _at_end(_last_progress(query))
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError(f"{_called(query)} did not come to its end within {timeout:g} s: {_where(progress)}")
    idle = threading.Event()
    # A call that only an idle trigger ends, and that takes no time-out: so a thread, which ends with the query.
    threading.Thread(target=_await_idle, args=(query, idle), name="penstock-await-end", daemon=True).start()
    while not idle.wait(POLL_SECONDS):
        if _ended(query, deadline):
            return True
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError(f"{_called(query)} has read everything, but did not come to rest within {timeout:g} s")
    if not _ended(query, deadline):
        query.stop()
    return True


def _ended(query: Any, deadline: float | None) -> bool:
    """Whether the query is over, after a short wait; raises what it failed with."""
    left = POLL_SECONDS if deadline is None else min(POLL_SECONDS, deadline - time.monotonic())
    return bool(query.awaitTermination(max(0.001, left)))


def _await_idle(query: Any, idle: threading.Event) -> None:
    # The query's own failure is raised where it is awaited.
    with contextlib.suppress(Exception):
        query.processAllAvailable()
    idle.set()


def _at_end(progress: StreamingQueryProgress | None) -> bool:
    """Whether all sources have finished. A progress is made when its batch is in the commit log, not before."""
    if progress is None:
        return False
    metrics = source_metrics(progress)
    for number, source in enumerate(progress.sources):
        known = metrics.get(number)
        if known is not None and known.finished is not None:
            continue
        if source.latestOffset in ("None", "null"):  # a batch run again after a restart: Spark asked the source nothing
            return False
        raise ValueError(
            f"source {number} of {len(progress.sources)} ({source.description}) has no end to wait for"
            if known is None
            else f"source {number} of {len(progress.sources)} has no end to wait for: set option endingOffsets or "
            "endingTimestamp, or give a deserializer that has is_end_of_stream, and do not switch reportMetrics off"
        )
    return all(each.finished for each in metrics.values())


def _last_progress(query: Any) -> StreamingQueryProgress | None:
    try:
        progress: StreamingQueryProgress | None = query.lastProgress
    except KeyError:  # PySpark cannot read a progress whose rates are not numbers: a trigger of no time at all
        return None
    return progress


def _called(query: Any) -> str:
    return f"query {query.name or query.id}"


def _where(progress: StreamingQueryProgress | None) -> str:
    if progress is None:
        return "it has reported no progress yet"
    places = [
        f"{partition} at {partition.current_offset}"
        for source in source_metrics(progress).values()
        if not source.finished
        for partition in source.partitions
    ]
    shown = ", ".join(places[:10]) + (f" and {len(places) - 10} more" if len(places) > 10 else "")
    return f"after batch {progress.batchId} it was at {shown or 'the beginning'}"
