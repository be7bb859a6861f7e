"""Reads a table with Spark, in an environment of its own: FORMAT PLACE JARS. Prints what it found, as JSON."""

from __future__ import annotations

import json
import sys

if __name__ == "__main__":
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812 (as in PySpark's documentation)

    kind, place, jars = sys.argv[1:]
    builder = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
    )
    if kind == "delta":
        builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension").config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
    rows = builder.getOrCreate().read.format(kind).load(place)
    number = F.col("value").cast("string").cast("int")
    header = F.col("headers")[0]
    [found] = rows.agg(
        F.count("*").alias("rows"),
        F.countDistinct("topic", "partition", "offset").alias("distinct"),
        F.sum(number).alias("values"),
        F.sum("typed.n").alias("typed"),
        F.collect_set(F.col("date").cast("string")).alias("days"),
        F.collect_set(F.array(header["key"], header["value"].cast("string"))).alias("headers"),
    ).collect()
    sys.stdout.write(json.dumps(found.asDict()) + "\n")
