"""Plans batches and triggers over a simulated cluster, as PySpark's planning process does, and takes the time.

The calls are those of PySpark's runners: JSON in, JSON out, partitions pickled one by one. A request is measured by one
process, so that its peak memory is that of one size.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from process_figures import peak_mb, resident_mb
from pyspark.serializers import CPickleSerializer
from pyspark.sql.streaming.datasource import ReadLimit
from serving import serve_requests

from penstock.config.source import parse_options
from penstock.spark.admission_stream import AdmissionStreamReader
from penstock.spark.batch import BatchReader
from penstock.spark.schema import raw_schema, wanted_columns

os.environ["PYTHON_WORKER_FACTORY_SECRET"] = ""  # as in a process of Spark's: the planner freezes its heap there

CLUSTER = Path(__file__).with_name("simulated_cluster.py")
FEW = 4
SECONDS = 0.8
"""Each case is repeated for this long, but at least MINIMUM times and at most MOST."""
MINIMUM, MOST = 3, 60
DISCOVERY = {"partition.discovery.interval.ms": "0"}
NO_DISCOVERY = {"partition.discovery.interval.ms": "-1"}


class Cluster:
    """The simulated cluster, in a process of its own. Ends with this process, which holds its input."""

    def __init__(self, topics: int, partitions: int) -> None:
        command = [sys.executable, str(CLUSTER)]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.partitions = topics * partitions
        self.bootstrap = f"127.0.0.1:{self._ask(topics=topics, partitions=partitions)}"

    def advance(self, partitions: int) -> None:
        self._ask(advance=partitions, by=10)

    def close(self) -> None:
        self._child.kill()
        self._child.wait()

    def _ask(self, **request: int) -> Any:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(request) + "\n")
        self._child.stdin.flush()
        return json.loads(self._child.stdout.readline())


class Runner:
    """What PySpark's planning process does with one stream reader."""

    def __init__(self, bootstrap: str, options: dict[str, str]) -> None:
        self._reader = AdmissionStreamReader(*_options_and_columns(bootstrap, options))
        self._limit: ReadLimit = self._reader.getDefaultReadLimit()
        self.start = ""
        self._end = ""

    def begin(self) -> None:
        """The first batch of a new query, which is empty, and the first trigger after it."""
        self.start = json.dumps(self._reader.initialOffset())
        start = json.loads(self.start)
        self._reader.latestOffset(start, self._limit)
        self._reader.partitions(start, start)
        self.trigger()

    def trigger(self) -> int:
        """One trigger, planned and taken as finished. Returns the number of tasks."""
        self._end = json.dumps(self._reader.latestOffset(json.loads(self.start), self._limit))
        tasks = 0
        if self._end != self.start:
            planned = self._reader.partitions(json.loads(self.start), json.loads(self._end))
            pickled(planned)
            tasks = len(planned)
        json.dumps(self._reader.reportLatestOffset())
        self.start = self._end
        return tasks

    def close(self) -> None:
        self._reader.stop()


def _options_and_columns(bootstrap: str, options: dict[str, str]) -> tuple[Any, Any]:
    parsed = parse_options({"kafka.bootstrap.servers": bootstrap, "subscribePattern": "scale-.*", **options}, 0)
    return parsed, wanted_columns(parsed, raw_schema(parsed.columns, parsed.include_headers, False), None, None)


def pickled(partitions: Any) -> int:
    serializer, out = CPickleSerializer(), io.BytesIO()
    for partition in partitions:
        serializer._write_with_length(partition, out)
    return len(out.getbuffer())


def timed(act: Callable[[], object], prepare: Callable[[], object] = lambda: None) -> dict[str, float]:
    """Medians in ms: the processor time of this process, and the time that passed."""
    processor: list[float] = []
    elapsed: list[float] = []
    while len(processor) < MINIMUM or (sum(elapsed) < SECONDS * 1000 and len(processor) < MOST):
        prepare()
        began, used = time.perf_counter(), time.process_time()
        act()
        processor.append((time.process_time() - used) * 1000)
        elapsed.append((time.perf_counter() - began) * 1000)
    return {"processor_ms": median(processor), "elapsed_ms": median(elapsed), "times": len(processor)}


def planning(request: dict[str, Any]) -> dict[str, Any]:
    """All cases at one number of partitions."""
    cluster = Cluster(request["topics"], request["partitions"])
    try:
        return _planning(cluster)
    finally:
        cluster.close()


def _planning(cluster: Cluster) -> dict[str, Any]:
    before_mb = resident_mb()
    answer: dict[str, Any] = {}

    def batch() -> None:
        planned = BatchReader(*_options_and_columns(cluster.bootstrap, {})).partitions()
        assert len(planned) == cluster.partitions, len(planned)
        answer["pickled_bytes"] = pickled(planned) / len(planned)

    batch()
    answer["batch"] = timed(batch)
    runner = Runner(cluster.bootstrap, NO_DISCOVERY)
    runner.begin()
    answer["idle"] = timed(runner.trigger)
    answer["data in 4 partitions"] = timed(lambda: _expect(runner, FEW), lambda: cluster.advance(FEW))
    answer["data in all partitions"] = timed(
        lambda: _expect(runner, cluster.partitions), lambda: cluster.advance(cluster.partitions)
    )
    runner.close()
    answer["offset_log_bytes"] = len(runner.start)
    runner = Runner(cluster.bootstrap, DISCOVERY)
    runner.begin()
    answer["idle, discovery at every trigger"] = timed(runner.trigger)
    runner.close()
    answer["memory_mb"] = peak_mb() - before_mb
    return answer


def _expect(runner: Runner, tasks: int) -> None:
    planned = runner.trigger()
    assert planned == tasks, f"{planned} tasks, not {tasks}"


def ranges(request: dict[str, Any]) -> dict[str, Any]:
    """A batch of one partition in this many ranges: planned, pickled for Spark, and unpickled by tasks."""
    cluster = Cluster(1, 1)
    try:
        options = _options_and_columns(cluster.bootstrap, {"minPartitions": str(request["ranges"])})
        planned: list[Any] = []

        def plan() -> None:
            planned[:] = BatchReader(*options).partitions()

        answer = {"planning": timed(plan)}
    finally:
        cluster.close()
    assert len(planned) == request["ranges"], len(planned)
    serializer = CPickleSerializer()
    written = [serializer.dumps(each) for each in planned]
    return {
        **answer,
        "pickling": timed(lambda: [serializer.dumps(each) for each in planned]),
        "unpickling": timed(lambda: [serializer.loads(each) for each in written]),
        "pickled_bytes": sum(map(len, written)) / len(written),
    }


def run(request: dict[str, Any]) -> dict[str, Any]:
    return planning(request) if "topics" in request else ranges(request)


if __name__ == "__main__":
    serve_requests(run)
