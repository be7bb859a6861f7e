"""The format `penstock` of `spark.read`, `spark.readStream`, `df.write` and `df.writeStream`."""

from __future__ import annotations

import sys
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.config.event_time import default_event_time
from penstock.config.source import SourceOptions, check_batch, parse_options
from penstock.config.sql import FORMAT, is_create_table, options_of_table, read_of_table, read_options
from penstock.config.times import now_ms
from penstock.errors import OptionError
from penstock.formats.plan import TypedPlan, TypedSource
from penstock.model.expression import Where
from penstock.model.watermark_columns import WATERMARK_COLUMNS
from penstock.spark import api
from penstock.spark.batch import BatchReader
from penstock.spark.driver_log import log_to_driver
from penstock.spark.import_folders import add_folders, known_folders
from penstock.spark.schema import event_time_field, raw_schema, typed_schema, wanted_columns
from penstock.spark.table_options import kept_options, with_options
from penstock.spark.tracebacks import without_traceback
from penstock.spark.worker_heap import freeze_heap
from penstock.spark.worker_python import warn_of_other_python

PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
"""The worker in which Spark creates a reader if filter pushdown is enabled. `auto` checks whether it is loaded."""

COMMIT_WORKER = "pyspark.sql.worker.python_streaming_sink_runner"
"""The worker in which Spark creates a stream's writer to commit or abort a batch."""


class PenstockDataSource(DataSource):
    """Kafka as a DataFrame, with the options and columns of Spark's own Kafka source and sink."""

    _source: TypedSource | None = None
    _where: Where | None = None

    def __init__(self, options: dict[str, str]) -> None:
        """Called when the DataFrame is made. Spark pickles this object afterwards, and every later call, in other
        processes, gets a copy. So all agree on the moment from which relative times count."""
        super().__init__(options)
        self._made_at = now_ms()
        self._folders = known_folders()
        freeze_heap()

    @classmethod
    def name(cls) -> str:
        return FORMAT

    @without_traceback
    def schema(self) -> StructType:
        """Called when the DataFrame is created, so that a wrong option fails here. If the user gives a schema, Spark
        calls nothing before the first action. Whether a batch or a stream follows is unknown here."""
        if not is_create_table(self.options):
            return self._columns(parse_options(read_options(self.options), self._made_at))
        kept = options_of_table(self.options)
        return with_options(self._columns(parse_options(kept, self._made_at)), kept)

    def _columns(self, options: SourceOptions) -> StructType:
        log_to_driver(options.log_level)
        watermarks = options.event_time is not None and options.event_time.include_columns
        if not options.builds_columns:
            return raw_schema(options.columns, options.include_headers, watermarks)
        from penstock.sampling.typed_source import typed_source

        # Spark pickles this object after the call: the registry is asked, records are sampled, and a predicate is
        # parsed only once.
        self._source = typed_source(options)
        self._where = self._source.parse_where(options.where)
        event_time_field(options, self._source)  # raises if the option names none of these columns
        if not options.formats.typed:
            return raw_schema(options.columns, options.include_headers, watermarks)
        return typed_schema(self._source, options.columns)

    @without_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        schema = api.spark_schema(schema)
        options = self._read_options(schema)
        check_batch(options)
        columns = wanted_columns(options, schema, self._source, self._where)
        if not _pushes(options):
            return BatchReader(options, columns)
        from penstock.spark.filtering_batch import FilteringBatchReader

        return FilteringBatchReader(options, columns)

    @without_traceback
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        add_folders(self._folders)
        options = self._read_options(schema)
        if options.event_time is None and not WATERMARK_COLUMNS.keys().isdisjoint(schema.names):
            options = replace(options, event_time=default_event_time(options.formats))
        columns = wanted_columns(options, schema, self._source, self._where, is_stream=True)
        if options.stream.end_of_stream == "any" and not (isinstance(columns, TypedPlan) and columns.may_end):
            hint = "Set valueFormat to a class with is_end_of_stream"
            raise OptionError("endOfStream", "any", "has no effect: no deserializer can end the stream", hint)
        if api.PASSES_START:
            from penstock.spark.admission_stream import AdmissionStreamReader

            return AdmissionStreamReader(options, columns)
        from penstock.spark.tracking_stream import TrackingStreamReader

        return TrackingStreamReader(options, columns)

    def _read_options(self, schema: StructType) -> SourceOptions:
        return parse_options(read_of_table(self.options, kept_options(schema)), self._made_at)

    @without_traceback
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.spark.sink import batch_writer

        has_tasks = isinstance(schema, StructType)
        return batch_writer(self.options, api.spark_schema(schema), overwrite, has_tasks=has_tasks)

    @without_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from penstock.spark.sink import stream_writer

        # Truncation stands for output mode `complete`: Spark's own sink appends the whole result each time, too.
        return stream_writer(self.options, schema, commits_only=COMMIT_WORKER in sys.modules)


def _pushes(options: SourceOptions) -> bool:
    """Whether filters are pushed down."""
    if options.push_filters is None:
        return PUSHDOWN_WORKER in sys.modules
    if options.push_filters and not api.HAS_FILTERS:
        hint = "Remove the option, and name partitions, offsets and times in options instead"
        raise OptionError("filterPushdown", "true", f"needs PySpark 4.1, and this is {api.VERSION}", hint)
    return options.push_filters


def register(spark: SparkSession) -> None:
    """Register the format with a session. Only needed if `pyspark_penstock` is not on the path.

    Logs a warning if Spark's Python workers run another interpreter, which may not have the package.
    """
    warn_of_other_python()
    spark.dataSource.register(PenstockDataSource)
