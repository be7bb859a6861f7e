"""A stream of all seven columns, by Penstock or by Spark's JVM source: one query at a time, into the noop sink; or of
keys and values into the sink of a request; or of all columns into files or a table.

    spark_stream.py FORMAT CORES SETTINGS [JAR...]        FORMAT: penstock, kafka;  SETTINGS: of the session, JSON

    catch-up    read all records (AvailableNow); returns seconds and rows
    replay      the same, counted in windows with withWatermark; returns the counts and the rows that Spark dropped
    count-views count the views of ads in windows (AvailableNow); returns seconds and rows, or also the counts
    start       start a query; returns when it waits for data
    settle      return when the query has read all records
    idle        CPU time and triggers of the query while no data arrives
    memory      memory of the driver and of every Python process
    stop        stop the query; returns its triggers that had rows, with Spark's durations

Needs only PySpark, because the JVM source runs in its own environment.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from process_figures import command_line, descendants, processor_seconds, python_workers, resident_mb, spark_daemons
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as in PySpark's documentation)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from serving import serve_requests
from spark_session import session

END_SECONDS = 100
"""A query that has not caught up by then hangs."""

REPLAY_SECONDS = 500
"""The same for a query with state, which may have many triggers."""

PLANNER = "python_streaming_source_runner"
"""Part of the command line of the process that plans for a Python source."""


class Stream:
    def __init__(self, spark: SparkSession, format_: str) -> None:
        self._spark = spark
        self._format = format_
        self._query: StreamingQuery | None = None

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        methods: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "catch-up": self.catch_up,
            "replay": self.replay,
            "count-views": self.count_views,
            "start": self.start,
            "settle": self.settle,
            "idle": self.idle,
            "memory": self.memory,
            "stop": self.stop,
        }
        return methods[request["do"]](request)

    def catch_up(self, request: dict[str, Any]) -> dict[str, Any]:
        frame = self._frame(request)
        if request.get("verify"):
            size = F.sum(F.length("key") + F.length("value"))
            frame = frame.observe("seen", F.count(F.lit(1)).alias("rows"), size.alias("bytes"))
        writer = self._writer(frame, request).trigger(availableNow=True)
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
            # The rest is for starting and stopping the query.
            "trigger_seconds": sum(progress.durationMs["triggerExecution"] for progress in triggers) / 1000,
        }
        if request.get("verify"):
            answer["rows"] = sum(progress.observedMetrics["seen"]["rows"] for progress in triggers)
            answer["bytes"] = sum(progress.observedMetrics["seen"]["bytes"] for progress in triggers)
        return answer

    def replay(self, request: dict[str, Any]) -> dict[str, Any]:
        windows = F.window("timestamp", request["window"])
        counts = self._frame(request).withWatermark("timestamp", request["delay"]).groupBy(windows).count()
        counted: dict[Any, int] = {}

        def keep(batch: DataFrame, number: int) -> None:
            counted.update((row["window"]["start"], row["count"]) for row in batch.collect())

        writer = counts.writeStream.outputMode("update").foreachBatch(keep)
        writer = writer.option("checkpointLocation", request["checkpoint"]).trigger(availableNow=True)
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
                # Spark drops after partial aggregation in its tasks: one dropped row stands for many records.
                "dropped": sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators),
            }
            for progress in progresses
        ]
        rows = sum(progress.numInputRows for progress in progresses)
        return {"seconds": seconds, "rows": rows, "counted": sum(counted.values()), "triggers": triggers}

    def count_views(self, request: dict[str, Any]) -> dict[str, Any]:
        events = self._frame(request)
        if request["from_json"] is not None:
            value = F.from_json(F.col("value").cast("string"), request["from_json"])
            events = events.select(value.alias("value"))
        if request["views"] is not None:
            events = events.filter(request["views"])
        ads = self._spark.sql(
            "SELECT * FROM VALUES " + ", ".join(f"('{ad}', '{campaign}')" for ad, campaign in request["ads"])
            + " AS ads(ad_id, campaign_id)"
        )  # fmt: skip
        views = events.select("value.ad_id", F.timestamp_millis("value.event_time").alias("event_time"))
        counts = views.join(ads, "ad_id").groupBy("campaign_id", F.window("event_time", "10 seconds")).count()
        found: list[Any] = []

        def keep(batch: DataFrame, number: int) -> None:
            start = F.unix_millis("window.start")
            found.extend(list(row) for row in batch.select("campaign_id", start, "count").collect())

        writer = counts.writeStream.outputMode("update").option("checkpointLocation", request["checkpoint"])
        writer = writer.foreachBatch(keep) if request["verify"] else writer.format("noop")
        began = time.perf_counter()
        query = writer.trigger(availableNow=True).start()
        ended = query.awaitTermination(END_SECONDS)
        seconds = time.perf_counter() - began
        if not ended:
            raise TimeoutError(f"the stream did not catch up within {END_SECONDS} s")
        triggers = [progress for progress in query.recentProgress if progress.numInputRows]
        answer = {
            "seconds": seconds,
            "rows": sum(progress.numInputRows for progress in triggers),
            "triggers": len(triggers),
            "trigger_seconds": sum(progress.durationMs["triggerExecution"] for progress in triggers) / 1000,
        }
        return {**answer, "counts": found} if request["verify"] else answer

    def start(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._query is None
        writer = self._writer(self._frame(request), request)
        if request["trigger"] is not None:
            writer = writer.trigger(processingTime=request["trigger"])
        self._query = writer.start()
        self._query.processAllAvailable()  # `latest` is resolved by now
        return {}

    def settle(self, request: dict[str, Any]) -> dict[str, Any]:
        self._running().processAllAvailable()
        return {}

    def idle(self, request: dict[str, Any]) -> dict[str, Any]:
        time.sleep(request["warm_seconds"])
        used, events, began = self._processor_seconds(), self._events(), time.perf_counter()
        time.sleep(request["seconds"])
        return {
            "processor_seconds": self._processor_seconds() - used,
            "triggers": self._events() - events,
            "seconds": time.perf_counter() - began,
        }

    def memory(self, request: dict[str, Any]) -> dict[str, Any]:
        below = descendants(os.getpid())
        answer: dict[str, Any] = {
            "driver": sum(resident_mb(pid) for pid in below if "org.apache.spark.deploy" in command_line(pid)),
            "planner": sum(resident_mb(pid) for pid in below if PLANNER in command_line(pid)),
            "daemon": sum(resident_mb(pid) for pid in spark_daemons()),
            "workers": {pid: resident_mb(pid) for pid in python_workers()},
        }
        if request["collect"]:
            jvm = self._spark.sparkContext._jvm
            assert jvm is not None
            java = jvm.java.lang
            java.System.gc()
            memory = java.management.ManagementFactory.getMemoryMXBean()
            answer["heap"] = memory.getHeapMemoryUsage().getUsed() / 1e6
        return answer

    def stop(self, request: dict[str, Any]) -> dict[str, Any]:
        query = self._running()
        triggers = [
            {"rows": progress.numInputRows, "ms": dict(progress.durationMs)}
            for progress in query.recentProgress
            if progress.numInputRows
        ]
        query.stop()
        self._query = None
        return {"triggers": triggers}

    def _frame(self, request: dict[str, Any]) -> DataFrame:
        options = {"kafka.bootstrap.servers": request["bootstrap"], **request["options"]}
        return self._spark.readStream.format(self._format).options(**options).load()

    def _writer(self, frame: DataFrame, request: dict[str, Any]) -> DataStreamWriter:
        sink = request.get("sink")
        if sink is None:
            writer = frame.writeStream.format("noop")
        elif "format" in sink:
            writer = frame.writeStream.format(sink["format"]).option("path", sink["path"])
        else:
            options = {"kafka.bootstrap.servers": request["bootstrap"], **sink}
            writer = frame.select("key", "value").writeStream.format(self._format).options(**options)
        return writer.option("checkpointLocation", request["checkpoint"])

    def _running(self) -> StreamingQuery:
        assert self._query is not None
        if failure := self._query.exception():
            raise failure
        return self._query

    def _processor_seconds(self) -> float:
        """CPU time of the driver's JVM and all processes below it; this process only waits."""
        return sum(processor_seconds(pid) for pid in descendants(os.getpid()))

    def _events(self) -> int:
        """Events posted to Spark's listener bus. With spark.sql.streaming.noDataProgressEventInterval = 0 an idle query
        posts one per trigger, and counting them needs no listener in Python."""
        bus = self._spark.sparkContext._jsc.sc().listenerBus()
        count: int = bus.metrics().numEventsPosted().getCount()
        return count


def main() -> None:
    format_, cores, settings, *jars = sys.argv[1:]
    spark = session(int(cores), jars, json.loads(settings))
    try:
        serve_requests(Stream(spark, format_).run)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
