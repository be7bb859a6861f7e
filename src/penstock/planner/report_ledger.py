"""Adds up the reports of a stream's tasks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from penstock.masking import get_logger
from penstock.model.offset_range import OffsetRange
from penstock.model.task_report import TaskReport
from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.model.worker_figures import WorkerFigures

log = get_logger(__name__)

RangeKey: TypeAlias = tuple[TopicPartition, int, int]
"""The partition, start and stop of a task's range."""


WORKERS_KEPT = 100
"""Workers whose figures are kept: those that have reported last. Spark's progress carries all of them."""

WORKER_SECONDS = 600.0
"""A worker that was silent for so long while others have reported is gone."""


@dataclass(frozen=True, slots=True)
class ReportCounts:
    """Sums over the reports of tasks. The fields are those of TaskReport."""

    malformed: int = 0
    dropped: int = 0
    dead_letters: int = 0
    skipped: int = 0
    read: int = 0
    passed: int = 0
    late: int = 0
    lost_ranges: int = 0

    @classmethod
    def of(cls, reports: Collection[TaskReport]) -> ReportCounts:
        """The counts of one batch, with one report for each of its ranges."""
        return cls(
            sum(each.malformed for each in reports),
            sum(each.dropped for each in reports),
            sum(each.dead_letters for each in reports),
            sum(each.skipped for each in reports),
            sum(each.read for each in reports),
            sum(each.passed for each in reports),
            sum(each.late for each in reports),
            _lost_ranges(reports),
        )

    def __add__(self, other: ReportCounts) -> ReportCounts:
        return ReportCounts(
            self.malformed + other.malformed,
            self.dropped + other.dropped,
            self.dead_letters + other.dead_letters,
            self.skipped + other.skipped,
            self.read + other.read,
            self.passed + other.passed,
            self.late + other.late,
            self.lost_ranges + other.lost_ranges,
        )


def _lost_ranges(reports: Iterable[TaskReport]) -> int:
    """How many ranges of logs were lost. Tasks that share a partition may each find a part of the same range."""
    count = 0
    last: tuple[TopicPartition, int] | None = None
    for tp, (start, stop) in sorted((each.topic_partition, each.lost) for each in reports if each.lost is not None):
        if last is None or last[0] != tp or start > last[1]:
            count += 1
        last = tp, stop
    return count


class ReportLedger:
    """The reports of a query's tasks since it started.

    Only ranges of the current batch count, and the last report of each range: Spark retries tasks, runs them twice at
    once (speculation), and may read a batch more than once (foreachBatch). A later report does not take back three
    things. An end: a second reading may have stopped before it. The most dead letters: an attempt reports those that it
    wrote itself, and a second one finds them written. A loss: Spark may use the rows of either attempt.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._workers: dict[str, tuple[float, WorkerFigures]] = {}
        """By worker: when it has reported last, and what. In that order."""
        self._expected: frozenset[RangeKey] = frozenset()
        self._reports: dict[RangeKey, TaskReport] = {}
        """The reports of the current batch."""
        self._settled = ReportCounts()
        """The counts of earlier batches."""
        self._ends: Offsets = {}
        self._updated: set[TopicPartition] = set()
        """Partitions with a report since event times were last taken."""

    def expect(self, ranges: Iterable[OffsetRange]) -> None:
        """The tasks of a batch are about to start, and the batch before is done. Called by the planner's thread."""
        expected = frozenset((each.topic_partition, each.start, each.stop) for each in ranges)
        with self._lock:
            if expected == self._expected:
                return  # Spark asks again for the same batch
            self._settled, self._reports, self._expected, self._updated = self._sum(), {}, expected, set()

    def take(self, report: TaskReport) -> None:
        """Add a report. Called by the server's thread."""
        tp = report.topic_partition
        with self._lock:
            if report.worker is not None:
                self._take_figures(report.worker)
            if (key := (tp, report.start, report.stop)) not in self._expected:
                log.info("ignored the report of [%d, %d) of %s: not of this batch", report.start, report.stop, tp)
                return
            before = self._reports.get(key)
            if report.lost is not None and (before is None or before.lost is None):
                log.warning(
                    "a task found that offsets %d to %d of %s are gone: going on without them, because "
                    "failOnDataLoss is false",
                    *report.lost,
                    tp,
                )
            if before is not None:
                report = _merged(before, report)
            self._reports[key] = report
            self._updated.add(tp)
            if report.ended_at is not None:
                self._ends[tp] = min(report.ended_at, self._ends.get(tp, report.ended_at))

    def _take_figures(self, figures: WorkerFigures) -> None:
        now = self._clock()
        before = self._workers.pop(figures.worker, None)
        if before is not None and before[1].fetches > figures.fetches:
            figures = before[1]  # two tasks of a worker have overtaken each other
        self._workers[figures.worker] = now, figures
        for name, (at, _) in list(self._workers.items()):
            if len(self._workers) <= WORKERS_KEPT and now - at < WORKER_SECONDS:
                break
            del self._workers[name]

    def workers(self) -> list[WorkerFigures]:
        """The last figures of each worker, by name. Called by any thread."""
        with self._lock:
            return sorted((figures for _, figures in self._workers.values()), key=lambda each: each.worker)

    def counts(self) -> ReportCounts:
        """Sums since the query started. Called by any thread."""
        with self._lock:
            return self._sum()

    def take_ends(self) -> Offsets:
        """The partitions that a deserializer has ended since the last call, and the offsets of the records that ended
        them. Called by the planner's thread, between two batches."""
        with self._lock:
            ends, self._ends = self._ends, {}
            return ends

    def take_event_times(self) -> dict[TopicPartition, tuple[int, int | None, bool]]:
        """The event times of the current batch, for partitions with a report since the last call: where the last range
        stops, the highest event time, and whether all ranges have a report. Called by the planner's thread."""
        with self._lock:
            updated, self._updated = self._updated, set()
            if not updated:
                return {}
            ranges: dict[TopicPartition, list[RangeKey]] = {tp: [] for tp in updated}
            for key in self._expected:
                if key[0] in updated:
                    ranges[key[0]].append(key)
            return {tp: self._event_time(keys) for tp, keys in ranges.items()}

    def _event_time(self, ranges: Sequence[RangeKey]) -> tuple[int, int | None, bool]:
        reports = [self._reports[key] for key in ranges if key in self._reports]
        times = [report.event_time for report in reports if report.event_time is not None]
        return max(stop for _, _, stop in ranges), max(times, default=None), len(reports) == len(ranges)

    def _sum(self) -> ReportCounts:
        return self._settled + ReportCounts.of(self._reports.values())


def _merged(before: TaskReport, report: TaskReport) -> TaskReport:
    """A report, with the losses and dead letters of an earlier report of the same range."""
    lost = [each for each in (before.lost, report.lost) if each is not None]
    return replace(
        report,
        dead_letters=max(before.dead_letters, report.dead_letters),
        lost_start=min((start for start, _ in lost), default=None),
        lost_stop=max((stop for _, stop in lost), default=None),
    )
