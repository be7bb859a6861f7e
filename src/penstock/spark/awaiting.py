"""`await_end`: stops a streaming query when it has reached the end that its options or its deserializer set.

A source cannot end a query, which would poll forever. So the source reports in its progress that it has finished, and
`await_end` stops the query.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress

from penstock.errors import UnsupportedSpark
from penstock.spark.api import reports_ends
from penstock.spark.listener import source_metrics

POLL_SECONDS = 0.1


def await_end(query: Any, timeout: float | None = None) -> bool:
    """Wait until a query with `endingOffsets`, `endingTimestamp` or a deserializer with `is_end_of_stream` has reached
    its end, and stop it.

        stream = spark.readStream.format("penstock").option("endingTimestamp", 1738324800000)...
        query = stream.load().writeStream...start()
        await_end(query)

    When this returns, the last batch is in the sink and in the checkpoint, batches that Spark runs without data (to
    close windows) are done, and the offsets are committed to the consumer group. Returns True if the query reached its
    end, and False if it terminated before: because it was stopped, or Trigger.AvailableNow had read all available
    records. Raises the query's exception if it failed, ValueError if it has no end, and TimeoutError after `timeout`
    seconds; the query then continues. Raises UnsupportedSpark before Spark 4.2.

    Works with a classic session and through Spark Connect. It returns after the trigger that follows the last one with
    data. If the end is found without new data (Spark replayed the last batch after a restart, or an ending time has
    passed), it may take `spark.sql.streaming.noDataProgressEventInterval` (10 s) longer: Spark reports an idle query
    only that often.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while not _at_end(progress := _last_progress(query)):
        if _ended(query, deadline):
            return _at_end(_last_progress(query))
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError(f"{_called(query)} did not reach its end within {timeout:g} s: {_where(progress)}")
    idle = threading.Event()
    # `processAllAvailable` has no timeout: it runs in a thread, which ends with the query.
    threading.Thread(target=_await_idle, args=(query, idle), name="penstock-await-end", daemon=True).start()
    while not idle.wait(POLL_SECONDS):
        if _ended(query, deadline):
            return True
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError(f"{_called(query)} has read everything, but did not become idle within {timeout:g} s")
    if not _ended(query, deadline):
        query.stop()
    return True


def _ended(query: Any, deadline: float | None) -> bool:
    """Whether the query has terminated, after a short wait. Raises its exception if it failed."""
    left = POLL_SECONDS if deadline is None else min(POLL_SECONDS, deadline - time.monotonic())
    return bool(query.awaitTermination(max(0.001, left)))


def _await_idle(query: Any, idle: threading.Event) -> None:
    # `_ended` raises the failure of the query.
    with contextlib.suppress(Exception):
        query.processAllAvailable()
    idle.set()


def _at_end(progress: StreamingQueryProgress | None) -> bool:
    """Whether all sources have finished. Spark reports progress only after the batch is in the commit log."""
    if progress is None:
        return False
    metrics = source_metrics(progress)
    for number, source in enumerate(progress.sources):
        known = metrics.get(number)
        if known is not None and known.finished is not None:
            continue
        if not reports_ends(source.description):
            raise UnsupportedSpark(
                "await_end needs Spark 4.2: before, a source in Python cannot report that it has finished",
                "Use Trigger.AvailableNow, or stop the query yourself",
            )
        if source.latestOffset in ("None", "null"):  # a replayed batch: Spark has not asked the source
            return False
        raise ValueError(
            f"source {number} of {len(progress.sources)} ({source.description}) has no end to wait for"
            if known is None
            else f"source {number} of {len(progress.sources)} has no end to wait for: set option endingOffsets or "
            "endingTimestamp, or use a deserializer with is_end_of_stream; and do not set reportMetrics to false"
        )
    return all(each.finished for each in metrics.values())


def _last_progress(query: Any) -> StreamingQueryProgress | None:
    try:
        progress: StreamingQueryProgress | None = query.lastProgress
    except KeyError:  # PySpark cannot parse a progress whose rates are not numbers, of a trigger of 0 ms
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
