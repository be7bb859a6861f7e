"""`LagListener`: reports the lag of streaming queries to Python, to the log and to Prometheus (F26)."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from penstock.errors import UnknownQuery
from penstock.masking import get_logger
from penstock.metrics.sink import SinkMetrics
from penstock.metrics.source import SourceMetrics
from penstock.spark.api import reports_ends
from penstock.spark.query_history import QueryHistory
from penstock.watch.query_report import QueryReport

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

    from penstock.spark.live_cell import LiveCell
    from penstock.spark.query_page import QueryPage

log = get_logger("penstock.lag")
Number = TypeVar("Number", int, float)

ENDED_KEPT = 100
"""How many terminated queries keep their last values: a run with Trigger.AvailableNow ends before it is looked at."""


@dataclass(slots=True)
class _Watched:
    """A query as of its last progress. Guarded by the listener's lock."""

    id: str
    run_id: str
    name: str
    history: QueryHistory
    sources: dict[int, SourceMetrics] = field(default_factory=dict)
    sink: SinkMetrics | None = None
    """None before the first progress."""
    ended: bool = False
    logged_at: float | None = None


class LagListener(StreamingQueryListener):
    """Watches the streaming queries of a session that read Kafka, through Penstock or through Spark's own source.

        listener = LagListener()
        spark.streams.addListener(listener)
        query = stream.writeStream.queryName("orders").start(...)
        ...
        listener.lag("orders")                  # 1234: records behind, all partitions together
        for source in listener.metrics("orders"):
            source.bytes_per_second             # 5300000.0
            source.commits_failed               # 0
            for partition in source.partitions:
                partition.lag, partition.current_offset, partition.committed_offset

    It logs one line per query to the logger `penstock.lag` (INFO), at most every `log_interval` seconds (None: never).
    Where the program has not configured logging, the lines go to standard error:

        query orders: 1,234 records behind in 8 partitions (worst orders-3: 900), 52,300 records/s, 5.3 MB/s,
        52,300 rows/s written, committed 12 times (0 failed)

    `prometheus=True` registers the metrics of `penstock.metrics.source` and `penstock.metrics.sink` in the default
    registry, a `CollectorRegistry` in that one. Serve it with `prometheus_client.start_http_server(8000)`. A query's
    series end with the query.

    `page=True` starts a page server in this process, on a free port of loopback, and logs its address, which is also
    `listener.page`. It shows the queries live: rates, the time of triggers, lag, watermarks, batches, errors. An
    address, such as `page="http://127.0.0.1:8765"`, shows them on the page of a running `penstock watch`; if that
    requires a token, give the whole URL that it has printed.

    In a notebook, a cell that ends with `listener` shows the queries and follows them.

    Values are those of the query's last progress: lag is what its last planned batch left. Spark updates them in a
    thread of its own. The class works with a classic session and through Spark Connect.
    """

    def __init__(
        self,
        *,
        log_interval: float | None = 10.0,
        prometheus: bool | CollectorRegistry = False,
        page: bool | str = False,
    ) -> None:
        self._log_interval = log_interval
        self._lock = threading.Lock()
        self._queries: dict[str, _Watched] = {}
        self._made_in = _active_session()
        self._unregister: Callable[[], None] | None = None
        if prometheus is not False:
            from penstock.metrics.prometheus import register

            self._unregister = register(None if prometheus is True else prometheus, self._series, self._sinks)
        self._cell: LiveCell | None = None
        self._page: QueryPage | None = None
        if page is not False:
            from penstock.spark.query_page import open_page

            self._page = open_page(page)
        if log_interval is not None or page is True:
            show_on_stderr(log)
        if page is True and self._page is not None:
            log.info("queries are shown at %s", self._page.url)

    # --- called by any thread -----------------------------------------------------------------------------------------

    def metrics(self, query: Any) -> tuple[SourceMetrics, ...]:
        """The newest metrics of a query, one entry for each Kafka source it reads, in Spark's order.

        `query` is a StreamingQuery, or its name or id. Empty before its first progress. Raises UnknownQuery for a name
        or id that the listener has not seen.
        """
        watched = self._watched(query)
        with self._lock:
            return () if watched is None else tuple(watched.sources.values())

    def sink(self, query: Any) -> SinkMetrics | None:
        """What the sink of a query has written; None before its first progress. Raises UnknownQuery as `metrics`."""
        watched = self._watched(query)
        with self._lock:
            return None if watched is None else watched.sink

    def lag(self, query: Any) -> int | None:
        """The lag of the query in records, over all its Kafka sources; None while unknown. Raises UnknownQuery as
        `metrics`."""
        return _total(source.lag for source in self.metrics(query))

    @property
    def page(self) -> str | None:
        """The address of the page that shows the queries; None without a page."""
        return None if self._page is None else self._page.url

    def close(self) -> None:
        """Unregister from Prometheus, so that another listener can use the registry. Close the page of this process,
        and end the updates of live cells.
        """
        unregister, self._unregister = self._unregister, None
        if unregister is not None:
            unregister()
        page, self._page = self._page, None
        if page is not None:
            page.close()
        cell, self._cell = self._cell, None
        if cell is not None:
            cell.close()

    def _ipython_display_(self) -> None:
        """Display the queries in a notebook, live."""
        from penstock.spark.live_cell import LiveCell

        if self._cell is None:
            self._cell = LiveCell(self._reports, lambda: self.page)
        self._cell.display()

    def _repr_html_(self) -> str:
        """The queries at this moment, for notebooks that do not call `_ipython_display_`."""
        from penstock.spark.live_cell import as_html

        return as_html(self._reports(), self.page)

    def _reports(self) -> list[QueryReport]:
        with self._lock:
            return [each.history.report for each in self._queries.values()]

    # --- called by Spark's listener thread: must not raise ------------------------------------------------------------

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        query_id, run_id = str(event.id), str(event.runId)
        with self._lock:
            known = self._queries.get(query_id)
            if known is None or known.run_id != run_id:
                known = self._watch(query_id, run_id, event.name, event.timestamp)
            report = known.history.report
        self._show(report)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        try:
            self._take(event.progress)
        except Exception:
            log.exception("cannot read the progress of a query; the query is not affected")

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """An idle query has no progress event, but Spark updates its last progress: with commits and lag."""
        try:
            progress = self._last_progress(str(event.id))
            if progress is not None and str(progress.runId) == str(event.runId):
                self._take(progress)
            else:
                self._rest(str(event.id))
        except Exception:
            log.exception("cannot read the progress of an idle query; the query is not affected")

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        with self._lock:
            watched = self._queries.get(str(event.id))
            # A restarted query has the same id, and its first progress may come before this event.
            if watched is None or watched.run_id != str(event.runId):
                return
            watched.ended = True
            report = watched.history.ended(event.exception)
            ended = [each.id for each in self._queries.values() if each.ended]
            for each in ended[:-ENDED_KEPT]:
                del self._queries[each]
        self._show(report)

    def _take(self, progress: StreamingQueryProgress) -> None:
        query_id, run_id = str(progress.id), str(progress.runId)
        sources = source_metrics(progress)
        with self._lock:
            known = self._queries.get(query_id)
            if known is None or known.run_id != run_id:
                known = self._watch(query_id, run_id, progress.name)
            known.sources = sources
            sink = known.sink or SinkMetrics()
            known.sink = sink.after(progress.batchId, progress.sink.numOutputRows, progress.batchDuration)
            report = known.history.progressed(progress, sources, known.sink)
            line = self._line(known)
        self._show(report)
        if line is not None:
            log.info(line)

    def _show(self, report: QueryReport) -> None:
        page, cell = self._page, self._cell
        if page is not None:
            page.put(report)
        if cell is not None:
            cell.changed()

    def _watch(self, query_id: str, run_id: str, name: str | None, started: str | None = None) -> _Watched:
        self._queries.pop(query_id, None)  # the newest come last
        history = QueryHistory(query_id, run_id, name, started)
        watched = self._queries[query_id] = _Watched(query_id, run_id, name or query_id, history)
        return watched

    def _rest(self, query_id: str) -> None:
        """Set the rates of an idle query to 0 if Spark has no newer progress."""
        report = None
        with self._lock:
            if (watched := self._queries.get(query_id)) is not None:
                report = watched.history.rested()
                watched.sources = {
                    number: replace(metrics, num_input_rows=0, records_per_second=0.0, bytes_per_second=0.0)
                    for number, metrics in watched.sources.items()
                }
                if watched.sink is not None:
                    watched.sink = replace(watched.sink, records_per_second=0.0)
        if report is not None:
            self._show(report)

    def _line(self, watched: _Watched) -> str | None:
        """The line to log, if the interval has passed."""
        now = time.monotonic()
        if self._log_interval is None or not watched.sources:
            return None
        if watched.logged_at is not None and now - watched.logged_at < self._log_interval:
            return None
        watched.logged_at = now
        return describe(watched.name, tuple(watched.sources.values()), watched.sink)

    def _watched(self, query: Any) -> _Watched | None:
        """What is known about a query; None if that is nothing yet. Raises UnknownQuery for a name or id that neither
        the listener nor its session knows."""
        with self._lock:
            watched = self._find(query)
            known = [each.name for each in self._queries.values()]
        if watched is not None or not isinstance(query, str) or query in self._running():
            return watched
        raise UnknownQuery(query, known)

    def _running(self) -> set[str]:
        """Names and ids of the session's queries. One of them may have started before the listener was added."""
        session = self._session
        try:
            active = [] if session is None else session.streams.active
        except Exception:  # the session has been stopped, and has no queries
            return set()
        return {str(each.id) for each in active} | {each.name for each in active if each.name}

    def _find(self, query: Any) -> _Watched | None:
        if not isinstance(query, str):
            return self._queries.get(str(query.id))
        named = [watched for watched in self._queries.values() if watched.name == query]
        return self._queries.get(query) or (named[-1] if named else None)

    def _series(self) -> dict[tuple[str, str], SourceMetrics]:
        with self._lock:
            return {
                (watched.name, str(number)): metrics
                for watched in self._queries.values()
                if not watched.ended
                for number, metrics in watched.sources.items()
            }

    def _sinks(self) -> dict[tuple[str], SinkMetrics]:
        with self._lock:
            return {
                (watched.name,): watched.sink
                for watched in self._queries.values()
                if not watched.ended and watched.sources and watched.sink is not None
            }

    @property
    def _session(self) -> SparkSession | None:
        return self.spark or self._made_in  # only Connect sets `spark`

    def _last_progress(self, query_id: str) -> StreamingQueryProgress | None:
        session = self._session
        query = None if session is None else session.streams.get(query_id)
        return None if query is None else query.lastProgress


