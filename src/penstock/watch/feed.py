"""Encodes snapshots for browsers, in its own thread."""

from __future__ import annotations

import threading
from collections import OrderedDict
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from penstock.masking import get_logger
from penstock.monitor.snapshot import Snapshot
from penstock.watch.clusters import ClusterRows
from penstock.watch.queries import QueryRegistry
from penstock.watch.rows import (
    Row,
    Source,
    Tables,
    cluster_row,
    compact,
    delta,
    detail,
    detail_delta,
    event,
    full,
    size_of,
    tables_of,
)
from penstock.watch.timeline import Timeline

log = get_logger(__name__)

POLL_SECONDS = 0.5
DETAILS, DETAIL_ROWS = 64, 100_000
"""Topics and groups whose last detail is kept, so that the next one is sent as what has changed, and the rows of all of
them together. They hold the values of a snapshot, some 200 bytes per row."""
QUERIES = 16
"""Encoded details of queries that are kept until the next report."""


class Seen(NamedTuple):
    """The numbers of the last events that a browser got."""

    snapshot: int = 0
    queries: int = 0
    clusters: int = 0


class Snapshots(Protocol):
    """What the feed needs of a `Collector`."""

    def wait_for(self, after: int, timeout: float) -> Snapshot | None: ...


class _Detail:
    """A topic or group that browsers look at, encoded once for each snapshot."""

    def __init__(self, number: int, source: Source, before: _Detail | None) -> None:
        self.number = number
        self.source = source
        self._base = 0 if before is None else before.number
        self._before = None if before is None else before.source
        self._full: bytes | None = None
        self._delta: bytes | None = None

    def after(self, since: int, more: Row) -> bytes:
        """`more`: values that are sent whole."""
        if self._before is not None and since == self._base:
            self._delta = compact(
                {"number": self.number, "base": since} | detail_delta(self._before, self.source) | more
            ).encode()
            self._before = None
        if self._delta is not None and since == self._base:
            return self._delta
        if self._full is None:
            self._full = compact({"number": self.number} | detail(self.source) | more).encode()
        return self._full


