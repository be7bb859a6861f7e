"""Streamer: copies topics to a sink with several threads, at least once, or exactly once into a table.

    with penstock.Streamer("clicks", 4, sink=penstock.ParquetSink("clicks"), config=config) as streamer:
        streamer.wait()

Each thread reads one stream of a ConsumerConnector (I2). Offsets are committed after the sink has stored their rows. So
after a crash, a rebalance or an outage of the database, records may be written twice and are never lost. A sink that
stores offsets with the rows has each record once: the Streamer continues from the table (I5).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack, cast

from penstock.consumer.connector import ConsumerConnector
from penstock.consumer.stream.stream import Stream
from penstock.consumer.subscription import TopicFilter
from penstock.errors import PenstockError, SinkError
from penstock.masking import get_logger
from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.streamer.config import StreamerSettings, streamer_config, topic_filter
from penstock.streamer.counters import StreamerMetrics, summed
from penstock.streamer.dead_letters import LetterWriter
from penstock.streamer.other_members import OtherMembers
from penstock.streamer.run import Revocation, Run
from penstock.streamer.sinks.sink import Sink, Writer
from penstock.streamer.sinks.table import TableWriter
from penstock.streamer.table_offsets import TableOffsets, new_partitions
from penstock.streamer.table_start import TableStart
from penstock.streamer.worker import Worker
from penstock.wire.cluster import Cluster

log = get_logger(__name__)

STOP_SECONDS = 30.0
REVOKE_SECONDS = 30.0
"""The longest time for which a rebalance waits until the sink has stored the rows of revoked partitions."""


class Streamer:
    """Reads a topic and writes it to a sink until it is stopped. Any thread may call any method."""

    def __init__(
        self,
        topic: str | Sequence[str] | TopicFilter,
        threads: int = 1,
        extractor: Callable[[Any], Any] | None = None,
        sink: Sink | Callable[[Any], object] | None = None,
        **settings: Unpack[StreamerSettings],
    ) -> None:
        """`topic`: the topic to read, a list of topics, or a filter such as `penstock.AllowTopics("shop-.*")`.

        `threads`: the number of threads; each reads one stream. More threads than partitions are idle.

        `extractor`: a function that turns a message (topic, partition, offset, timestamp, headers, key, value) into a
        row, a dict or a tuple, or None for no row. Without an extractor the records' columns go to the sink unchanged,
        which is fastest. It may be called twice for the same records.

        `sink`: a DeltaSink or IcebergSink, which store each record exactly once, a ParquetSink, an AdbcSink, an object
        with their methods, or a function that gets a `pyarrow.Table` or a list of rows.

        Further keyword arguments:

        - `config`: Kafka's settings, as a ConsumerConnector takes them. Required. With `valueFormat` or `keyFormat`,
          rows have typed columns (docs/formats.md).
        - `extracts`: `"row"`, `"rows"` if the extractor returns an iterable of rows (the default for a generator
          function), or `"batch"` if it turns a `pyarrow.RecordBatch` of records into one of rows.
        - `schema`: the Arrow schema of the extractor's rows. Required if the sink takes only Arrow.
        - `columns`: the columns to read.
        - `where`: a predicate in SQL over Kafka's columns (docs/where.md). Other records are committed, but not
          extracted.
        - `key_decoder`, `value_decoder`: functions of bytes, for the key and value of a message.
        - `dead_letter`: the destination of messages that fail: the name of a topic, a DeadLetterTopic, or a function
          that gets a list.
        - `start`: where to begin when the whole group starts.
        - `until_end`: stop at the end that the topic has when the Streamer starts. Partitions of other members count,
          too: the Streamer waits until they are committed up to there, or are its own.
        - `limit`: stop after this number of records.
        - `flush_rows`, `flush_bytes`, `flush_interval` (seconds): the limits at which a thread writes the rows that it
          holds, and commits. Default: the sink's limits.
        - `retry_timeout` (seconds): the pause after an error of the sink or the stream. Default: 5.
        - `max_retries`: the number of consecutive retries before the Streamer fails. Default: no limit.
        - `max_failures`: the number of consecutive messages that may fail. Default: 1000; None: no limit.
        """
        self._config = streamer_config(topic, threads, extractor, sink, settings)
        self.topic = self._config.topic
        self.threads = self._config.threads
        self.group = self._config.consumer.group
        self._lock = threading.Lock()
        self._run: Run | None = None
        self._connector: ConsumerConnector | None = None
        self._table: TableOffsets | None = None
        self._at_table: TableStart | None = None
        self._others: OtherMembers | None = None
        self._workers: list[Worker] = []
        self._threads: list[threading.Thread] = []
        self._working = 0
        self._is_awaited = False
        self._ended = threading.Event()

    def __repr__(self) -> str:
        return f"Streamer({self.topic!r}, threads={self.threads}, sink={self._config.sink!r})"

    # --- life -------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Open the sink, join the group and start the threads. Returns at once. Raises if something cannot work."""
        with self._lock:
            if self._run is not None:
                raise RuntimeError("this Streamer was started before. Create another one")
            ends = self._ends() if self._config.until_end else None
            self._run = Run(self._wake_all, ends, self._config.limit)
            if ends is not None:
                consumer = self._config.consumer
                self._others = OtherMembers(consumer.client, consumer.group, ends)
        opened: list[Writer | LetterWriter] = []
        try:
            if self._config.stores_offsets:
                self._start_at_table(opened)
            writers = [self._open(f"{self.topic}-{number}", opened) for number in range(self.threads)]
            connector = ConsumerConnector(self._config.consumer_settings, start=self._config.start)
            self._connector = connector
            connector.set_rebalance_listener(_Listener(self))
            streams = self._create_streams(connector)
        except BaseException:
            for one in opened:
                one.close()
            self._close(0.0)
            raise
        for number, (stream, (writer, letters)) in enumerate(zip(streams, writers, strict=True)):
            name = f"penstock-streamer-{self.topic}-{number}"
            worker = Worker(
                *(name, stream, connector, self._config, self._run, writer, letters, self._table),
                check_log=self._check_log,
                others_have_ended=self._others_have_ended,
            )
            self._workers.append(worker)
        self._working = len(self._workers)
        for worker, pair in zip(self._workers, writers, strict=True):
            thread = threading.Thread(target=self._work, args=[worker, pair], name=worker.name, daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def stop(self, timeout: float = STOP_SECONDS) -> None:
        """Let the threads write and commit the rows that they hold, and end (I4). Rows that the sink does not store
        before the time-out are not committed, and their records are read again."""
        if self._run is None:
            return
        deadline = time.monotonic() + timeout
        self._run.stop(timeout)
        if threading.current_thread() in self._threads:
            return  # called by the sink: a thread cannot wait for itself
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                log.error(
                    "%s did not end within %g s: the sink, the extractor or a commit is still running",
                    *(thread.name, timeout),
                )
        self._close(max(1.0, deadline - time.monotonic()))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the Streamer has ended: by `stop`, at the end of the topic, or by an error, which is raised here.
        Returns False after the time-out."""
        if self._run is None:
            raise RuntimeError("this Streamer was not started")
        self._is_awaited = True
        if not self._ended.wait(timeout):
            return False
        if self._run.error is not None:
            raise self._run.error
        return True

    join = wait

    @property
    def error(self) -> BaseException | None:
        """The error with which the Streamer failed, if it did."""
        return None if self._run is None else self._run.error

    @property
    def is_running(self) -> bool:
        return self._run is not None and not self._ended.is_set()

    def metrics(self) -> StreamerMetrics:
        """The counts so far."""
        lags = self._connector.lag() if self._connector is not None and not self._ended.is_set() else {}
        lag, now = sum(lags.values()) if lags else None, time.monotonic()
        flushes = [seconds for each in self._workers if (seconds := each.seconds_to_flush(now)) is not None]
        return summed(
            [worker.counters for worker in self._workers],
            lag,
            self._run.last_error if self._run else None,
            min(flushes, default=None),
        )

    def __enter__(self) -> Self:
        return self if self._run is not None else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if kind is None and self.error is not None:
            raise self.error

    # --- inside -----------------------------------------------------------------------------------------------------

    def _ends(self) -> Offsets:
        """The ends that the topics have now."""
        cluster, topics = Cluster(self._config.consumer.client), self._config.topics
        listed = cluster.metadata(topics if isinstance(topics, tuple) else None).topics
        names = listed if isinstance(topics, tuple) else topics.allowed(list(listed))
        return cluster.end(
            [TopicPartition(name, number) for name in sorted(names) for number in listed[name].partitions]
        )

    def _create_streams(self, connector: ConsumerConnector) -> list[Stream]:
        """One stream per thread. All read all topics."""
        topics = self._config.topics
        if isinstance(topics, tuple) and len(topics) == 1:
            return connector.create_message_streams({topics[0]: self.threads})[topics[0]]
        return connector.create_message_streams_by_filter(topic_filter(topics), self.threads)

    def _start_at_table(self, opened: list[Writer | LetterWriter]) -> None:
        """Prepare for a sink that stores offsets. The membership thread has a writer of its own, to read them."""
        assert self._run is not None
        sink, consumer = self._config.sink, self._config.consumer
        self._table = TableOffsets(str(sink))
        writer = cast(TableWriter, self._opened_sink(f"{self.topic}-offsets"))
        opened.append(writer)
        self._at_table = TableStart(consumer.client, consumer.group, self._table, writer, self._run.stopping.wait)

    def _check_log(self, tp: TopicPartition, offset: int) -> None:
        """Any worker."""
        if self._at_table is not None:
            self._at_table.check_log(tp, offset)

    def _others_have_ended(self, mine: Collection[TopicPartition]) -> bool:
        """Any worker."""
        return self._others is None or self._others.have_ended(mine)

    def _open(self, thread: str, opened: list[Writer | LetterWriter]) -> tuple[Writer, LetterWriter | None]:
        config = self._config
        writer = self._opened_sink(thread)
        opened.append(writer)
        letters = None
        if config.dead_letters is not None:
            letters = config.dead_letters.open(config.consumer.client, config.consumer.group)
            opened.append(letters)
        return writer, letters

    def _opened_sink(self, thread: str) -> Writer:
        sink = self._config.sink
        try:
            return sink.open(thread)
        except PenstockError:
            raise
        except Exception as error:
            raise SinkError(f"{sink!r} cannot be opened. {type(error).__name__}: {error}") from error

    def _work(self, worker: Worker, writers: tuple[Writer, LetterWriter | None]) -> None:
        """Runs in a worker's thread from start to end."""
        assert self._run is not None
        try:
            worker.work()
        except BaseException as error:
            # `wait` raises it.
            level = logging.INFO if self._is_awaited else logging.ERROR
            log.log(level, "%s has failed. %s: %s", worker.name, type(error).__name__, error)
            self._run.fail(error)
        for one in writers:
            if one is not None:
                try:
                    one.close()
                except Exception as error:
                    log.warning("%s: closing failed: %s", worker.name, error)
        with self._lock:
            self._working -= 1
            last = self._working == 0
        if last:
            self._close(STOP_SECONDS)

    def _close(self, timeout: float) -> None:
        """Leave the group. The last worker and the caller of `stop` call it; the second call does nothing."""
        if self._connector is not None:
            self._connector.shutdown(timeout)
        if self._at_table is not None:
            self._at_table.close()
        self._ended.set()

    def _wake_all(self) -> None:
        for worker in self._workers:
            worker.wake()


class _Listener:
    """Passes rebalances on to the workers. The membership thread calls it."""

    def __init__(self, streamer: Streamer) -> None:
        self._streamer = streamer

    def revoked(self, owned: list[TopicPartition]) -> None:
        """Let every worker write and commit what it holds of these partitions, and wait for that."""
        streamer = self._streamer
        assert streamer._run is not None
        streamer._run.expected = None
        seconds = min(REVOKE_SECONDS, streamer._config.consumer.rebalance_timeout / 2, streamer._run.remaining)
        deadline = time.monotonic() + seconds
        asked = []
        for worker in streamer._workers:
            revocation = Revocation(frozenset(owned), deadline)
            worker.revoke(revocation)
            asked.append((revocation, worker))
        for revocation, worker in asked:
            while not revocation.done.wait(0.1) and worker.is_working:
                if revocation.is_late:
                    log.warning(
                        "%s did not write its records of revoked partitions within %g s: they will be read again",
                        *(worker.name, seconds),
                    )
                    break

    def assigned(self, consumer_id: str, assignment: Mapping[str, Mapping[int, str]]) -> None:
        streamer = self._streamer
        assert streamer._run is not None
        assert streamer._connector is not None
        if streamer._at_table is not None and not self._seek_to_table(streamer._at_table):
            return
        # Not by the ids in the assignment: two members may have the same consumer.id.
        streamer._run.expected = streamer._connector.assigned()
        streamer._run.assignments += 1

    def _seek_to_table(self, at_table: TableStart) -> bool:
        """Start new partitions at the table's offsets (I5). If that fails, the Streamer fails: at the group's offsets
        records may be in the table already."""
        streamer = self._streamer
        assert streamer._run is not None
        assert streamer._connector is not None
        connector = streamer._connector
        try:
            seconds = min(REVOKE_SECONDS, streamer._config.consumer.rebalance_timeout / 2)
            connector.seek(at_table.assigned(new_partitions(connector.assigned(), connector.assignment()), seconds))
        except Exception as error:
            log.error("%s: partitions cannot start at the table's offsets: %s", streamer, error)
            streamer._run.fail(error)
            return False
        return True
