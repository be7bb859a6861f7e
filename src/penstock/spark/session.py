"""Settings of a Spark session that make Python sources and sinks faster, for the program that starts the session."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import ModuleType
from zipimport import zipimporter

import pyspark
from pyspark.sql import SparkSession

from penstock.masking import get_logger
from penstock.spark import api

log = get_logger(__name__)

UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"

SETTINGS = {UNIX_SOCKETS: "true"}
"""Each of them has its measured gain in docs/streaming.md."""


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Set what makes Penstock faster, and return the builder. A later `.config(...)` overrides it.

        spark = configure(SparkSession.builder).getOrCreate()

    Only a session that does not run yet can be configured. Before PySpark 4.1 there is nothing to set.
    """
    if not api.HAS_UNIX_SOCKETS:
        return builder
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    if (running := SparkSession.getActiveSession()) is not None:
        missing = [name for name, value in SETTINGS.items() if running.conf.get(name, None) != value]
        if missing:
            log.warning("the session already runs, and keeps its %s: configure it before it starts", ", ".join(missing))
    return builder


def advise(environment: Mapping[str, str] = os.environ, pyspark: ModuleType = pyspark) -> None:
    """Log what `configure` and bytecode would gain. Called once per stream, by its planner, which Spark starts as it
    starts workers."""
    if api.HAS_UNIX_SOCKETS and "PYTHON_WORKER_FACTORY_PORT" in environment:
        log.info(
            "Spark talks to its Python workers over TCP. Unix sockets are faster: "
            "penstock.spark.configure(SparkSession.builder), or %s=true, makes it use them",
            UNIX_SOCKETS,
        )
    if isinstance(pyspark.__loader__, zipimporter) and str(pyspark.__file__).endswith(".py"):
        log.info(
            "Spark's Python processes import PySpark from a zip file, and compile it each time. They start faster with "
            "the bytecode that `python -m penstock.spark.pyspark_bytecode` adds to that file"
        )
