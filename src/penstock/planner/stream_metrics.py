"""The figures that a stream adds to Spark's progress (F26), and those that it logs at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.masking import get_logger
from penstock.metrics.source import by_topic, event_time_figures
from penstock.metrics.worker import worker_figures
from penstock.model.topic_partition import TopicPartition
from penstock.planner.checkpoint import OffsetTexts
from penstock.planner.group_committer import Committer
from penstock.planner.report_ledger import ReportCounts
from penstock.planner.stream import StreamPlanner

log = get_logger(__name__)


class StreamMetrics:
    """Collects the figures of one stream. For one thread."""

    def __init__(
        self, planner: StreamPlanner, committer: Committer | None, *, parses_records: bool, filters_rows: bool = False
    ) -> None:
        self._filters_rows = filters_rows
        self._planner = planner
        self._committer = committer
        self._parses_records = parses_records
        self._committed_texts = OffsetTexts()

    def report(self) -> dict[str, Any]:
        """The figures as JSON values."""
        planner, committer, counts = self._planner, self._committer, self._counts()
        figures: dict[str, Any] = {}
        if planner.reports is not None and self._parses_records:
            figures |= {
                "malformedRecords": counts.malformed,
                "droppedRecords": counts.dropped,
                "deadLetters": counts.dead_letters,
                "skippedRecords": counts.skipped,
            }
        if planner.reports is not None and self._filters_rows:
            figures |= {"readRecords": counts.read, "passedRecords": counts.passed}
        if planner.reports is not None and planner.alignment is not None:
            figures |= event_time_figures(planner.alignment.status(), counts.late)
        figures |= {
            "commitsSucceeded": 0 if committer is None else committer.succeeded,
            "commitsFailed": 0 if committer is None else committer.failed,
            "committedOffsets": {} if committer is None else self._committed_texts.write(dict(committer.committed)),
            "bytesPerRecord": _by_topic(planner.sizes.bytes_per_record),
            "lostRanges": self._lost_ranges(counts),
            "finished": planner.finished,
        }
        if planner.reports is not None and (workers := planner.reports.workers()):
            figures["workers"] = worker_figures(workers)
        if planner.checkpoint.unread:
            figures["unreadPartitions"] = by_topic(sorted(planner.checkpoint.unread))
        return figures

    def log_counts(self) -> None:
        """Log the counts of a run that ends. Spark reports no progress after its last batch."""
        counts = self._counts()
        if counts.late:
            log.warning("records of this run that were late by its event-time watermark: %d", counts.late)
        if lost := self._lost_ranges(counts):
            log.warning("lost ranges of this run: %d (failOnDataLoss is false)", lost)
        if self._filters_rows:
            log.info("records of this run that met option where: %d of %d", counts.passed, counts.read)
        workers = [] if self._planner.reports is None else self._planner.reports.workers()
        if workers:
            log.info(
                "fetches of this run: %d, by %d Python workers; throttled for %.3g s, retries: %d",
                sum(each.fetches for each in workers),
                len(workers),
                sum(each.throttle_seconds for each in workers),
                sum(each.retries for each in workers),
            )
        if replace(counts, late=0, lost_ranges=0, read=0, passed=0) != ReportCounts():
            log.warning(
                "records of this run that did not parse: %d (dropped: %d, sent to deadLetterTopic: %d); skipped by its "
                "deserializer: %d",
                *(counts.malformed, counts.dropped, counts.dead_letters, counts.skipped),
            )

    def _counts(self) -> ReportCounts:
        return ReportCounts() if self._planner.reports is None else self._planner.reports.counts()

    def _lost_ranges(self, counts: ReportCounts) -> int:
        """Lost ranges that planning or tasks have found."""
        return self._planner.losses.count + counts.lost_ranges


def _by_topic(sizes: Mapping[TopicPartition, float]) -> dict[str, dict[str, float]]:
    document: dict[str, dict[str, float]] = {}
    for tp, size in sorted(sizes.items()):
        document.setdefault(tp.topic, {})[str(tp.partition)] = round(size, 1)
    return document
