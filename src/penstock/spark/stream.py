"""The stream reader: Spark's calls, passed on to the planner and the committer.

Spark makes two kinds of this object. One lives in a process of its own on the driver's machine for as long as the query
runs, plans, and commits. The other is pickled to the executors and does nothing but `read`.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.config.option import warn_of_ignored
from penstock.config.source import SourceOptions
from penstock.dead_letters.scope import LetterScope
from penstock.formats.plan import TypedPlan
from penstock.metrics.source import REPORT_KEY, by_topic, event_time_figures
from penstock.model.task_report import ReportAddress
from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.planner.alignment.lookup import Peek
from penstock.planner.batch import with_retries
from penstock.planner.checkpoint import OffsetTexts, from_json, to_json
from penstock.planner.group_committer import Committer
from penstock.planner.report_server import ReportCounts, ReportLedger, ReportServer, reachable_hosts
from penstock.planner.stream import StreamPlanner
from penstock.reader.letter_scope import stream_scope
from penstock.spark.batch import RangePartition, read_partition
from penstock.spark.driver_log import log_to_driver
from penstock.spark.tracebacks import without_traceback
from penstock.wire.cluster import Cluster

log = logging.getLogger(__name__)

OPTIONS_DECIDE = ReadMaxRows(2**63 - 1)
"""A limit that limits nothing. Spark hands it back at every trigger but those of Trigger.Once, which reads all there
is: so the two can be told apart."""

LAST_COMMIT_SECONDS = 10.0
"""How long the end of a bounded run waits for its last commit: nobody calls after it."""

FAREWELL_SECONDS = 3.0
"""The same when Spark ends this process, which it does without asking."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, columns: list[str] | TypedPlan) -> None:
        self._options = options
        self._columns = columns
        self._planning: _Planning | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_planning": None}

    @property
    def _driver(self) -> _Planning:
        if self._planning is None:
            self._planning = _Planning(self._options, self._columns)
        return self._planning

    # --- called on the driver, one call at a time -------------------------------------------------------------------

    @without_traceback
    def initialOffset(self) -> dict[str, Any]:
        return to_json(with_retries(self._options, self._driver.planner.initial))

    def getDefaultReadLimit(self) -> ReadLimit:
        planner, limits = self._driver.planner, self._options.stream
        limited = limits.max_offsets or limits.max_bytes or limits.min_offsets or planner.event_time is not None
        return OPTIONS_DECIDE if planner.pins_start or limited else ReadAllAvailable()

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:
        self._driver.planner.prepare_for_available_now()

    @without_traceback
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Called on every poll, also of an idle query; `start` is the end of the last finished batch."""
        driver = self._driver
        state = driver.texts.read(start)
        durable, everything = driver.planner.is_durable(state), isinstance(limit, ReadAllAvailable)
        try:
            answer = with_retries(self._options, lambda: driver.planner.latest(dict(state), everything))
        finally:
            # Afterwards, because only then leader epochs are known; but also if the next batch cannot be planned.
            if durable:
                driver.commit(state)
        if driver.planner.at_the_end(state, answer):
            driver.flush(LAST_COMMIT_SECONDS)
            driver.say_counts()
        # Spark compares texts: what is the same state must look the same.
        return start if answer == state else driver.texts.write(answer)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        driver = self._driver
        if not driver.planner.newest:
            return None
        return driver.newest_texts.write(driver.planner.newest) | (
            {REPORT_KEY: driver.report()} if driver.reports else {}
        )

    @without_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        ranges = with_retries(self._options, lambda: self._driver.planner.ranges(from_json(start), from_json(end)))
        reports = self._driver.report_address() if ranges else None
        watermarks = self._driver.planner.watermarks
        return [RangePartition(each, reports, watermarks(each.topic_partition)) for each in ranges]

    def stop(self) -> None:
        if self._planning is not None:
            self._planning.close(FAREWELL_SECONDS)

    # --- called on the executors ------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(partition, self._columns, self._options, self._letter_scope())

    def _letter_scope(self) -> LetterScope | None:
        if not isinstance(self._columns, TypedPlan) or self._columns.dead_letter_topic is None:
            return None
        return stream_scope(_query_id(), self._options, self._columns)


def _query_id() -> str | None:
    """The id of the query that this task runs for; None outside a task, and in threads that Spark did not start."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty("sql.streaming.queryId")


