"""Encodes snapshots for browsers, in its own thread."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from penstock.masking import get_logger
from penstock.monitor.snapshot import Snapshot
from penstock.watch.queries import QueryRegistry
from penstock.watch.rows import Tables, compact, delta, event, full, group_detail, tables_of, topic_detail
from penstock.watch.timeline import Timeline

log = get_logger(__name__)

POLL_SECONDS = 0.5
DETAILS = 64
"""Encoded details of topics, groups and queries that are kept until the next snapshot, or the next report."""


class Seen(NamedTuple):
    """The numbers of the last events that a browser got."""

    snapshot: int = 0
    queries: int = 0


class Snapshots(Protocol):
    """What the feed needs of a `Collector`."""

    def wait_for(self, after: int, timeout: float) -> Snapshot | None: ...


class Feed:
    """The newest snapshot, encoded once: as the rows that changed, and as all rows when the first browser needs them.

    Browsers have no queue. Each asks for what is newer than the last event it got: it gets the changed rows if it
    has the snapshot before, otherwise all rows. So a slow browser skips to the newest snapshot, and costs no memory.

    The rows of streaming queries are an event of their own: all of them, at most two times a second.
    """

    def __init__(self, snapshots: Snapshots | None, queries: QueryRegistry | None = None) -> None:
        """Without snapshots the page shows queries only, without `queries` a cluster only."""
        self._snapshots = snapshots
        self._queries = queries
        self._queries_number = 0
        self._queries_event = b""
        self._changed = threading.Condition()
        self._closed = False
        self._snapshot: Snapshot | None = None
        self._tables = Tables()
        self._delta = b""
        self._base = 0
        self._full: bytes | None = None
        self._timeline = Timeline()
        self._details: OrderedDict[tuple[str, str], bytes | None] = OrderedDict()
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
        tables = tables_of(snapshot)
        encoded = event("delta", snapshot.number, delta(self._tables, tables))
        with self._changed:
            self._timeline.learn(snapshot)
            self._base = self._tables.head.get("number", 0)
            self._snapshot, self._tables, self._delta, self._full = snapshot, tables, encoded, None
            self._details.clear()
            self._changed.notify_all()

    def publish_queries(self) -> None:
        """Called by the thread of the feed."""
        if self._queries is None:
            return
        self._queries.sweep()
        number = self._queries.version
        if number == self._queries_number:
            return
        rows = {"has_cluster": self._snapshots is not None, "number": number, "queries": self._queries.rows()}
        encoded = event("queries", number, rows)
        with self._changed:
            self._queries_number, self._queries_event = number, encoded
            for key in [key for key in self._details if key[0] == "query"]:
                del self._details[key]
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
            newest = seen._replace(snapshot=self._number)
            if seen.snapshot and self._base == seen.snapshot:
                return newest, self._delta
            if self._full is None:
                self._full = event("full", self._number, full(self._tables))
            return newest, self._full

    def _has_more(self, seen: Seen) -> bool:
        return self._number > seen.snapshot or self._queries_number > seen.queries

    @property
    def _number(self) -> int:
        return 0 if self._snapshot is None else self._snapshot.number

    def topic(self, name: str) -> bytes | None:
        """The partitions of a topic as JSON; None if it does not exist."""
        return self._detail("topic", name, self._topic)

    def group(self, name: str) -> bytes | None:
        """The positions, members and time line of a group as JSON; None if it does not exist."""
        return self._detail("group", name, self._group)

    def query(self, run_id: str) -> bytes | None:
        """The last report of a run of a query as JSON; None if it is not known."""
        return self._detail("query", run_id, self._query)

    def _query(self, run_id: str) -> dict[str, Any] | None:
        return None if self._queries is None else self._queries.detail(run_id)

    def _topic(self, name: str) -> dict[str, Any] | None:
        topics = () if self._snapshot is None else self._snapshot.topics
        return next((topic_detail(topic) for topic in topics if topic.name == name), None)

    def _group(self, name: str) -> dict[str, Any] | None:
        groups = () if self._snapshot is None else self._snapshot.groups
        return next((group_detail(each) | self._timeline.of(name) for each in groups if each.name == name), None)

    def _detail(self, kind: str, name: str, make: Callable[[str], dict[str, Any] | None]) -> bytes | None:
        with self._changed:
            key = kind, name
            if key not in self._details:
                found = make(name)
                if found is None:
                    return None
                self._details[key] = compact({"number": self._number} | found).encode()
                if len(self._details) > DETAILS:
                    self._details.popitem(last=False)
            return self._details[key]

    def _run(self) -> None:
        number = 0
        try:
            while not self._closed:
                self.publish_queries()
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
