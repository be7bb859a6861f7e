"""Makes Spark's JVMs start faster: a run of all tests starts about fifty, each for seconds.

Measured on two cores, from the start to a batch and a stream of a few rows: 19 s with Spark's defaults, 12.5 s without
the optimizing compiler and with the serial garbage collector, 8 s with classes from a class data sharing archive. If
the archive is missing or was written by another Java or Spark, JVMs silently start without it.

Set by environment variables, so that it reaches programs that know nothing of tests: examples, the demo, snippets.

`python -m support.spark_jvm` writes the archive; `make test` does that once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ARCHIVE = Path(sys.prefix) / "spark.jsa"
QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
WITHOUT_UI = "-Dspark.ui.enabled=false"  # no web server
SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")

OPTIONS = " ".join([*QUICK_START, f'-XX:SharedArchiveFile="{ARCHIVE}"', *SILENT])
"""JVM options of drivers, servers and executors."""

ENVIRONMENT = {
    "SPARK_SUBMIT_OPTS": f"{OPTIONS} {WITHOUT_UI}",
    "SPARK_LAUNCHER_OPTS": " ".join(QUICK_START),  # of the JVM that only prints the command of the other one
}

_SECONDS = 300


def main() -> None:
    """Let a JVM archive its loaded classes. Not every JVM can: an empty archive marks a failed attempt."""
    unfinished = ARCHIVE.with_suffix(".partial")
    unfinished.unlink(missing_ok=True)
    options = [*QUICK_START, f'-XX:ArchiveClassesAtExit="{unfinished}"', *SILENT]
    reason = f"not within {_SECONDS} s"
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "support.spark_jvm", "load"],
            env=os.environ | {"SPARK_SUBMIT_OPTS": " ".join(options), "PYSPARK_PYTHON": sys.executable},
            capture_output=True, text=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
        failed, reason = ran.returncode != 0, ran.stderr[-1000:]
    except subprocess.TimeoutExpired:
        failed = True
    if failed or not unfinished.exists():
        sys.stderr.write(f"No archive of Spark's classes, so tests take longer: {reason}\n")
        unfinished.unlink(missing_ok=True)
        unfinished.touch()
    unfinished.replace(ARCHIVE)


def load() -> None:
    """Run the steps of most programs under test: a batch and a stream, with Arrow, Python and Parquet."""
    from pyspark.sql import SparkSession

    from fixtures.spark import SETTINGS

    def same(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    with tempfile.TemporaryDirectory() as folder:
        builder = SparkSession.builder.master("local[2]").config("spark.local.dir", folder)
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        rows = spark.range(100).selectExpr("id", "cast(id as string) as value", "id % 7 as key", "now() as timestamp")
        rows.mapInArrow(same, rows.schema).groupBy("key").count().write.parquet(f"{folder}/batch")
        spark.read.parquet(f"{folder}/batch").orderBy("key").collect()
        stream = spark.readStream.format("rate").load().mapInArrow(same, "timestamp timestamp, value long")
        writer = stream.writeStream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
        writer.start(f"{folder}/stream").awaitTermination()
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        spark.stop()
        # The JVM writes the archive at its exit, and it exits when its standard input ends.
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(_SECONDS)


if __name__ == "__main__":
    load() if sys.argv[1:] == ["load"] else main()
