"""Reads a topic for a command, and shows how far it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pyarrow as pa

from penstock.cli.positions import Position
from penstock.cli.topic_offsets import TopicOffsets
from penstock.config.source import SourceOptions
from penstock.formats.plan import TypedPlan
from penstock.model.offset_range import OffsetRange
from penstock.model.topic_partition import TopicPartition
from penstock.progress import Progress
from penstock.reader.task import read_range

FOLLOW_PAUSE = 0.5
PROGRESS_PAUSE = 0.2


class TopicReader:
    """Reads a topic up to its present end, and with --follow up to the next ends."""

    def __init__(
        self, options: SourceOptions, topic: str, partitions: list[int] | None, columns: list[str] | TypedPlan
    ) -> None:
        self._options = options
        self._columns = columns
        self._offsets = TopicOffsets(options, topic, partitions)
        self._partitions = self._offsets.partitions
        self._ended: set[TopicPartition] = set()
        """Partitions that a user's own class has ended (F4)."""
        self._filters = isinstance(columns, TypedPlan) and columns.where is not None
        self.scan = Scan(filters=self._filters)
        self.interrupted = False
        """Whether Ctrl-C has ended the reading."""

    def batches(self, start: Position, until: Position, follow: bool, limit: int | None) -> Iterator[pa.RecordBatch]:
        """Batches of at most `limit` rows in total. If rows are filtered, a limit of 0 counts them, without any batch.
        Ctrl-C while a batch is awaited ends them, so that a caller can show or save what it has."""
        try:
            yield from self._batches(start, until, follow, limit)
        except KeyboardInterrupt:
            self.interrupted = True

    def _batches(self, start: Position, until: Position, follow: bool, limit: int | None) -> Iterator[pa.RecordBatch]:
        # The ends first: records that are produced during the lookup of the start belong to the next round.
        stops = self._offsets.at(until, ending=True)
        positions = self._offsets.at(start)
        left = sys.maxsize if limit is None else limit
        if left == 0 and not self._filters:
            return
        while True:
            with self.scan.upto(sum(max(stops[tp] - positions[tp], 0) for tp in stops)):
                for tp in self._partitions:
                    for batch in self._read(tp, positions[tp], stops[tp]):
                        part = batch.slice(0, left)
                        left -= part.num_rows
                        self.scan.passed += part.num_rows if limit else batch.num_rows
                        if part.num_rows:
                            self.scan.hide()
                            yield part
                        if left == 0 and limit:
                            return
            self._partitions = [tp for tp in self._partitions if tp not in self._ended]
            if not follow or not self._partitions:
                return
            # A truncated partition, whose end is before the position, is followed from its new end.
            positions = stops
            time.sleep(FOLLOW_PAUSE)
            stops = self._offsets.cluster.end(self._partitions)

    def _read(self, tp: TopicPartition, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        if start >= stop:
            return
        range_ = OffsetRange(tp.topic, tp.partition, start, stop, self._offsets.topic.topic_id)
        yield from read_range(
            range_,
            self._columns,
            self._options,
            on_end=lambda _: self._ended.add(tp),
            on_read=lambda batch: self.scan.count(tp, batch.num_rows),
        )


class Scan:
    """Counts records, and shows the counts in a line that is removed at the end.

    The line is shown while standard output is not the terminal. If rows are filtered, also on a terminal: minutes can
    pass before the next row.
    """

    def __init__(self, *, filters: bool) -> None:
        self._filters = filters
        self.read = 0
        self.passed = 0
        self._total = 0
        self._began = self._due = time.monotonic()
        self._progress = Progress()
        self._shows = filters or not sys.stdout.isatty()

    def count(self, tp: TopicPartition, rows: int) -> None:
        self.read += rows
        now = time.monotonic()
        if self._shows and now >= self._due:
            self._due = now + PROGRESS_PAUSE
            self._progress.show(self._text(tp, now))

    def _text(self, tp: TopicPartition, now: float) -> str:
        rate = self.read / max(now - self._began, 0.001)
        share = min(self.read / max(self._total, 1), 1)
        matches = f", {matching(self.passed)}" if self._filters else ""
        return f"{self.read:,} records, {share:.0%}, {rate:,.0f} per second{matches}, at {tp}"

    def hide(self) -> None:
        """Remove the line, because a row follows on the same terminal."""
        if sys.stdout.isatty():
            self._progress.hide()

    @property
    def summary(self) -> str:
        seconds = time.monotonic() - self._began
        return f"{matching(self.passed)} among {self.read:,} records in {seconds:.1f} s"

    def upto(self, rows: int) -> Progress:
        """Read so many more records, while the line is shown."""
        self._total += rows
        return self._progress


def matching(count: int) -> str:
    return f"{count:,} {'match' if count == 1 else 'matches'}"
