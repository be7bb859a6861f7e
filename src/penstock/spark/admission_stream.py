"""The stream reader for PySpark 4.2 and newer: Spark passes the start and the limit of each batch.

Spark calls this admission control.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.metrics.source import REPORT_KEY
from penstock.spark.stream import StreamReader
from penstock.spark.tracebacks import without_traceback

OPTIONS_DECIDE = ReadMaxRows(2**63 - 1)
"""A limit that limits nothing. Spark passes it back at every trigger except those of Trigger.Once, which passes
ReadAllAvailable."""


class AdmissionStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """Plans each batch from the start that Spark passes. All methods are called on the driver."""

    def getDefaultReadLimit(self) -> ReadLimit:
        planner, limits = self._driver.planner, self._options.stream
        limited = limits.max_offsets or limits.max_bytes or limits.min_offsets or planner.alignment is not None
        return OPTIONS_DECIDE if planner.pins_start or limited else ReadAllAvailable()

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:
        self._driver.planner.prepare_for_available_now()

    @without_traceback
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Called at every poll, also of an idle query. `start` is the end of the last finished batch."""
        return self._next(start, read_all=isinstance(limit, ReadAllAvailable))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        newest, metrics = self._driver.newest(), None
        if newest is not None:
            metrics = self._driver.metrics()
        return newest if newest is None or metrics is None else newest | {REPORT_KEY: metrics}