class _Planning:
    """What lives only on the driver: the planner, the committer if there is a group to commit to, and the listener if
    tasks have something to report."""

    def __init__(self, options: SourceOptions, columns: list[str] | TypedPlan) -> None:
        log_to_driver()
        warn_of_ignored(options.ignored)
        self._options = options
        self._plan = columns if isinstance(columns, TypedPlan) else None
        self._parses = self._plan is not None and bool(self._plan.specs)
        # Without a failure, only their reports tell what tasks have found to be gone (F27).
        reports = self._parses or options.event_time is not None or not options.fail_on_data_loss
        self._ledger = ReportLedger() if reports else None
        self._listener: ReportServer | None = None
        self.planner = StreamPlanner(
            options,
            reports=self._ledger,
            deserializer_may_end=self._plan is not None and self._plan.may_end,
            peek=self._peek(),
        )
        self.reports = options.stream.report_metrics
        self.texts, self.newest_texts, self._committed_texts = OffsetTexts(), OffsetTexts(), OffsetTexts()
        self._state: Offsets = {}
        self._durable: Offsets = {}
        self._epochs: dict[TopicPartition, int] = {}
        self._handles_signal = self._ended_by_signal = self._closing = False
        self._committer = self._make_committer(options)
        if self._committer is not None:
            self._commit_when_ended()

    def commit(self, state: Offsets) -> None:
        if self._committer is None:
            return
        if state != self._state:  # an idle query hands in the same one with every poll
            self._state, self._durable = state, self.planner.restored(state)
            self._epochs = self.planner.truncation.epochs(self._durable)
        self._committer.durable(self._durable)

    def flush(self, timeout: float) -> None:
        if self._committer is not None and not self._committer.flush(timeout):
            log.warning("the last offsets were not committed within %g s; the next run commits them", timeout)

    def report_address(self) -> ReportAddress | None:
        """Where tasks report, if they are to: from the first call on, somebody listens there."""
        if self._ledger is None:
            return None
        if self._listener is None:
            self._listener = ReportServer(self._ledger.take, reachable_hosts(self._options.client.bootstrap))
        return self._listener.address

    def say_counts(self) -> None:
        """Spark makes no progress of a trigger without data: after the last batch of a run only the log can tell."""
        counts = ReportCounts() if self._ledger is None else self._ledger.counts()
        if counts.late:
            log.warning("records of this run that were late by its event-time watermark: %d", counts.late)
        if lost := self._lost_ranges():
            log.warning("lost ranges of this run: %d (failOnDataLoss is false)", lost)
        if replace(counts, late=0, lost_ranges=0) != ReportCounts():
            log.warning(
                "records of this run that did not parse: %d (dropped: %d, sent to deadLetterTopic: %d); skipped by its "
                "deserializer: %d",
                *(counts.malformed, counts.dropped, counts.dead_letters, counts.skipped),
            )

    def report(self) -> dict[str, Any]:
        committer, planner = self._committer, self.planner
        figures = {
            "commitsSucceeded": 0 if committer is None else committer.succeeded,
            "commitsFailed": 0 if committer is None else committer.failed,
            "committedOffsets": {} if committer is None else self._committed_texts.write(dict(committer.committed)),
            "bytesPerRecord": _weights(planner),
            "lostRanges": self._lost_ranges(),
            "finished": planner.finished,
        }
        if planner.unread:
            figures["unreadPartitions"] = by_topic(sorted(planner.unread))
        return self._counts() | self._event_time() | figures

    def _lost_ranges(self) -> int:
        """Found by planning or by tasks."""
        return self.planner.lost_ranges + (0 if self._ledger is None else self._ledger.counts().lost_ranges)

    def _counts(self) -> dict[str, Any]:
        if self._ledger is None or not self._parses:
            return {}
        counts = self._ledger.counts()
        return {
            "malformedRecords": counts.malformed,
            "droppedRecords": counts.dropped,
            "deadLetters": counts.dead_letters,
            "skippedRecords": counts.skipped,
        }

    def _event_time(self) -> dict[str, Any]:
        if self._ledger is None or self.planner.event_time is None:
            return {}
        return event_time_figures(self.planner.event_time.status(), self._ledger.counts().late)

    def _peek(self) -> Peek | None:
        if self._plan is None or self._options.event_time is None or self._options.event_time.by_record:
            return None
        from penstock.sampling.event_times import PayloadPeek  # with everything that decodes

        return PayloadPeek(self._plan, self._options)

    def _make_committer(self, options: SourceOptions) -> Committer | None:
        group, stream = options.rules.group, options.stream
        if group is None or stream.commit_mode == "disabled":
            return None
        stopped = threading.Event()
        cluster = Cluster(options.client, stopped.wait)  # the committing thread's own

        def abort() -> None:
            stopped.set()
            cluster.abort()

        return Committer(
            lambda offsets: cluster.commit(group, offsets, self._epochs),
            interval=stream.commit_interval if stream.commit_mode == "periodic" else None,
            name=f"penstock-commit-{group}",
            abort=abort,
        )

    def _commit_when_ended(self) -> None:
        """Spark ends this process with SIGTERM and does not call `stop` before: see to it that it is called.

        Do not simplify: to commit in the handler itself would deadlock when the signal falls into a lock's block, for
        the committing thread needs the same locks. So the handler only unwinds, and Spark's loop calls `stop`.
        """
        if threading.current_thread() is not threading.main_thread():
            return  # a program's own reader, not Spark's: its signals are its own
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return

        def unwind(number: int, frame: FrameType | None) -> None:
            self._ended_by_signal = True
            if not self._closing:
                raise SystemExit(128 + number)

        signal.signal(signal.SIGTERM, unwind)
        self._handles_signal = True

    def close(self, timeout: float) -> None:
        """Commit what waits, and end. Called once, by the main thread."""
        self._closing = True
        if self._handles_signal:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it has been heard, or comes too late to matter
            # A signal may have torn the main thread out of anything, with locks held: whatever hangs now, ends.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, timeout + 2)
        if self._listener is not None:
            self._listener.close(timeout=1.0)
        if self._committer is not None:
            self._committer.close(timeout)
        if self._handles_signal:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._ended_by_signal:
            os.kill(os.getpid(), signal.SIGTERM)  # now as it was meant, and without a word


def _weights(planner: StreamPlanner) -> dict[str, dict[str, float]]:
    document: dict[str, dict[str, float]] = {}
    for tp, weight in sorted(planner.bytes_per_record.items()):
        document.setdefault(tp.topic, {})[str(tp.partition)] = round(weight, 1)
    return document