class StderrHandler(logging.Handler):
    """Writes to standard error until the program configures logging."""

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__()
        self._parent = logger.parent

    def emit(self, record: logging.LogRecord) -> None:
        if self._parent is None or not self._parent.hasHandlers():
            # Not kept: a notebook replaces the stream for each cell.
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()


def show_on_stderr(logger: logging.Logger) -> None:
    """Show a logger's INFO lines, unless the program has configured a handler for them."""
    if logger.hasHandlers():
        return
    handler = StderrHandler(logger)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    logger.addHandler(handler)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)


def source_metrics(progress: StreamingQueryProgress) -> dict[int, SourceMetrics]:
    """The metrics of the Kafka sources of a progress, by the source's number in the query."""
    found = (
        SourceMetrics.from_progress(
            source.startOffset,
            source.endOffset,
            source.latestOffset if reports_ends(source.description) else None,
            source.numInputRows,
            progress.batchDuration,
            progress.timestamp,
        )
        for source in progress.sources
    )
    return {number: metrics for number, metrics in enumerate(found) if metrics is not None}


def describe(name: str, sources: Sequence[SourceMetrics], sink: SinkMetrics | None = None) -> str:
    """One line about the sources and the sink of a query."""
    lag = _total(source.lag for source in sources)
    count = sum(len(source.partitions) for source in sources)
    text = "lag unknown" if lag is None else f"{lag:,} {'record' if lag == 1 else 'records'} behind"
    text += f" in {count} {'partition' if count == 1 else 'partitions'}"
    worst = max((each for s in sources if (each := s.worst) is not None), key=lambda each: each.lag or 0, default=None)
    if worst is not None and worst.lag:
        text += f" (worst {worst}: {worst.lag:,})"
    parts = [text]
    records = _total(source.records_per_second for source in sources)
    if records is not None:
        parts.append(f"{records:,.0f} records/s")
    size = _total(source.bytes_per_second for source in sources)
    if size is not None:
        parts.append(_rate(size))
    if sink is not None and sink.records_per_second:
        parts.append(f"{sink.records_per_second:,.0f} rows/s written")
    succeeded = _total(source.commits_succeeded for source in sources)
    failed = _total(source.commits_failed for source in sources)
    if succeeded or failed:
        parts.append(f"committed {succeeded or 0:,} times ({failed or 0:,} failed)")
    lost = _total(source.lost_ranges for source in sources)
    if lost:
        parts.append(f"{lost:,} ranges lost")
    malformed = _total(source.malformed_records for source in sources)
    if malformed:
        dropped = _total(source.dropped_records for source in sources) or 0
        letters = _total(source.dead_letters for source in sources) or 0
        parts_of = [f"{count:,} {where}" for count, where in ((dropped, "dropped"), (letters, "dead letters")) if count]
        parts.append(f"{malformed:,} malformed" + (f" ({', '.join(parts_of)})" if parts_of else ""))
    skipped = _total(source.skipped_records for source in sources)
    if skipped:
        parts.append(f"{skipped:,} skipped")
    throttled = sum(worker.throttle_seconds for source in sources for worker in source.workers)
    if throttled:
        parts.append(f"throttled for {_duration(throttled) if throttled >= 1 else f'{throttled:.2f} s'}")
    retries = sum(worker.retries for source in sources for worker in source.workers)
    if retries:
        parts.append(f"{retries:,} {'retry' if retries == 1 else 'retries'}")
    parts += _event_time(sources)
    return f"query {name}: " + ", ".join(parts)


