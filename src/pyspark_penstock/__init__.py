"""PySpark looks for packages named pyspark_* and registers their DefaultSource: this is how `penstock` is known."""

from penstock.spark.datasource import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]
