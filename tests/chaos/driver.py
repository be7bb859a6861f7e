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
            one streaming query into Parquet, until it ends by itself or after `batches` batches. `page`: the address
            of a page to which it reports, with Penstock's listener. Answer: the batches that had data
    {"do": "windows", "format": ..., "options": {...}, "checkpoint": ..., "window": ..., "delay": ...}
            counts all records in windows of their timestamps, with Spark's watermark of that delay. Answer: records
            read, records counted, rows that Spark reports as dropped
    {"do": "pipe", "source": {...}, "sink": {...}, "checkpoint": ..., "trigger": {...}, "windowed": ...}
            one streaming query from Kafka to Kafka. Values are `value <number>`. Each becomes `row <number>`, or they
            are counted in windows of 100 numbers. `trouble`: see `troubled`. Answer: the batches that had data
    {"do": "writes", "sink": {...}, "rows": ..., "tasks": ...}
            batch writes of values `<name of the write> <number>`, one after the other, until the driver is killed or
            `times` is reached. Prints `began <name>` and `done <name>`. Answer: nothing
    {"do": "take", "format": ..., "options": {...}, "rows": ...}
            the first rows of a batch read. Answer: their number
    {"do": "sql", "statements": [...]}
            SQL statements. Answer: the rows of the last one
    {"do": "await", "path": ...}
            waits for the file. Answer: nothing
    {"do": "places", "format": ..., "options": {...}}
            where tasks run. Answer: one [working directory, sys.path, penstock's file] per task
"""

from __future__ import annotations

import json
import random
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
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


def take(spark: SparkSession, step: dict[str, Any]) -> int:
    return len(spark.read.format(step["format"]).options(**step["options"]).load().limit(step["rows"]).collect())


def stream(spark: SparkSession, step: dict[str, Any]) -> list[dict[str, Any]]:
    writer = records(spark.readStream.format(step["format"]).options(**step["options"]).load()).writeStream
    writer = writer.format("parquet").option("checkpointLocation", step["checkpoint"]).trigger(**step["trigger"])
    if "page" in step:
        from penstock.spark import LagListener

        spark.streams.addListener(LagListener(page=step["page"]))
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


def pipe(spark: SparkSession, step: dict[str, Any]) -> list[dict[str, Any]]:
    frame = spark.readStream.format("penstock").options(**step["source"]).load()
    frame = troubled(frame.select("value"), step["trouble"]) if "trouble" in step else frame.select("value")
    number = F.substring(F.col("value").cast("string"), 7, 20).cast("long")  # after "value "
    rows = (
        windows_of(frame, number) if step["windowed"] else frame.select(F.concat(F.lit("row "), number).alias("value"))
    )
    writer = rows.writeStream.format("penstock").options(**step["sink"]).outputMode("append")
    query = writer.option("checkpointLocation", step["checkpoint"]).trigger(**step["trigger"]).start()
    query.awaitTermination()
    return recent(query)


def windows_of(frame: DataFrame, number: Column) -> DataFrame:
    """Windows over an event time of 10 ms per number: they do not depend on when a record was written."""
    events = frame.select(number.alias("number"), F.timestamp_millis(number * 10).alias("at"))
    # Tasks read partitions at different speeds, but by no more than one batch.
    counted = events.withWatermark("at", "20 seconds").groupBy(F.window("at", "1 second"))
    found = counted.agg(F.count("*").alias("count"), F.sum("number").alias("sum"))
    first = F.unix_millis("window.start") / 10
    return found.select(F.concat_ws(" ", first.cast("long"), "count", "sum").alias("value"))


def troubled(frame: DataFrame, trouble: dict[str, Any]) -> DataFrame:
    """The same rows, by tasks that fail or sleep with the probability `chance`, half of them after their last row.

    `seconds`: how long they sleep; without it, they fail. `once`: a file; only the task that creates it has trouble.
    `task`: the only task that has trouble.
    """

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        late = random.random() < 0.5
        if not late:
            have_trouble()
        yield from batches
        if late:
            have_trouble()

    def have_trouble() -> None:
        context = TaskContext.get()
        assert context is not None
        if trouble.get("task", context.partitionId()) != context.partitionId():
            return
        if random.random() < trouble["chance"] and ("once" not in trouble or created(trouble["once"])):
            if "seconds" not in trouble:
                raise RuntimeError("trouble on purpose")
            time.sleep(trouble["seconds"])

    def created(path: str) -> bool:
        try:
            Path(path).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    return frame.mapInArrow(run, frame.schema)


def writes(spark: SparkSession, step: dict[str, Any]) -> None:
    for _ in range(step.get("times", sys.maxsize)):
        name = uuid.uuid4().hex[:8]
        value = F.concat(F.lit(f"{name} "), F.col("id")).alias("value")
        frame = spark.range(0, step["rows"], 1, step["tasks"]).select(value)
        say(f"began {name}")
        frame.write.format("penstock").options(**step["sink"]).mode("append").save()
        say(f"done {name}")


def sql(spark: SparkSession, step: dict[str, Any]) -> list[list[Any]]:
    *before, last = step["statements"]
    for statement in before:
        spark.sql(statement)
    return [list(row) for row in spark.sql(last).collect()]


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


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


STEPS = {
    "read": read,
    "take": take,
    "stream": stream,
    "windows": windows,
    "pipe": pipe,
    "writes": writes,
    "sql": sql,
    "await": await_file,
    "places": places,
}

if __name__ == "__main__":
    main()
