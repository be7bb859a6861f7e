"""A Spark batch write of generated rows: into Penstock, Spark's JVM sink, the noop sink, or the writer that discards.

    spark_write.py CORES [JAR...]

    write     write the rows of a range; returns seconds
    sum       count the rows of the same frame, and evaluate the given sums
    memory    memory of the Python worker that writes, sampled until the write ends

Needs only PySpark for the JVM's sinks, because the JVM sink runs in its own environment.
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


def run(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    frame = spark.range(0, request["rows"], 1, request["tasks"]).selectExpr(*request["columns"])
    match request["do"]:
        case "sum":
            return {"sums": list(frame.selectExpr("count(1)", *request["sums"]).collect()[0])}
        case "write":
            return {"seconds": write(frame, request["format"], request["options"])}
        case "memory":
            return measure_memory(spark, frame, request)
        case unknown:
            raise ValueError(unknown)


def write(frame: DataFrame, format_: str, options: dict[str, str]) -> float:
    mode = "overwrite" if format_ == "noop" else "append"
    began = time.perf_counter()
    frame.write.format(format_).options(**options).mode(mode).save()
    return time.perf_counter() - began


def measure_memory(spark: SparkSession, frame: DataFrame, request: dict[str, Any]) -> dict[str, Any]:
    """Memory of an idle worker, then of the worker that writes. Works once per process: a peak never falls."""
    # Leaves a worker that has imported PySpark and pyarrow and waits.
    write(spark.range(1).selectExpr(*request["columns"]), "discard", {})
    idle = max(resident_mb(pid) for pid in python_workers())
    series: list[float] = []
    peaks: dict[int, float] = {}
    done = threading.Event()

    def sample() -> None:
        while not done.wait(SAMPLE_SECONDS):
            largest = 0.0
            for pid in python_workers():
                with contextlib.suppress(OSError):  # the process has just ended
                    largest = max(largest, resident_mb(pid))
                    peaks[pid] = max(peaks.get(pid, 0.0), peak_mb(pid))
            series.append(largest)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        seconds = write(frame, request["format"], request["options"])
    finally:
        time.sleep(2 * SAMPLE_SECONDS)  # workers outlive their task: the last sample has the final peak
        done.set()
        sampler.join()
    return {"seconds": seconds, "idle_mb": idle, "peak_mb": max(peaks.values()), "series_mb": series}


def main() -> None:
    cores, *jars = sys.argv[1:]
    spark = session(int(cores), jars)
    with contextlib.suppress(ImportError):  # the JVM sink's environment has no pyarrow
        from discard import Discard

        spark.dataSource.register(Discard)
    try:
        serve_requests(lambda request: run(spark, request))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
