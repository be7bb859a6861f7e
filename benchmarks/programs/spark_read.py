"""A Spark batch read of all seven columns into the noop sink: Penstock, Spark's JVM source, or the ceiling.

    spark_read.py FORMAT CORES [JAR...]        FORMAT: penstock, kafka, ceiling

Needs only PySpark, because the JVM source runs in its own environment.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Any

from process_figures import peak_mb, python_workers, resident_mb
from pyspark.sql import DataFrame, SparkSession
from serving import serve_requests
from spark_session import session

SAMPLE_SECONDS = 0.1


def run(spark: SparkSession, format_: str, request: dict[str, Any]) -> dict[str, Any]:
    options = dict(request["options"])
    if format_ != "ceiling":
        options["kafka.bootstrap.servers"] = request["bootstrap"]
    if request["do"] == "memory":
        return measure_memory(spark, format_, options)
    began = time.perf_counter()
    frame = spark.read.format(format_).options(**options).load()
    load_seconds = time.perf_counter() - began
    answer: dict[str, Any] = {"load_seconds": load_seconds, "rows": request["rows"], "bytes": 0}
    if request.get("verify"):
        row = frame.selectExpr("count(1)", "sum(length(key) + length(value))").collect()[0]
        answer["rows"], answer["bytes"] = row[0], row[1]
    began = time.perf_counter()
    write(frame)
    return {"seconds": time.perf_counter() - began, **answer}


def write(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def measure_memory(spark: SparkSession, format_: str, options: dict[str, str]) -> dict[str, Any]:
    """Memory of an idle worker, then the peak of the worker that reads. Works once per process: a peak never falls."""
    # A data source without rows leaves a worker that has imported PySpark and pyarrow and waits.
    write(spark.read.format("ceiling").options(file="", shapes="[[]]").load())
    idle = max(resident_mb(pid) for pid in python_workers())
    frame = spark.read.format(format_).options(**options).load()
    peaks: dict[int, float] = {}
    done = threading.Event()

    def sample() -> None:
        while not done.is_set():
            for pid in python_workers():
                with contextlib.suppress(OSError):  # the process has just ended
                    peaks[pid] = max(peaks.get(pid, 0.0), peak_mb(pid))
            done.wait(SAMPLE_SECONDS)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        began = time.perf_counter()
        write(frame)
        seconds = time.perf_counter() - began
    finally:
        time.sleep(2 * SAMPLE_SECONDS)  # workers outlive their task: the last sample is the final peak
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
        serve_requests(lambda request: run(spark, format_, request))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
