"""The newest records of a topic for `penstock watch`: reads backwards, within limits of time, records and bytes."""

from __future__ import annotations

import codecs
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from penstock.cli.records import moment
from penstock.cli.topic_offsets import TopicOffsets
from penstock.config.source import SourceOptions, parse_options
from penstock.errors import OptionError
from penstock.formats.plan import TypedPlan, raw_source
from penstock.model.offset_range import OffsetRange
from penstock.model.topic_partition import TopicPartition
from penstock.reader.task import read_range
from penstock.watch.search import Cut, SearchRequest, SearchResult, ShownRecord

COLUMNS = ["partition", "offset", "timestamp", "key", "value", "headers"]

SHOWN_BYTES = 8 * 1024
"""Of a key, a value or a header. 200 records of that size are an answer of a few MB."""
FIRST_WINDOW, LARGEST_WINDOW = 1_000, 100_000
"""Offsets of each partition that a search with a predicate reads in its first step, and in later ones at most."""
NEWEST_OFFSETS = 2_000
"""Offsets that are read over all partitions if there is no predicate, unless more records are asked for."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    seconds: float = 10.0
    records: int = 2_000_000
    size: int = 256 * 1024 * 1024
    """Bytes of the batches that are shown from. Without a predicate these are all that are read."""


class NewestRecords:
    """Called by threads of the page's server, several at the same time."""

    def __init__(
        self,
        given: Mapping[str, str],
        limits: SearchLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`given`: the options of the command line."""
        self._given = dict(given)
        self._limits = limits or SearchLimits()
        self._clock = clock

    def __call__(self, request: SearchRequest) -> SearchResult:
        given = self._given | {"subscribe": request.topic}
        if request.where is not None:
            given["where"] = request.where
        options = parse_options(given)
        if options.formats.typed:
            raise OptionError("valueFormat", None, "is not for penstock watch, which shows values as text")
        columns: Sequence[str] | TypedPlan = COLUMNS
        if options.where is not None:
            source = raw_source()
            columns = source.select(COLUMNS, where=source.parse_where(options.where))
        wanted = None if request.partition is None else [request.partition]
        offsets = TopicOffsets(options, request.topic, wanted)
        return _Run(options, offsets, columns, request.limit, self._limits, self._clock).result()


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
    """With their timestamps in microseconds."""
    scanned: int = 0
    size: int = 0
    stopped: str | None = None

    def result(self) -> SearchResult:
        began = self.clock()
        deadline = began + self.limits.seconds
        partitions = self.offsets.partitions
        begins = self.offsets.cluster.begin(partitions)
        position = self.offsets.cluster.end(partitions)
        window = self._first_window(len(partitions))
        while self.stopped is None and len(self.found) < self.limit:
            left = [tp for tp in partitions if position[tp] > begins[tp]]
            if not left:
                break
            for tp in left:
                start = max(begins[tp], position[tp] - window)
                self.stopped = self._read(tp, start, position[tp], deadline)
                position[tp] = start
                if self.stopped is not None:
                    break
            window = min(window * 4, LARGEST_WINDOW)
        self.found.sort(key=lambda each: (-each[0], each[1].partition, -each[1].offset))
        newest = tuple(record for _, record in self.found[: self.limit])
        return SearchResult(newest, self.scanned, self.clock() - began, self.stopped)

    def _first_window(self, partitions: int) -> int:
        if isinstance(self.columns, TypedPlan):
            return FIRST_WINDOW
        return max(1, min(self.limit, max(NEWEST_OFFSETS, self.limit) // max(partitions, 1)))

    def _read(self, tp: TopicPartition, start: int, stop: int, deadline: float) -> str | None:
        """Add the last matches of a range. Returns the limit that was reached."""
        range_ = OffsetRange(tp.topic, tp.partition, start, stop, self.offsets.topic.topic_id)
        last: deque[tuple[int, ShownRecord]] = deque(maxlen=self.limit)
        batches = read_range(range_, self.columns, self.options, on_read=lambda rows: self._count(rows, deadline))
        try:
            for batch in batches:
                self.size += batch.nbytes
                last.extend(_shown(batch.slice(max(0, batch.num_rows - self.limit))))
        except _LimitReached as reached:
            return str(reached)
        finally:
            batches.close()
            self.found.extend(last)
        return self._reached(deadline)

    def _count(self, rows: int, deadline: float) -> None:
        """Called before a batch is filtered: a predicate that nothing meets gives no batch for a long time."""
        if reached := self._reached(deadline):
            raise _LimitReached(reached)
        self.scanned += rows

    def _reached(self, deadline: float) -> str | None:
        limits = self.limits
        if self.clock() >= deadline:
            return f"the limit of {limits.seconds:g} s is reached"
        if self.scanned >= limits.records:
            return f"the limit of {limits.records:,} records is reached"
        if self.size >= limits.size:
            return f"the limit of {limits.size >> 20:,} MB is reached"
        return None


def _shown(batch: pa.RecordBatch) -> list[tuple[int, ShownRecord]]:
    if batch.num_rows == 0:
        return []
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    keys, values = _cuts(batch.column("key")), _cuts(batch.column("value"))
    headers = batch.column("headers").to_pylist()
    rows = zip(
        *(batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), times, keys, values, headers),
        strict=True,
    )
    return [
        (
            at or 0,
            ShownRecord(
                *(partition, offset, moment(at), key, value),
                tuple((each["key"][:SHOWN_BYTES], cut(each["value"])) for each in (named or ())[:50]),
            ),
        )
        for partition, offset, at, key, value, named in rows
    ]


def _cuts(column: pa.Array) -> list[Cut]:
    """Only the beginning of a large value becomes a Python object."""
    sizes = pc.binary_length(column).to_pylist()
    starts = pc.binary_slice(column, 0, SHOWN_BYTES).to_pylist()
    return [_cut(start, size) for start, size in zip(starts, sizes, strict=True)]


def cut(data: bytes | None) -> Cut:
    return _cut(None if data is None else data[:SHOWN_BYTES], None if data is None else len(data))


def _cut(start: bytes | None, size: int | None) -> Cut:
    if start is None or size is None:
        return Cut(None, None)
    # A character that is cut at the end is left out. Other bytes that are not UTF-8 are escaped.
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    return Cut(decoder.decode(start, final=len(start) == size), size, len(start) < size)
