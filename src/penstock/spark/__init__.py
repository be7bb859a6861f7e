"""The front end for PySpark. The only package that imports pyspark."""

import penstock.spark.api  # noqa: F401 (first: it checks the version of PySpark)
from penstock.spark.awaiting import await_end
from penstock.spark.datasource import PenstockDataSource, register
from penstock.spark.listener import LagListener
from penstock.spark.session import configure

__all__ = ["LagListener", "PenstockDataSource", "await_end", "configure", "register"]
