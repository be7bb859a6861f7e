"""The Spark part of the demo: a session, a read, an aggregation by windows, and a write."""

from __future__ import annotations

import logging
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Self

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession


SPARK_SETTINGS = {
    "spark.master": "local[2]",
    "spark.app.name": "penstock demo",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
}


def shop_events(spark: SparkSession, options: dict[str, str], topic: str) -> DataFrame:
    """Kafka's columns, with the value as a struct."""
    return (
        spark.read.format("penstock")
        .options(**options)
        .option("subscribe", topic)
        .option("valueFormat", "json")
        .option("valueSchema", "user STRING, action STRING, product STRING, category STRING, price DOUBLE")
        .load()
    )


def seconds_to_read(frame: DataFrame) -> float:
    """How long Spark takes to read every row and column."""
    began = time.monotonic()
    frame.write.format("noop").mode("overwrite").save()
    return time.monotonic() - began


def windows(frame: DataFrame) -> DataFrame:
    """Sales by windows of ten minutes."""
    from pyspark.sql import functions as f

    paid = f.when(f.col("action") == "order", f.col("price"))
    return (
        frame.select("timestamp", "value.*")
        .groupBy(f.window("timestamp", "10 minutes").alias("window"))
        .agg(
            f.count_if(f.col("action") == "view").alias("views"),
            f.count_if(f.col("action") == "cart").alias("carts"),
            f.count_if(f.col("action") == "order").alias("orders"),
            f.round(f.sum(paid), 2).alias("revenue"),
            f.approx_count_distinct(f.when(f.col("action") == "order", f.col("user"))).alias("buyers"),
        )
        .select("window.start", "window.end", "views", "carts", "orders", "revenue", "buyers")
    )


def write(frame: DataFrame, options: dict[str, str], topic: str) -> None:
    """All columns as JSON, exactly once."""
    sink = frame.write.format("penstock").options(**options, topic=topic, deliveryGuarantee="exactly-once")
    sink.options(valueFormat="json", flatten="true").mode("append").save()


class SparkStart:
    """Starts Spark with two cores and without log output, in a thread. All its files are in `scratch`."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._gateway: JavaGateway | None = None
        self._context = ThreadPoolExecutor(1, "penstock-spark").submit(self._start)

    def session(self) -> SparkSession:
        """Wait for Spark, and make a session for the calling thread.

        Not in the thread that starts Spark: a write finds Python sinks only in a thread with an active session.
        """
        from pyspark.sql import SparkSession

        return SparkSession(self._context.result())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._context.done() and self._gateway is not None:
            self._gateway.proc.kill()  # the demo has ended: so does the thread, with an error that is not shown
        if self._context.exception() is None:
            self._context.result().stop()

    def _start(self) -> SparkContext:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway

        os.environ["PYSPARK_PYTHON"] = sys.executable  # workers need the interpreter that has Penstock
        settings = SPARK_SETTINGS | {
            "spark.local.dir": str(self._scratch / "spark"),
            "spark.sql.warehouse.dir": str(self._scratch / "warehouse"),
        }
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        # After Ctrl-C, py4j logs what it was doing, although the demo handles it.
        logging.getLogger().addFilter(lambda record: not record.getMessage().startswith("KeyboardInterrupt while"))
        # The JVM starts with warnings about itself: they go to a file, which is shown if it fails.
        log = self._scratch / "spark.log"
        try:
            with log.open("wb") as out:
                self._gateway = launch_gateway(conf, popen_kwargs={"stderr": out})  # type: ignore[no-untyped-call]
            return SparkContext(conf=conf, gateway=self._gateway)
        except Exception as error:
            output = log.read_text("utf-8", "replace").strip()[-2000:]
            raise PenstockError(f"Spark did not start: {error}\n{output}") from error
