"""A Spark driver that reads its steps from a file and writes their results to another.

    python driver.py <order.json>

It runs as a script in any environment with PySpark, so it imports only that. The file has:

    master | remote     where Spark is
    settings            Spark's configuration
    answers             the file that gets one line of JSON per step
    steps               a list of

    {"do": "read", "format": ..., "options": {...}, "path": ...}
            one batch read into Parquet. Answer: rows
    {"do": "stream", "format": ..., "options": {...}, "path": ..., "checkpoint": ..., "trigger": {...}}
            one streaming query into Parquet, until it ends by itself or after `batches` batches. Answer: the batches
            that had data
    {"do": "windows", "format": ..., "options": {...}, "checkpoint": ..., "window": ..., "delay": ...}
            counts all records in windows of their timestamps, with Spark's watermark of that delay. Answer: records
            read, records counted, rows that Spark reports as dropped
    {"do": "await", "path": ...}
            waits for the file. Answer: nothing
    {"do": "places", "format": ..., "options": {...}}
            where tasks run. Answer: one [working directory, sys.path, penstock's file] per task
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as PySpark's own documentation has it)
from pyspark.sql.streaming import StreamingQuery

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
}
COLUMNS = ("topic", "partition", "offset", "value")


def main() -> None:
    order = json.loads(Path(sys.argv[1]).read_text())
    spark = session(order)
    with Path(order["answers"]).open("w") as answers:
        for step in order["steps"]:
            answer = STEPS[step["do"]](spark, step)
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    spark.stop()


def session(order: dict[str, Any]) -> SparkSession:
    if order["remote"]:
        return SparkSession.builder.remote(order["remote"]).getOrCreate()
    builder = SparkSession.builder.master(order["master"])
    for name, value in (SETTINGS | order["settings"]).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def read(spark: SparkSession, step: dict[str, Any]) -> int:
    records(spark.read.format(step["format"]).options(**step["options"]).load()).write.parquet(step["path"])
    return spark.read.parquet(step["path"]).count()


def stream(spark: SparkSession, step: dict[str, Any]) -> list[dict[str, Any]]:
    writer = records(spark.readStream.format(step["format"]).options(**step["options"]).load()).writeStream
    writer = writer.format("parquet").option("checkpointLocation", step["checkpoint"]).trigger(**step["trigger"])
    query = writer.start(step["path"])
    if "batches" in step:
        while query.isActive and len(recent(query)) < step["batches"]:
            time.sleep(0.05)
        query.stop()
    query.awaitTermination()
    return recent(query)


def recent(query: StreamingQuery) -> list[dict[str, Any]]:
    """The batches that had data."""
    progress = [json.loads(each.json) for each in query.recentProgress]
    return [batch(one) for one in progress if one["sources"][0]["numInputRows"] > 0]


def batch(progress: dict[str, Any]) -> dict[str, Any]:
    source = progress["sources"][0]
    names = ("startOffset", "endOffset")
    # Spark Connect has no sum over the sources; there is one source here.
    return {"id": progress["batchId"], "rows": source["numInputRows"], **{name: source[name] for name in names}}


def windows(spark: SparkSession, step: dict[str, Any]) -> dict[str, int]:
    frame = spark.readStream.format(step["format"]).options(**step["options"]).load()
    frame = frame.withWatermark("timestamp", step["delay"]).groupBy(F.window("timestamp", step["window"])).count()
    writer = frame.writeStream.format("memory").queryName("windows").outputMode("update").trigger(availableNow=True)
    query = writer.option("checkpointLocation", step["checkpoint"]).start()
    query.awaitTermination()
    last = spark.table("windows").groupBy("window").agg(F.max("count").alias("count"))
    operators = [operator for each in query.recentProgress for operator in each.stateOperators]
    return {
        "read": sum(each.numInputRows for each in query.recentProgress),
        "counted": last.agg(F.sum("count")).collect()[0][0],
        "dropped": sum(operator.numRowsDroppedByWatermark for operator in operators),
    }


def await_file(spark: SparkSession, step: dict[str, Any]) -> None:
    while not Path(step["path"]).exists():
        time.sleep(0.05)


def places(spark: SparkSession, step: dict[str, Any]) -> list[list[Any]]:
    def look(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        import penstock

        for _ in batches:
            pass
        time.sleep(1)  # so that one executor does not take both tasks while the other one registers
        yield pa.RecordBatch.from_pydict({"place": [json.dumps([str(Path.cwd()), sys.path, penstock.__file__])]})

    frame = spark.read.format(step["format"]).options(**step["options"]).load()
    return [json.loads(row.place) for row in frame.mapInArrow(look, "place string").collect()]


def records(frame: DataFrame) -> DataFrame:
    return frame.select(*COLUMNS)


STEPS = {"read": read, "stream": stream, "windows": windows, "await": await_file, "places": places}

if __name__ == "__main__":
    main()
