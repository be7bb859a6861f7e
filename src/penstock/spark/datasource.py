"""`spark.read.format("penstock")` and `spark.readStream.format("penstock")`."""

from __future__ import annotations

import sys
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from penstock.config.event_time import default_event_time
from penstock.config.source import check_batch, parse_options
from penstock.formats.plan import TypedSource
from penstock.model.watermark_columns import WATERMARK_COLUMNS
from penstock.spark.batch import BatchReader, FilteringBatchReader
from penstock.spark.driver_log import log_to_driver
from penstock.spark.schema import event_time_field, full_schema, typed_schema, wanted_columns
from penstock.spark.tracebacks import without_traceback

PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
"""The worker in which Spark creates a reader if filter pushdown is enabled. `auto` checks whether it is loaded."""


class PenstockDataSource(DataSource):
    """Kafka as a DataFrame, with the options and columns of Spark's own Kafka source."""

    _source: TypedSource | None = None

    @classmethod
    def name(cls) -> str:
        return "penstock"

    @without_traceback
    def schema(self) -> StructType:
        """Called when the DataFrame is created, so that a wrong option fails here. If the user gives a schema, Spark
        calls nothing before the first action. Whether a batch or a stream follows is unknown here."""
        log_to_driver()
        options = parse_options(self.options)
        if not options.formats.typed:
            watermarks = options.event_time is not None and options.event_time.include_columns
            return full_schema(options.include_headers, watermarks)
        from penstock.sampling.typed_source import typed_source

        # Spark pickles this object after the call: the registry is asked, and records are sampled, only once.
        self._source = typed_source(options)
        event_time_field(options, self._source)  # raises if the option names none of these columns
        return typed_schema(self._source)

    @without_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        options = parse_options(self.options)
        check_batch(options)
        push = options.push_filters
        if push is None:
            push = PUSHDOWN_WORKER in sys.modules
        columns = wanted_columns(options, schema, self._source)
        return (FilteringBatchReader if push else BatchReader)(options, columns)

    @without_traceback
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from penstock.spark.stream import StreamReader

        options = parse_options(self.options)
        if options.event_time is None and not WATERMARK_COLUMNS.keys().isdisjoint(schema.names):
            options = replace(options, event_time=default_event_time(options.formats))
        return StreamReader(options, wanted_columns(options, schema, self._source, is_stream=True))


def register(spark: SparkSession) -> None:
    """Register the format with a session. Only needed if `pyspark_penstock` is not on the path."""
    spark.dataSource.register(PenstockDataSource)
