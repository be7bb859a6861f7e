"""The stream reader: passes Spark's calls on to the planner.

Spark makes two kinds of this object. One lives in a process of its own on the driver's machine for as long as the query
runs: it plans and commits. The other is pickled to the executors and only reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from penstock.config.source import SourceOptions
from penstock.dead_letters.scope import LetterScope
from penstock.formats.plan import TypedPlan
from penstock.planner.batch import with_retries
from penstock.planner.checkpoint import to_json
from penstock.reader.letter_scope import stream_scope
from penstock.spark.batch import RangePartition, read_partition
from penstock.spark.prompt_ack import UnpickledInTask
from penstock.spark.stream_driver import StreamDriver
from penstock.spark.tracebacks import without_traceback

STOP_SECONDS = 3.0
"""How long `stop` waits for the last commit. Spark ends this process without asking."""


class StreamReader(UnpickledInTask, DataSourceStreamReader):
    """Reads Kafka as a stream. How a trigger plans depends on the version of PySpark: see the subclasses."""

    def __init__(self, options: SourceOptions, columns: list[str] | TypedPlan) -> None:
        self._options = options
        self._columns = columns
        self._stream_driver: StreamDriver | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_stream_driver": None}

    @property
    def _driver(self) -> StreamDriver:
        if self._stream_driver is None:
            self._stream_driver = StreamDriver(self._options, self._columns)
        return self._stream_driver

    # --- called on the driver, one call at a time -------------------------------------------------------------------

    @without_traceback
    def initialOffset(self) -> dict[str, Any]:
        return to_json(with_retries(self._options, self._driver.planner.initial))

    def _next(self, start: dict[str, Any], *, read_all: bool = False, may_commit: bool = True) -> dict[str, Any]:
        """The end of the next batch. `may_commit`: unless `start` is the start of a new query, the batch that ends
        there has finished."""
        driver = self._driver
        state = driver.texts.read(start)
        is_durable = may_commit and driver.planner.is_durable(state)
        try:
            answer = with_retries(self._options, lambda: driver.planner.latest(dict(state), read_all))
        finally:
            # After planning, which finds the leader epochs; but also if the next batch cannot be planned.
            if is_durable:
                driver.commit(state)
        if driver.planner.at_the_end(state, answer):
            driver.finish_run()
        # Spark compares texts: the same state must be the same text.
        return start if answer == state else driver.texts.write(answer)

    @without_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        driver = self._driver
        first, last = driver.texts.read(start), driver.texts.read(end)
        ranges = with_retries(self._options, lambda: driver.planner.ranges(first, last))
        reports = driver.report_address() if ranges else None
        watermarks = driver.planner.watermarks
        return [RangePartition(each, reports, watermarks(each.topic_partition)) for each in ranges]

    def stop(self) -> None:
        if self._stream_driver is not None:
            self._stream_driver.close(STOP_SECONDS)

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
