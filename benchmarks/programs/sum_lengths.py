"""A batch that adds up the lengths of all values, on Spark or on Sail.

    sum_lengths.py ENGINE FORMAT [JAR...]        ENGINE: sail, or the number of Spark's cores;  FORMAT: penstock, kafka

Needs only PySpark, or pysail and PySpark's client, because both run in environments of their own.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from pyspark.sql import SparkSession
from serving import serve_requests


def run(spark: SparkSession, format_: str, request: dict[str, Any]) -> dict[str, Any]:
    began = time.perf_counter()
    frame = spark.read.format(format_).options(**request["options"]).load()
    rows, size = frame.selectExpr("count(1)", "sum(length(value))").collect()[0]
    return {"seconds": time.perf_counter() - began, "rows": rows, "bytes": size}


def main() -> None:
    engine, format_, *jars = sys.argv[1:]
    if engine == "sail":
        from pysail.spark import SparkConnectServer

        server = SparkConnectServer(port=0)  # kept until the end: without a reference to it, it shuts down
        server.start(background=True)
        spark = SparkSession.builder.remote(f"sc://localhost:{server.listening_address[1]}").getOrCreate()
    else:
        import spark_session  # not at the top: Sail's environment has PySpark's client only

        spark = spark_session.session(int(engine), jars)
    try:
        serve_requests(lambda request: run(spark, format_, request))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
