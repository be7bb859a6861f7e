"""Fixtures: a Spark session, small and quiet."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session of two cores for all tests of a worker. What a test sets on it, it takes back."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers need the interpreter that has Penstock
    scratch = tmp_path_factory.mktemp("spark")
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # PySpark's own, about the packages around it
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").appName("penstock tests")
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        builder = builder.config("spark.local.dir", str(scratch / "local"))
        session = builder.config("spark.sql.warehouse.dir", str(scratch / "warehouse")).getOrCreate()
    yield session
    session.stop()
    # Spark leaves the gateway's process for the next session; after the last one it would only be in the way.
    gateway = session.sparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(120)
