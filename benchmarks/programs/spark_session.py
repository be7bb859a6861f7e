"""The Spark session of all Spark programs: the same settings for every source."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

HERE = Path(__file__).parent


def session(cores: int, jars: Iterable[str], settings: Mapping[str, str] | None = None) -> SparkSession:
    # Workers import `ceiling` by its name.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH", "")]))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
    )
    if jars := ",".join(jars):
        builder = builder.config("spark.jars", jars)
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
