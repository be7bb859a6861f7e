"""A streaming query that runs while its test breaks things."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.processes import until
from chaos.sink import Record, values_of, written

CATCH_UP_SECONDS = 120


class Running:
    """A query from Penstock into Parquet, and its output so far."""

    def __init__(self, spark: Any, options: dict[str, str], folder: Path) -> None:
        self.output = folder / "output"
        reader = spark.readStream.format("penstock").options(**options).load()
        writer = reader.select("topic", "partition", "offset", "value").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(
            processingTime="100 milliseconds"
        )
        self.query = writer.start(str(self.output))

    def records(self) -> Counter[Record]:
        return written(self.output)

    def rows(self) -> int:
        return self.records().total()

    def values(self) -> Counter[bytes]:
        return values_of(self.records())

    def await_that(self, condition: Callable[[Counter[Record]], bool]) -> None:
        """Wait until the output meets the condition; the query must not have ended."""
        met = until(lambda: condition(self.records()) or not self.query.isActive, CATCH_UP_SECONDS, 0.2)
        assert self.query.exception() is None, str(self.query.exception())
        assert met, f"not so after {CATCH_UP_SECONDS} s; {self.rows()} rows"

    def await_rows(self, count: int) -> None:
        self.await_that(lambda records: records.total() >= count)

    def await_exactly(self, values: Counter[bytes]) -> None:
        self.await_rows(sum(values.values()))
        self.query.stop()
        assert self.values() == values


@pytest.fixture
def running(spark: Any, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """`running(cluster, subscribe=..., **options)` starts a query at the earliest offsets; it is stopped at the end."""
    started: list[Running] = []

    def start(cluster: Any, **options: object) -> Running:
        chosen = cluster.client_options() | {"startingOffsets": "earliest"}
        chosen |= {name: str(value) for name, value in options.items()}
        started.append(Running(spark, chosen, tmp_path / f"query-{len(started)}"))
        return started[-1]

    yield start
    for each in started:
        each.query.stop()
