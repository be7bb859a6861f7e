"""The sink without Spark: its tasks and the driver's commits, called as Spark calls them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock import read_batches
from penstock.config.sink import parse_sink_options
from penstock.writer.commit import Committer
from penstock.writer.names import SinkScope
from penstock.writer.outcome import TaskOutcome
from penstock.writer.task import TaskPlace, run_task


class Sink:
    """A query that writes to one topic. Tasks and commits are called one by one."""

    def __init__(self, kafka: Any, topic: str, **options: object) -> None:
        given = {**kafka.client_options(), "topic": topic, "deliveryGuarantee": "exactly-once", **options}
        self.options = parse_sink_options(given)
        self.scope = SinkScope("penstock-sink", "query", uuid.uuid4().hex, topic)
        self._reading = {**kafka.client_options(), "subscribe": topic, "kafka.isolation.level": "read_committed"}

    def task(self, number: int, batch: int | None, *values: str) -> TaskOutcome:
        rows = pa.RecordBatch.from_pydict({"value": pa.array(values, pa.string())})
        return run_task(self.options, TaskPlace(self.scope, number, batch), [rows])

    def tasks(self, batch: int | None, *values: Sequence[str]) -> list[TaskOutcome]:
        return [self.task(number, batch, *some) for number, some in enumerate(values)]

    def committer(self, batch: int | None) -> Committer:
        return Committer(self.options, self.scope, batch)

    def commit(self, batch: int | None, outcomes: Sequence[TaskOutcome]) -> None:
        self.committer(batch).commit(outcomes)

    def write_intent(self, batch: int, outcomes: Sequence[TaskOutcome]) -> None:
        """As a driver that dies after it."""
        committer = self.committer(batch)
        with committer._taken_intent() as driver:
            committer._write_intent(outcomes, driver)

    @property
    def visible(self) -> list[str]:
        table = pa.Table.from_batches(
            read_batches(self._reading, columns=["value"]), pa.schema([("value", pa.binary())])
        )
        return sorted(value.decode() for value in table.column("value").to_pylist())
