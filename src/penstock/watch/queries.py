"""The runs of streaming queries that the page shows, as they were last reported."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.watch.query_report import QueryReport, cut, document

MAX_QUERIES = 100
"""Runs that are kept. A new one takes the place of the one that ended first, or was not heard of for longest."""

LOST_SECONDS = 45.0
"""A query that has not reported for so long is shown as lost: its driver is gone, or cannot reach the page. Drivers
repeat reports every 15 seconds."""

MAX_REASON = 200
"""Characters of an error in a row of the table."""


@dataclass(slots=True)
class _Run:
    report: QueryReport
    heard_at: float
    is_lost: bool = False

    @property
    def state(self) -> str:
        return "lost" if self.is_lost else self.report.state


class QueryRegistry:
    """Any thread may call it."""

    def __init__(self, *, repeated: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        """`repeated`: whether reports come from other processes, which repeat them."""
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._repeated = repeated
        self._clock = clock
        self._version = 1

    @property
    def version(self) -> int:
        """Rises with each change. Never 0."""
        with self._lock:
            return self._version

    def put(self, report: QueryReport) -> None:
        """Take a report, which replaces the earlier ones of its run."""
        with self._lock:
            known = self._runs.get(report.run_id)
            if known is not None:
                if known.report.state != "running" and report.state == "running":
                    return  # it was overtaken by the report of the end
                is_same = known.report == report and not known.is_lost
                known.report, known.heard_at, known.is_lost = report, self._clock(), False
                if is_same:
                    return
            else:
                if len(self._runs) >= MAX_QUERIES:
                    del self._runs[self._least_important()]
                self._runs[report.run_id] = _Run(report, self._clock())
            self._version += 1

    def sweep(self) -> None:
        """Mark the runs that have not reported for too long."""
        if not self._repeated:
            return
        with self._lock:
            before = self._clock() - LOST_SECONDS
            for run in self._runs.values():
                if run.report.state == "running" and not run.is_lost and run.heard_at < before:
                    run.is_lost = True
                    self._version += 1

    def rows(self) -> list[dict[str, Any]]:
        """A row for each run, for the table."""
        with self._lock:
            return [_row(run) for run in self._runs.values()]

    def detail(self, run_id: str) -> dict[str, Any] | None:
        """All of a run's last report; None for an unknown run."""
        with self._lock:
            run = self._runs.get(run_id)
        return None if run is None else {"row": _row(run), "report": document(run.report)}

    def _least_important(self) -> str:
        return min(self._runs, key=lambda each: (self._runs[each].state == "running", self._runs[each].heard_at))


def _row(run: _Run) -> dict[str, Any]:
    report = run.report
    phases = {each.name: each.milliseconds for each in report.phases}
    behind = [source.event_time_lag for source in report.sources if source.event_time_lag is not None]
    return {
        "name": report.run_id,
        "title": report.name or report.id,
        "state": run.state,
        "lag": report.lag,
        "input_rate": report.input_rate,
        "processing_rate": report.processing_rate,
        "batch": report.batch,
        "trigger_ms": phases.get("triggerExecution"),
        "event_time_lag": max(behind, default=None),
        "started_at": report.started_at,
        "error": None if report.error is None else cut(_reason(report.error), MAX_REASON),
    }


def _reason(error: str) -> str:
    """The first line, with `SparkException: ` for `org.apache.spark.SparkException: `: a cell is narrow."""
    return re.sub(r"^(?:[\w$]+\.)+(?=[\w$]+: )", "", error.lstrip().partition("\n")[0])
