"""The newest records of a topic for `penstock watch`: reads backwards, within limits of time, records and bytes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.cli.newest_first import NewestFirst, Window
from penstock.cli.shown_records import COLUMNS, TYPED_COLUMNS, shown
from penstock.cli.topic_offsets import TopicOffsets
from penstock.cli.topic_options import TopicOptions
from penstock.config.source import SourceOptions, parse_options
from penstock.formats.plan import TypedPlan, raw_source
from penstock.model.offset_range import OffsetRange
from penstock.reader.task import read_range
from penstock.sampling.typed_source import typed_source
from penstock.watch.search import SearchRequest, SearchResult, ShownRecord

FIRST_WINDOW, LARGEST_WINDOW = 1_000, 100_000
"""Offsets that a search with a predicate reads of a partition at a time: first, and later at most."""
NEWEST_OFFSETS = 2_000
"""The first windows of all partitions together if there is no predicate, unless more records are asked for."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    seconds: float = 10.0
    records: int = 2_000_000
    size: int = 1024 * 1024 * 1024
    """Bytes of the columns that are read, whether they match or not. They are not kept."""


class NewestRecords:
    """Called by threads of the page's server, several at the same time."""

    def __init__(
        self,
        topics: TopicOptions,
        limits: SearchLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._topics = topics
        self._limits = limits or SearchLimits()
        self._clock = clock

    def __call__(self, request: SearchRequest) -> SearchResult:
        given = self._topics.of(request.topic)
        if request.where is not None:
            given["where"] = request.where
        options = parse_options(given)
        wanted = None if request.partition is None else [request.partition]
        offsets = TopicOffsets(options, request.topic, wanted)
        return _Run(options, offsets, _columns(options), request.limit, self._limits, self._clock).result()


def _columns(options: SourceOptions) -> Sequence[str] | TypedPlan:
    """Formats are resolved for each search: a registry may have a newer schema by now."""
    if not options.formats.typed and options.where is None:
        return COLUMNS
    source = typed_source(options) if options.formats.typed else raw_source()
    names = TYPED_COLUMNS if options.formats.typed else COLUMNS
    return source.select(names, where=source.parse_where(options.where))


class _LimitReached(Exception):
    """Ends the reading of a range."""


@dataclass(slots=True)
class _Run:
    """One search."""

    options: SourceOptions
    offsets: TopicOffsets
    columns: Sequence[str] | TypedPlan
    limit: int
    limits: SearchLimits
    clock: Callable[[], float]
    found: list[tuple[int, ShownRecord]] = field(default_factory=list)
    """The newest `limit` matches so far, the newest first, with their timestamps in microseconds."""
    scanned: int = 0
    size: int = 0
    stopped: str | None = None

    def result(self) -> SearchResult:
        began = self.clock()
        deadline = began + self.limits.seconds
        order = self._order()
        while self.stopped is None and not self._is_complete(order.newest_unread):
            window = order.next()
            if window is None:
                break
            order.was_read(window, self._read(window, deadline))
        records = tuple(record for _, record in self.found)
        return SearchResult(records, self.scanned, self.clock() - began, self.stopped)

    def _order(self) -> NewestFirst:
        cluster, partitions = self.offsets.cluster, self.offsets.partitions
        ends = cluster.end(partitions)
        begins = cluster.begin(partitions)
        latest = {tp: None if at is None else at * 1000 for tp, at in cluster.largest_times(partitions).items()}
        if self.options.where is not None:
            return NewestFirst(begins, ends, latest, FIRST_WINDOW, LARGEST_WINDOW)
        share = max(NEWEST_OFFSETS, self.limit) // max(len(partitions), 1)
        return NewestFirst(begins, ends, latest, max(1, min(self.limit, share)), LARGEST_WINDOW)

    def _is_complete(self, newest_unread: float | None) -> bool:
        return newest_unread is not None and len(self.found) == self.limit and self.found[-1][0] >= newest_unread

    def _read(self, window: Window, deadline: float) -> int | None:
        """Add the matches of a window. Returns the timestamp of its first record."""
        tp, start, stop = window
        range_ = OffsetRange(tp.topic, tp.partition, start, stop, self.offsets.topic.topic_id)
        last: deque[tuple[int, ShownRecord]] = deque(maxlen=self.limit)
        first_time: int | None = None

        def count(batch: pa.RecordBatch) -> None:
            """Called before a batch is filtered: a predicate that nothing meets gives no batch for a long time."""
            nonlocal first_time
            if first_time is None and batch.num_rows:
                first_time = batch.column("timestamp").view(pa.int64())[0].as_py()
            if reached := self._reached(deadline):
                raise _LimitReached(reached)
            self.scanned += batch.num_rows
            self.size += batch.nbytes

        batches = read_range(range_, self.columns, self.options, on_read=count)
        try:
            for batch in batches:
                last.extend(shown(batch.slice(max(0, batch.num_rows - self.limit))))
            self.stopped = self._reached(deadline)
        except _LimitReached as reached:
            self.stopped = str(reached)
        finally:
            batches.close()
        self.found = sorted([*self.found, *last], key=_newest_first)[: self.limit]
        return first_time

    def _reached(self, deadline: float) -> str | None:
        limits = self.limits
        if self.clock() >= deadline:
            return f"the limit of {limits.seconds:g} s is reached"
        if self.scanned >= limits.records:
            return f"the limit of {limits.records:,} records is reached"
        if self.size >= limits.size:
            return f"the limit of {limits.size >> 20:,} MB is reached"
        return None


def _newest_first(found: tuple[int, ShownRecord]) -> tuple[int, int, int]:
    at, record = found
    return -at, record.partition, -record.offset