class Feed:
    """The newest snapshot, encoded once: as the rows that changed, and as all rows when the first browser needs them.

    Browsers have no queue. Each asks for what is newer than the last event it got: it gets the changed rows if it
    has the snapshot before, otherwise all rows. So a slow browser skips to the newest snapshot, and costs no memory.

    The rows of streaming queries are an event of their own: all of them, at most two times a second. So are the rows of
    clusters, if there are several.
    """

    def __init__(
        self,
        snapshots: Snapshots | None,
        queries: QueryRegistry | None = None,
        name: str = "",
        *,
        clusters: ClusterRows | None = None,
        allows_writes: bool = False,
    ) -> None:
        """Without snapshots the page shows queries only, without `queries` a cluster only. `name`: what the page calls
        the cluster. `clusters`: the rows of all clusters, if the page has several."""
        self._snapshots = snapshots
        self._queries = queries
        self._clusters = clusters
        self._clusters_number = 0
        self._clusters_event = b""
        self._allows_writes = allows_writes
        if clusters is not None:
            clusters.put(cluster_row(name, None))
        self._queries_number = 0
        self._queries_event = b""
        self._name = name
        self._query_details: OrderedDict[str, bytes] = OrderedDict()
        self._changed = threading.Condition()
        self._closed = False
        self._snapshot: Snapshot | None = None
        self._tables = Tables()
        self._delta = b""
        self._base = 0
        self._full: bytes | None = None
        self._timeline = Timeline()
        self._details: OrderedDict[tuple[str, str], _Detail] = OrderedDict()
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="penstock-watch-feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        return self._closed

    def publish(self, snapshot: Snapshot) -> None:
        """Called by the thread of the feed."""
        tables = tables_of(snapshot, self._name, allows_writes=self._allows_writes)
        if self._clusters is not None:
            self._clusters.put(cluster_row(self._name, tables))
        encoded = event("delta", snapshot.number, delta(self._tables, tables))
        with self._changed:
            self._timeline.learn(snapshot)
            self._base = self._tables.head.get("number", 0)
            self._snapshot, self._tables, self._delta, self._full = snapshot, tables, encoded, None
            self._changed.notify_all()

    def publish_queries(self) -> None:
        """Called by the thread of the feed."""
        if self._queries is None:
            return
        self._queries.sweep()
        number = self._queries.version
        if number == self._queries_number:
            return
        rows = {"has_cluster": self._snapshots is not None, "queries": self._queries.rows()}
        encoded = event("queries", number, rows)
        with self._changed:
            self._queries_number, self._queries_event = number, encoded
            self._query_details.clear()
            self._changed.notify_all()

    def publish_clusters(self) -> None:
        """Called by the thread of the feed."""
        if self._clusters is None or (number := self._clusters.version) == self._clusters_number:
            return
        encoded = event("clusters", number, {"clusters": self._clusters.rows()})
        with self._changed:
            self._clusters_number, self._clusters_event = number, encoded
            self._changed.notify_all()

    def after(self, seen: Seen, timeout: float) -> tuple[Seen, bytes] | None:
        """The event that follows the ones seen, and what is seen then. None if there is none in time, or at the end.
        Any thread may call this."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._has_more(seen), timeout)
            if self._closed or not self._has_more(seen):
                return None
            if self._queries_number > seen.queries:
                return seen._replace(queries=self._queries_number), self._queries_event
            if self._clusters_number > seen.clusters:
                return seen._replace(clusters=self._clusters_number), self._clusters_event
            newest = seen._replace(snapshot=self._number)
            if seen.snapshot and self._base == seen.snapshot:
                return newest, self._delta
            if self._full is None:
                self._full = event("full", self._number, full(self._tables))
            return newest, self._full

    def _has_more(self, seen: Seen) -> bool:
        mine = Seen(self._number, self._queries_number, self._clusters_number)
        return any(one > other for one, other in zip(mine, seen, strict=True))

    @property
    def _number(self) -> int:
        return 0 if self._snapshot is None else self._snapshot.number

    def topic(self, name: str, since: int = 0) -> bytes | None:
        """The partitions of a topic as JSON, or what has changed in them after snapshot `since`; None if the topic does
        not exist."""
        return self._detail("topic", name, since)

    def group(self, name: str, since: int = 0) -> bytes | None:
        """The same of a group: its positions, members and time line."""
        return self._detail("group", name, since)

    def query(self, run_id: str, since: int = 0) -> bytes | None:
        """The last report of a run of a query as JSON; None if it is not known."""
        with self._changed:
            if run_id not in self._query_details:
                found = None if self._queries is None else self._queries.detail(run_id)
                if found is None:
                    return None
                self._query_details[run_id] = compact({"number": self._number} | found).encode()
                if len(self._query_details) > QUERIES:
                    self._query_details.popitem(last=False)
            return self._query_details[run_id]

    def _detail(self, kind: str, name: str, since: int) -> bytes | None:
        with self._changed:
            kept = self._details.pop((kind, name), None)
            if kept is None or kept.number != self._number:
                source = self._source(kind, name)
                if source is None:
                    return None
                kept = _Detail(self._number, source, kept)
            self._details[kind, name] = kept
            while len(self._details) > DETAILS or self._kept_rows() > max(DETAIL_ROWS, size_of(kept.source)):
                self._details.popitem(last=False)
            return kept.after(since, self._timeline.of(name) if kind == "group" else {})

    def _source(self, kind: str, name: str) -> Source | None:
        if self._snapshot is None:
            return None
        sources: tuple[Source, ...] = self._snapshot.topics if kind == "topic" else self._snapshot.groups
        return next((each for each in sources if each.name == name), None)

    def _kept_rows(self) -> int:
        return sum(size_of(each.source) for each in self._details.values())

    def _run(self) -> None:
        number = 0
        try:
            while not self._closed:
                self.publish_queries()
                self.publish_clusters()
                snapshot = self._next_snapshot(number)
                if snapshot is not None:
                    number = snapshot.number
                    self.publish(snapshot)
        except Exception as error:  # a bug: the command ends with it
            log.exception("the page's feed has failed")
            self.failure = error
            with self._changed:
                self._closed = True
                self._changed.notify_all()

    def _next_snapshot(self, number: int) -> Snapshot | None:
        if self._snapshots is not None:
            return self._snapshots.wait_for(number, POLL_SECONDS)
        with self._changed:
            self._changed.wait_for(lambda: self._closed, POLL_SECONDS)
        return None
