"""`df.write.format("penstock")` and `df.writeStream.format("penstock")`: Spark's calls, mapped to `penstock.writer`.

Spark creates a writer for each batch in a planning process, runs `write` on executors, and `commit` or `abort` in
another process on the driver. That one has nothing but the messages of the tasks and the batch id.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.config.sink import SinkOptions, check_notes, parse_sink_options
from penstock.config.sql import write_to_table
from penstock.errors import OptionError
from penstock.spark.api import DataSourceStreamArrowWriter, arrow_schema
from penstock.spark.driver_log import log_to_driver
from penstock.spark.prompt_ack import UnpickledInTask
from penstock.spark.tracebacks import without_traceback
from penstock.writer.names import Kind, SinkScope

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.formats.encoding import Encoding
    from penstock.writer.outcome import TaskOutcome

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Local properties of the tasks of a streaming query."""

SPARKS_OWN = {"checkpointlocation", "queryname"}
"""Options that Spark reads itself, and passes on to the sink."""


class SinkMessage(WriterCommitMessage):
    """The outcome of a task on its way to the driver."""

    def __init__(self, outcome: TaskOutcome, scope: SinkScope | None) -> None:
        self.outcome = outcome
        self.scope = scope


class BatchWriter(UnpickledInTask, DataSourceArrowWriter):
    """Writes a DataFrame to Kafka."""

    def __init__(self, options: SinkOptions, encoding: Encoding | None) -> None:
        self._options = options
        self._encoding = encoding
        self._scope: SinkScope | None = None
        if options.exactly_once:
            if options.query_id is not None:
                self._scope = _scope(options, "query", options.query_id)
            else:
                self._scope = _scope(options, "job", uuid.uuid4().hex)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(self._options, self._encoding, self._scope, self._options.batch_id, iterator)

    @without_traceback
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit(self._options, messages, self._options.batch_id)

    @without_traceback
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _abort(self._options, messages, self._options.batch_id)


class StreamWriter(UnpickledInTask, DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query to Kafka."""

    def __init__(self, options: SinkOptions, encoding: Encoding | None) -> None:
        self._options = options
        self._encoding = encoding

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if not self._options.exactly_once:
            return _write(self._options, self._encoding, None, None, iterator)
        query_id, batch_id = _local_property(QUERY_ID), _local_property(BATCH_ID)
        scope = _scope(self._options, "query", query_id)
        return _write(self._options, self._encoding, scope, int(batch_id), iterator)

    @without_traceback
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _commit(self._options, messages, batchId)

    @without_traceback
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _abort(self._options, messages, batchId)


def batch_writer(given: Mapping[str, str], schema: StructType, overwrite: bool, *, has_tasks: bool) -> BatchWriter:
    """A checked writer of a batch. Called on the driver, once per write. `has_tasks`: whether the engine tells a task
    which one it is."""
    from penstock.writer.start import check_batch_write

    if overwrite:
        raise OptionError("mode", "overwrite", "a topic cannot be overwritten", 'Use mode("append") or INSERT INTO')
    options = _options(given)
    if options.exactly_once and not has_tasks:
        what = "needs Spark: another engine does not tell tasks apart"
        raise OptionError("deliveryGuarantee", "exactly-once", what, "Leave the option out, and write at least once")
    log_to_driver(options.log_level)
    encoding = _encoding(options, schema)
    check_batch_write(options)
    return BatchWriter(options, encoding)


def stream_writer(given: Mapping[str, str], schema: StructType, commits_only: bool) -> StreamWriter:
    """A checked writer of a stream. Called on the driver twice per batch, before its tasks and before its commit.

    `commits_only`: the second time. Output mode `complete` appends the whole result each time, as in Spark's sink.
    """
    from penstock.writer.start import check_stream_write

    options = _options(given)
    log_to_driver(options.log_level)
    if options.query_id is not None:
        raise OptionError("queryId", options.query_id, "is for foreachBatch: a stream knows its query", "Remove it")
    if options.exactly_once:
        check_notes(options)
    if commits_only:
        return StreamWriter(options, None)
    encoding = _encoding(options, schema)
    check_stream_write(options)
    return StreamWriter(options, encoding)


def _options(given: Mapping[str, str]) -> SinkOptions:
    own = {name: value for name, value in given.items() if name.lower() not in SPARKS_OWN}
    return parse_sink_options(write_to_table(own))


def _encoding(options: SinkOptions, schema: StructType) -> Encoding | None:
    """Check the columns, and resolve how typed ones are encoded."""
    from penstock.writer.start import checked_encoding

    if options.transactional_id is not None:
        hint = "Set deliveryGuarantee=exactly-once, and transactionalIdPrefix if needed"
        raise OptionError("kafka.transactional.id", options.transactional_id, "is chosen by the sink", hint)
    return checked_encoding(options, arrow_schema(schema))


def _scope(options: SinkOptions, kind: Kind, id_: str) -> SinkScope:
    return SinkScope(options.prefix, kind, id_, options.topic or "*")


def _local_property(name: str) -> str:
    context = TaskContext.get()
    found = None if context is None else context.getLocalProperty(name)
    assert found is not None, f"a task of a streaming query has the local property {name}"
    return found


def _write(
    options: SinkOptions,
    encoding: Encoding | None,
    scope: SinkScope | None,
    batch: int | None,
    iterator: Iterator[pa.RecordBatch],
) -> SinkMessage:
    from penstock.writer.task import TaskPlace, run_task

    context = TaskContext.get()
    # Sail has no context of a task. At least once, the number only decides where records without a key start.
    assert context is not None or scope is None, "Spark runs write in a task"
    place = TaskPlace(scope, 0 if context is None else context.partitionId(), batch)
    return SinkMessage(run_task(options, place, iterator, encoding), scope)


def _commit(options: SinkOptions, messages: Sequence[WriterCommitMessage | None], batch: int | None) -> None:
    from penstock.writer.commit import Committer
    from penstock.writer.report import log_written

    found = _messages(messages)
    assert len(found) == len(messages), "Spark commits only if all tasks have succeeded"
    outcomes = [message.outcome for message in found]
    scope = _scope_of(found)
    if scope is not None:
        Committer(options, scope, batch).commit(outcomes)
    log_written(outcomes, batch)


def _abort(options: SinkOptions, messages: Sequence[WriterCommitMessage | None], batch: int | None) -> None:
    from penstock.writer.commit import Committer

    scope = _scope_of(_messages(messages))
    if scope is not None:
        outcomes = [message.outcome if isinstance(message, SinkMessage) else None for message in messages]
        Committer(options, scope, batch).abort(outcomes)


def _messages(messages: Sequence[WriterCommitMessage | None]) -> list[SinkMessage]:
    return [message for message in messages if isinstance(message, SinkMessage)]


def _scope_of(messages: Sequence[SinkMessage]) -> SinkScope | None:
    return next((message.scope for message in messages if message.scope is not None), None)
