"""Runs queries on Sail, in the environment of Sail: reads a list of steps as JSON, writes a list of answers.

{"read": OPTIONS, "schema": DDL?, "where": SQL?, "select": [SQL...]}    rows, or the error
{"write": OPTIONS, "select": [SQL...], "rows": N}                       null, or the error
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession


def main() -> None:
    server = SparkConnectServer(port=0)
    server.start(background=True)
    spark = SparkSession.builder.remote(f"sc://localhost:{server.listening_address[1]}").getOrCreate()
    answers = []
    for step in json.load(sys.stdin):
        try:
            answers.append({"rows": run(spark, step)})
        except Exception as error:  # the tests look at it
            answers.append({"error": str(error)})
    spark.stop()
    server.stop()
    json.dump(answers, sys.stdout)


def run(spark: SparkSession, step: dict[str, Any]) -> list[list[Any]] | None:
    if "write" in step:
        frame = spark.range(step["rows"]).selectExpr(*step["select"])
        frame.write.format("penstock").options(**step["write"]).mode("append").save()
        return None
    reader = spark.read.format("penstock").options(**step["read"])
    frame = (reader.schema(step["schema"]) if "schema" in step else reader).load()
    if "where" in step:
        frame = frame.where(step["where"])
    return [list(row) for row in frame.selectExpr(*step["select"]).collect()]


if __name__ == "__main__":
    main()
