"""The parts of a stream that live on the driver, put together."""

from __future__ import annotations

from typing import Any

from penstock.config.in_force import options_text, versions
from penstock.config.option import warn_of_ignored
from penstock.config.source import SourceOptions
from penstock.formats.plan import TypedPlan
from penstock.formats.row_cost import log_row_cost
from penstock.masking import get_logger
from penstock.model.task_report import ReportAddress
from penstock.model.topic_partition import Offsets
from penstock.planner.alignment.lookup import PayloadLookup
from penstock.planner.checkpoint import OffsetTexts
from penstock.planner.checkpoint_commits import CheckpointCommits
from penstock.planner.driver_address import reachable_hosts
from penstock.planner.end_check import EndRecordLookup
from penstock.planner.report_ledger import ReportLedger
from penstock.planner.report_server import ReportServer
from penstock.planner.stream import StreamPlanner
from penstock.planner.stream_metrics import StreamMetrics
from penstock.spark.api import PASSES_START
from penstock.spark.driver_log import log_to_driver
from penstock.spark.session import advise
from penstock.spark.termination import Termination
from penstock.spark.worker_heap import freeze_heap

log = get_logger(__name__)

LAST_COMMIT_SECONDS = 10.0
"""How long the end of a bounded run waits for its last commit. Spark does not call again after it."""


class StreamDriver:
    """The planner of a stream, the commits if there is a group, and the report server if tasks report. For one
    thread."""

    def __init__(self, options: SourceOptions, columns: list[str] | TypedPlan) -> None:
        log_to_driver(options.log_level)
        log.info("a stream starts: %s; options: %s", versions(), options_text(options.shown))
        warn_of_ignored(options.ignored)
        log_row_cost(columns)
        advise()
        self._options = options
        plan = columns if isinstance(columns, TypedPlan) else None
        parses_records = plan is not None and bool(plan.specs)
        # Without failOnDataLoss only the reports of tasks show what was lost (F27).
        filters_rows = plan is not None and plan.where is not None
        reports = parses_records or filters_rows or options.event_time is not None or not options.fail_on_data_loss
        # What workers do at the brokers (F26). Before Spark 4.2 no progress could carry it.
        self._wants_figures = options.stream.report_metrics and PASSES_START
        reports = reports or self._wants_figures
        self._ledger = ReportLedger() if reports else None
        self._server: ReportServer | None = None
        self.planner = StreamPlanner.connect(
            options,
            reports=self._ledger,
            deserializer_may_end=plan is not None and plan.may_end,
            payloads=_payloads(options, plan),
            end_records=_end_records(options, plan),
        )
        self.texts, self._newest_texts = OffsetTexts(), OffsetTexts()
        self._commits = CheckpointCommits.of(options, self.planner)
        committer = None if self._commits is None else self._commits.committer
        self._metrics = StreamMetrics(self.planner, committer, parses_records=parses_records, filters_rows=filters_rows)
        self._termination = Termination()
        if self._commits is not None:
            self._termination.install()
        freeze_heap()  # planning 10,000 ranges made a trigger collect several times: a fifth of its time

    def commit(self, state: Offsets) -> None:
        """Commit the end of a finished batch, if there is a group."""
        if self._commits is not None:
            self._commits.commit(state)

    def finish_run(self) -> None:
        """Called at the end of a bounded run, after which Spark does not call again."""
        if self._commits is not None:
            self._commits.flush(LAST_COMMIT_SECONDS)
        self._metrics.log_counts()

    def report_address(self) -> ReportAddress | None:
        """Where tasks send their reports, if they send any. The first call starts the server."""
        if self._ledger is None:
            return None
        if self._server is None:
            hosts = reachable_hosts(self._options.client.bootstrap)
            self._server = ReportServer(self._ledger.take, hosts, wants_figures=self._wants_figures)
        return self._server.address

    def newest(self) -> dict[str, Any] | None:
        """The ends of logs as JSON; None before the first trigger."""
        return self._newest_texts.write(self.planner.newest) if self.planner.newest else None

    def metrics(self) -> dict[str, Any] | None:
        """The stream's figures as JSON; None if reportMetrics is off."""
        return self._metrics.report() if self._options.stream.report_metrics else None

    def close(self, timeout: float) -> None:
        """Commit the newest offsets and end. Called once, by the main thread."""
        with self._termination.closing(timeout):
            if self._server is not None:
                self._server.close(timeout=1.0)
            if self._commits is not None:
                self._commits.close(timeout)


def _payloads(options: SourceOptions, plan: TypedPlan | None) -> PayloadLookup | None:
    """Reads event times from payloads, if that is where they are."""
    if plan is None or options.event_time is None or options.event_time.by_record:
        return None
    from penstock.sampling.event_times import PayloadSampler  # loads all that decodes payloads

    return PayloadSampler(plan, options)


def _end_records(options: SourceOptions, plan: TypedPlan | None) -> EndRecordLookup | None:
    """Looks for records that end the stream, if one of them ends all of it."""
    if plan is None or options.stream.end_of_stream == "partition":
        return None
    from penstock.sampling.end_records import EndRecordReader

    return EndRecordReader(plan, options)
