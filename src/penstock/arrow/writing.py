"""Arrow data into Kafka, without Spark.

    with penstock.Writer({"kafka.bootstrap.servers": "broker:9092", "topic": "words"}) as writer:
        writer.write(table)

There is no other thread: rows move during `write` and `flush`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias

from penstock.arrow.input_data import as_kafka_has_it, readers
from penstock.arrow.transaction import Transaction
from penstock.arrow.write_result import WriteResult, merged
from penstock.config.option import warn_of_ignored
from penstock.config.sink import TRANSACTIONAL_ID, SinkOptions, parse_sink_options
from penstock.errors import ColumnError, OptionError, PenstockError
from penstock.metrics.writer import WriterMetrics
from penstock.wire.producer.producer import Producer
from penstock.wire.producer.written import ProducerMetrics
from penstock.writer.record_writer import RecordWriter

Value: TypeAlias = str | int | bool | Sequence[str] | Mapping[str, Any]
"""The Python types of an option: text as in Spark, or a number, a flag, a list or a dict."""


def write_batches(options: Mapping[str, Value] | None = None, data: Any = None, **more: Value) -> WriteResult:
    """Write Arrow data to Kafka. Returns when the brokers have all of it, with what was written to each partition.

    `data`: a pyarrow Table, RecordBatch or RecordBatchReader, a pandas or polars DataFrame, a DuckDB relation, anything
    else with the Arrow stream interface, or an iterable of these. An iterable and a reader are read as they are
    written, so they may be larger than memory.

    Columns: `value` (required), `key`, `headers`, `timestamp`, `partition` and `topic`, as in docs/writer.md. Other
    columns are not written. A wrong column or option raises before the first record is written.

    `options` and `more` are the options of the Spark sink. Names with a dot go into the mapping; others may be
    keywords. With `kafka.transactional.id` the call is one transaction: readers of committed records see all rows or
    none.
    """
    with Writer(options, **more) as writer:
        if not writer.is_transactional:
            writer.write(data)
        else:
            with writer.transaction():
                writer.write(data)
    return writer.result


class Writer:
    """Writes Arrow data to Kafka, in many calls. For one thread at a time.

    Used in a `with` block, which sends everything at its end. If the block raises, what was not sent is discarded.
    """

    def __init__(self, options: Mapping[str, Value] | None = None, **more: Value) -> None:
        """Options of the Spark sink, as for `write_batches`. With `kafka.transactional.id`, everything is written in
        transactions, and the constructor ends those of older writers with the same id."""
        self._options = writer_options({**(options or {}), **more})
        warn_of_ignored(self._options.ignored)
        self._producer = Producer(self._options.client, self._options.producer, self._options.transactional_id)
        self._records: RecordWriter | None = None
        """None: the next write begins with a new identity."""
        self._transaction: Transaction | None = None
        self._kept = WriteResult()
        """With transactions: what was committed. Without: what was written when the writer was closed."""
        self._before = WriteResult()
        """What was committed before the present identity."""
        self._open_since: float | None = None
        """When the oldest rows were written that may not be sent."""
        self._dropped = 0
        """Of earlier identities."""
        self._failure: PenstockError | None = None
        self._is_closed = False
        self._unregister: list[Callable[[], None]] = []
        try:
            if self.is_transactional:
                self._begin()
            elif self._options.topic is not None:
                self._producer.partition_count(self._options.topic)  # an unknown topic fails here
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        topic = self._options.topic
        to = "the topics of the rows" if topic is None else repr(topic)
        return f"Writer({to} at {self._options.client.bootstrap_text}, {self.result.rows:,} rows)"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None and not self._is_closed:
                self.flush()
        finally:
            self.close()

    # --- writing ------------------------------------------------------------------------------------------------------

    @property
    def is_transactional(self) -> bool:
        return self._options.transactional_id is not None

    def write(self, data: Any, topic: str | None = None) -> None:
        """Write data, as for `write_batches`. `topic` replaces the option for this call.

        Full record batches are sent at once. The last ones of a call are sent too, or kept for later calls for up to
        `kafka.linger.ms`. Only `flush`, the end of a transaction and the end of the `with` block wait for the brokers.

        After an error of a broker or of a record the writer cannot continue, except with a new transaction.
        """
        self._check_open()
        if self.is_transactional and self._transaction is None:
            raise RuntimeError(
                "this writer has a transactional id: write inside of `with writer.transaction():`, or remove "
                f"{TRANSACTIONAL_ID}"
            )
        records = self._records or self._begin()
        for reader in readers(data):
            for batch in reader:
                with self._failing():
                    records.write(as_kafka_has_it(batch), topic)
        if self._open_since is None:
            self._open_since = time.monotonic()
        if time.monotonic() - self._open_since >= self._options.producer.linger:
            with self._failing():
                records.send_open()
            self._open_since = None

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """After an error rows may be missing, so every later call raises it again. A wrong column or option is found
        before rows are written."""
        try:
            yield
        except (ColumnError, OptionError):
            raise
        except PenstockError as error:
            self._failure = error
            raise

    def flush(self) -> WriteResult:
        """Send everything, and wait until the brokers have it. Returns what was written since the writer was made."""
        self._check_open()
        if self._records is not None and self._transaction is None:
            with self._failing():
                self._records.flush()
            self._open_since = None
        return self.result

    @property
    def result(self) -> WriteResult:
        """What the brokers have acknowledged, since the writer was made. With transactions: what was committed."""
        if self._records is None or self.is_transactional:
            return self._kept
        return merged(WriteResult(), self._records.written)

    @property
    def metrics(self) -> ProducerMetrics:
        """Counters: rows, bytes, requests, retries."""
        return self._producer.metrics

    def register_prometheus(self, registry: Any = None, name: str | None = None) -> None:
        """Export the metrics to a Prometheus registry until the writer is closed. None means the default registry.
        `name` is the value of the label `writer`; by default the transactional id, or the topic. Requires
        `penstock[prometheus]`."""
        from penstock.metrics.prometheus import register_writer

        self._check_open()
        name = name or self._options.transactional_id or self._options.topic or "topics of the rows"
        self._unregister.append(register_writer(registry, name, self._snapshot))

    def _snapshot(self) -> WriterMetrics:
        """Called by the thread that scrapes."""
        parts = self.result.partitions.items()
        return WriterMetrics(
            self._producer.metrics, {tp: part.last_offset for tp, part in parts if part.last_offset is not None}
        )

    @property
    def dropped(self) -> int:
        """Typed rows that could not be encoded and were left out, by option `mode`. Includes aborted transactions."""
        return self._dropped + (0 if self._records is None else self._records.dropped)

    def close(self) -> None:
        """Close without flushing: what was not sent is discarded, and an open transaction is aborted."""
        if self._transaction is not None:
            self._transaction.abort()
        elif self.is_transactional:
            self._producer.abort_transaction()
        self._kept, self._dropped, self._records, self._is_closed = self.result, self.dropped, None, True
        for unregister in self._unregister:
            unregister()
        self._producer.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("this writer is closed")
        if self._failure is not None:
            raise self._failure

    def _begin(self) -> RecordWriter:
        """A new identity, for which batches are numbered from 0 on."""
        self._before = self._kept
        records = RecordWriter(self._options, self._producer)
        records.begin()
        self._records = records
        return records

    # --- transactions -------------------------------------------------------------------------------------------------

    def transaction(self, consumer: Any = None) -> Transaction:
        """A transaction, for a `with` block: committed at its end, aborted if the block raises.

        `consumer`: a ConsumerConnector, or one of its streams. Its offsets are committed in the transaction, so that
        what was read and what was written from it become visible together: exactly once. If the transaction is
        aborted, the consumer hands out the same records again.
        """
        self._check_open()
        if not self.is_transactional:
            raise OptionError(TRANSACTIONAL_ID, None, "is missing: transactions need it", "Example: words-writer-1")
        if self._transaction is not None:
            raise RuntimeError("this writer has an open transaction: only one at a time")
        if self._records is None:
            self._begin()
        assert self._records is not None
        transaction = Transaction(
            self._producer, consumer, write=self.write, flush=self._records.flush, on_end=self._end_transaction
        )
        self._transaction = transaction
        return transaction

    def _end_transaction(self, committed: bool) -> None:
        """Called by a transaction that has ended."""
        records, self._transaction, self._failure, self._open_since = self._records, None, None, None
        if committed and records is not None:
            self._kept = merged(self._before, records.written)
        if committed and records is not None and self._producer.has_begun:
            records.use_identity()
        else:
            # It may have rows of an aborted transaction: the next one begins with a new identity.
            self._dropped, self._records = self.dropped, None


def writer_options(given: Mapping[str, Any]) -> SinkOptions:
    """Options of a Writer. Refuses those of the Spark sink that have no meaning here."""
    options = parse_sink_options(given)
    if options.exactly_once:
        raise OptionError(
            "deliveryGuarantee",
            options.guarantee,
            "is for Spark, which ends the transactions of its tasks",
            f"Set {TRANSACTIONAL_ID} and use Writer.transaction()",
        )
    if options.query_id is not None:
        raise OptionError("queryId", options.query_id, "is for Spark's foreachBatch", "Remove queryId and batchId")
    if options.transactional_id is not None and not options.producer.idempotent:
        raise OptionError(TRANSACTIONAL_ID, options.transactional_id, "needs kafka.acks=all", "Remove kafka.acks")
    return options
