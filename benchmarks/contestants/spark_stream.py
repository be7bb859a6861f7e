"""A stream of all seven columns, by Penstock or by Spark's JVM source: one query at a time, into the noop sink.

    spark_stream.py FORMAT CORES SETTINGS [JAR...]        FORMAT: penstock, kafka;  SETTINGS: of the session, JSON

    catch-up    everything there is (AvailableNow), then the end: seconds, rows
    replay      the same, counted in windows behind withWatermark: what is in them in the end, and what Spark dropped
    start       a query that runs on; answers when it waits for data
    settle      answers when it has read what there is
    idle        the processor time that it takes, and its triggers, while nothing comes
    memory      what the driver and every Python process hold
    stop        the triggers that have had rows: how many, and Spark's own times of them

Needs PySpark and nothing else, because the JVM source runs in an environment of its own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from answering import answer_orders
from process_figures import command_line, descendants, processor_seconds, python_workers, resident_mb, spark_daemons
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as PySpark's own documentation has it)
from pyspark.sql.streaming.query import StreamingQuery
from spark_session import session

END_SECONDS = 100
"""A query that has not caught up by then hangs."""

REPLAY_SECONDS = 500
"""The same for one whose triggers keep state, and of which there may be many."""

PLANNER = "python_streaming_source_runner"
"""In the command line of the process that plans for a Python source."""


class Stream:
    def __init__(self, spark: SparkSession, format_: str) -> None:
        self._spark = spark
        self._format = format_
        self._query: StreamingQuery | None = None

    def run(self, order: dict[str, Any]) -> dict[str, Any]:
        orders: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "catch-up": self.catch_up,
            "replay": self.replay,
            "start": self.start,
            "settle": self.settle,
            "idle": self.idle,
            "memory": self.memory,
            "stop": self.stop,
        }
        return orders[order["do"]](order)

    def catch_up(self, order: dict[str, Any]) -> dict[str, Any]:
        frame = self._frame(order)
        if order.get("verify"):
            size = F.sum(F.length("key") + F.length("value"))
            frame = frame.observe("seen", F.count(F.lit(1)).alias("rows"), size.alias("bytes"))
        writer = frame.writeStream.format("noop").option("checkpointLocation", order["checkpoint"])
        writer = writer.trigger(availableNow=True)
        began = time.perf_counter()
        query = writer.start()
        ended = query.awaitTermination(END_SECONDS)
        seconds = time.perf_counter() - began
        if not ended:
            raise TimeoutError(f"the stream did not catch up within {END_SECONDS} s")
        triggers = [progress for progress in query.recentProgress if progress.numInputRows]
        answer = {
            "seconds": seconds,
            "rows": sum(progress.numInputRows for progress in triggers),
            "triggers": len(triggers),
            # The rest went into starting the query and ending it.
            "trigger_seconds": sum(progress.durationMs["triggerExecution"] for progress in triggers) / 1000,
        }
        if order.get("verify"):
            answer["rows"] = sum(progress.observedMetrics["seen"]["rows"] for progress in triggers)
            answer["bytes"] = sum(progress.observedMetrics["seen"]["bytes"] for progress in triggers)
        return answer

    def replay(self, order: dict[str, Any]) -> dict[str, Any]:
        windows = F.window("timestamp", order["window"])
        counts = self._frame(order).withWatermark("timestamp", order["delay"]).groupBy(windows).count()
        counted: dict[Any, int] = {}

        def keep(batch: DataFrame, number: int) -> None:
            counted.update((row["window"]["start"], row["count"]) for row in batch.collect())

        writer = counts.writeStream.outputMode("update").foreachBatch(keep)
        writer = writer.option("checkpointLocation", order["checkpoint"]).trigger(availableNow=True)
        began = time.perf_counter()
        query = writer.start()
        ended = query.awaitTermination(REPLAY_SECONDS)
        seconds = time.perf_counter() - began
        if not ended:
            raise TimeoutError(f"the stream did not catch up within {REPLAY_SECONDS} s")
        progresses = [progress for progress in query.recentProgress if progress.numInputRows]
        triggers = [
            {
                "rows": progress.numInputRows,
                "ends": json.loads(progress.sources[0].endOffset),
                "watermark": progress.eventTime.get("watermark"),
                # After Spark has counted within its tasks: one of these stands for many records.
                "dropped": sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators),
            }
            for progress in progresses
        ]
        rows = sum(progress.numInputRows for progress in progresses)
        return {"seconds": seconds, "rows": rows, "counted": sum(counted.values()), "triggers": triggers}

    def start(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._query is None
        writer = self._frame(order).writeStream.format("noop").option("checkpointLocation", order["checkpoint"])
        if order["trigger"] is not None:
            writer = writer.trigger(processingTime=order["trigger"])
        self._query = writer.start()
        self._query.processAllAvailable()  # `latest` is looked up by now
        return {}

    def settle(self, order: dict[str, Any]) -> dict[str, Any]:
        self._running().processAllAvailable()
        return {}

    def idle(self, order: dict[str, Any]) -> dict[str, Any]:
        time.sleep(order["warm_seconds"])
        used, events, began = self._processor_seconds(), self._events(), time.perf_counter()
        time.sleep(order["seconds"])
        return {
            "processor_seconds": self._processor_seconds() - used,
            "triggers": self._events() - events,
            "seconds": time.perf_counter() - began,
        }

    def memory(self, order: dict[str, Any]) -> dict[str, Any]:
        below = descendants(os.getpid())
        answer: dict[str, Any] = {
            "driver": sum(resident_mb(pid) for pid in below if "org.apache.spark.deploy" in command_line(pid)),
            "planner": sum(resident_mb(pid) for pid in below if PLANNER in command_line(pid)),
            "daemon": sum(resident_mb(pid) for pid in spark_daemons()),
            "workers": {pid: resident_mb(pid) for pid in python_workers()},
        }
        if order["collect"]:
            jvm = self._spark.sparkContext._jvm
            assert jvm is not None
            java = jvm.java.lang
            java.System.gc()
            memory = java.management.ManagementFactory.getMemoryMXBean()
            answer["heap"] = memory.getHeapMemoryUsage().getUsed() / 1e6
        return answer

    def stop(self, order: dict[str, Any]) -> dict[str, Any]:
        query = self._running()
        triggers = [
            {"rows": progress.numInputRows, "ms": dict(progress.durationMs)}
            for progress in query.recentProgress
            if progress.numInputRows
        ]
        query.stop()
        self._query = None
        return {"triggers": triggers}

    def _frame(self, order: dict[str, Any]) -> DataFrame:
        options = {"kafka.bootstrap.servers": order["bootstrap"], **order["options"]}
        return self._spark.readStream.format(self._format).options(**options).load()

    def _running(self) -> StreamingQuery:
        assert self._query is not None
        if failure := self._query.exception():
            raise failure
        return self._query

    def _processor_seconds(self) -> float:
        """Of the driver's JVM and everything it has started; this process only waits."""
        return sum(processor_seconds(pid) for pid in descendants(os.getpid()))

    def _events(self) -> int:
        """Posted to Spark's listener bus so far. An idle query posts one per trigger if told to
        (spark.sql.streaming.noDataProgressEventInterval = 0), and no listener in Python has to be paid for."""
        bus = self._spark.sparkContext._jsc.sc().listenerBus()
        count: int = bus.metrics().numEventsPosted().getCount()
        return count


def main() -> None:
    format_, cores, settings, *jars = sys.argv[1:]
    spark = session(int(cores), jars, json.loads(settings))
    try:
        answer_orders(Stream(spark, format_).run)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
