"""The front end for PySpark. The only package that imports pyspark."""

from penstock.spark.datasource import PenstockDataSource, register

__all__ = ["PenstockDataSource", "register"]
