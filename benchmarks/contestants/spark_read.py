"""A Spark batch read of all seven columns into the noop sink: by Penstock, by Spark's JVM source, or of ready batches.

    spark_read.py FORMAT CORES [JAR...]        FORMAT: penstock, kafka, ceiling

Needs PySpark and nothing else, because the JVM source runs in an environment of its own.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Any

from answering import answer_orders
from process_figures import peak_mb, python_workers, resident_mb
from pyspark.sql import DataFrame, SparkSession
from spark_session import session

SAMPLE_SECONDS = 0.1


def run(spark: SparkSession, format_: str, order: dict[str, Any]) -> dict[str, Any]:
    options = dict(order["options"])
    if format_ != "ceiling":
        options["kafka.bootstrap.servers"] = order["bootstrap"]
    if order["do"] == "memory":
        return measure_memory(spark, format_, options)
    began = time.perf_counter()
    frame = spark.read.format(format_).options(**options).load()
    load_seconds = time.perf_counter() - began
    answer: dict[str, Any] = {"load_seconds": load_seconds, "rows": order["rows"], "bytes": 0}
    if order.get("verify"):
        row = frame.selectExpr("count(1)", "sum(length(key) + length(value))").collect()[0]
        answer["rows"], answer["bytes"] = row[0], row[1]
    began = time.perf_counter()
    write(frame)
    return {"seconds": time.perf_counter() - began, **answer}


def write(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def measure_memory(spark: SparkSession, format_: str, options: dict[str, str]) -> dict[str, Any]:
    """An idle worker's memory, then the peak of the one that reads. To be asked once: a peak never falls."""
    # A data source without rows leaves a worker behind that has imported PySpark and pyarrow and now waits.
    write(spark.read.format("ceiling").options(file="", shapes="[[]]").load())
    idle = max(resident_mb(pid) for pid in python_workers())
    frame = spark.read.format(format_).options(**options).load()
    peaks: dict[int, float] = {}
    done = threading.Event()

    def sample() -> None:
        while not done.is_set():
            for pid in python_workers():
                with contextlib.suppress(OSError):  # it has just ended
                    peaks[pid] = max(peaks.get(pid, 0.0), peak_mb(pid))
            done.wait(SAMPLE_SECONDS)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        began = time.perf_counter()
        write(frame)
        seconds = time.perf_counter() - began
    finally:
        time.sleep(2 * SAMPLE_SECONDS)  # workers stay after their task: the last look sees the final peak
        done.set()
        sampler.join()
    return {"seconds": seconds, "idle_mb": idle, "peak_mb": max(peaks.values())}


def main() -> None:
    format_, cores, *jars = sys.argv[1:]
    spark = session(int(cores), jars)
    if format_ != "kafka":
        from ceiling import Ceiling

        spark.dataSource.register(Ceiling)
    try:
        answer_orders(lambda order: run(spark, format_, order))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
