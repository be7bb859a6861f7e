"""`spark.read.format("penstock")`."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from penstock.options import parse_options
from penstock.spark.batch import BatchReader, FilteringBatchReader
from penstock.spark.schema import full_schema

PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
"""The worker in which Spark makes a reader when filter pushdown is on: its presence is how `auto` knows."""


class PenstockDataSource(DataSource):
    """Kafka as a DataFrame, with the options and columns of Spark's own Kafka source."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        # Spark advises against an __init__ of one's own, but with a user's .schema(...) it is the only thing called
        # when the DataFrame is made, and that is when a wrong option should fail.
        self._parsed = parse_options(options)

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        return full_schema(self._parsed.include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        push = self._parsed.push_filters
        if push is None:
            push = PUSHDOWN_WORKER in sys.modules
        return (FilteringBatchReader if push else BatchReader)(self._parsed, schema)


def register(spark: SparkSession) -> None:
    """Make the format known to a session. Only needed where `pyspark_penstock` is not on the path."""
    spark.dataSource.register(PenstockDataSource)