def _event_time(sources: Sequence[SourceMetrics]) -> list[str]:
    """The event-time watermark of the source that is furthest behind, and idle, held and late counts."""
    parts = []
    slowest = min(
        (source for source in sources if source.watermark is not None), key=lambda s: s.watermark or 0, default=None
    )
    if slowest is not None and slowest.watermark is not None:
        parts.append(f"event-time watermark {_moment(slowest.watermark)}")
        if (lag := slowest.event_time_lag) is not None:
            parts[-1] += f" ({_duration(abs(lag))} {'behind' if lag >= 0 else 'ahead'})"
    partitions = [partition for source in sources for partition in source.partitions]
    for count, what in (
        (sum(partition.idle or False for partition in partitions), "idle"),
        (sum(partition.held or False for partition in partitions), "held back"),
        (_total(source.late_records for source in sources), "late"),
    ):
        if count:
            parts.append(f"{count:,} {what}")
    return parts


def _moment(milliseconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(milliseconds // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):  # beyond the calendar: a producer's clock is wrong
        return f"{milliseconds:,} ms"


def _duration(seconds: float) -> str:
    for unit, factor in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * factor:
            return f"{seconds / factor:,.0f} {unit}"
    return f"{seconds:.0f} s"


def _rate(size: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}/s"
    return f"{size:.0f} B/s"


def _total(values: Iterable[Number | None]) -> Number | None:
    """The sum of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _active_session() -> SparkSession | None:
    try:
        return SparkSession.getActiveSession()
    except Exception:  # no session, or a closed remote one: Connect may still set its own
        return None
