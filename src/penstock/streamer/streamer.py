"""Kafka into a sink, with as many threads as one likes, at least once.

    with penstock.Streamer("clicks", 4, sink=penstock.ParquetSink("clicks"), config=config) as streamer:
        streamer.wait()

The high-level consumer's user: a connector's streams, each drained by its own thread (I2). Offsets are committed after
the sink has what they stand for, so whatever happens in between, a crash, a rebalance, a database that is down, records
may come twice and are never lost.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from penstock.config.consumer import ConsumerConfig, parse_config
from penstock.consumer.connector import ConsumerConnector
from penstock.consumer.start import Start
from penstock.errors import OptionError, PenstockError, SinkError
from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.streamer.arguments import (
    checked_config,
    checked_dead_letter,
    checked_extraction,
    checked_number,
    checked_sink,
    checked_threads,
    checked_topic,
    columns_to_read,
    limits,
    needs_arrow,
)
from penstock.streamer.counters import StreamerMetrics, summed
from penstock.streamer.dead_letters import DeadLetter, DeadLetters, LetterWriter
from penstock.streamer.run import Job, Release, Run
from penstock.streamer.sinks.sink import Sink, Writer, check_limits
from penstock.streamer.worker import Worker
from penstock.wire.cluster import Cluster

log = logging.getLogger(__name__)

LOOK_MS = 200
"""How long a thread waits for records before it looks at the clock, at rebalances and whether to stop."""

STOP_SECONDS = 30.0
RELEASE_SECONDS = 30.0
"""How long the group waits for a sink to take what is held of partitions that leave."""


class Streamer:
    """Reads a topic and writes it to a sink until it is stopped. Every method may be called by any thread."""

    def __init__(
        self,
        topic: str,
        threads: int = 1,
        extractor: Callable[[Any], Any] | None = None,
        sink: Sink | Callable[[Any], object] | None = None,
        *,
        config: Mapping[str, object] | None = None,
        extracts: str | None = None,
        schema: pa.Schema | None = None,
        columns: Sequence[str] | None = None,
        key_decoder: Callable[[bytes], Any] | None = None,
        value_decoder: Callable[[bytes], Any] | None = None,
        dead_letter: str | DeadLetters | Callable[[list[DeadLetter]], object] | None = None,
        start: Start | None = None,
        until_end: bool = False,
        limit: int | None = None,
        flush_rows: int | None = None,
        flush_bytes: int | None = None,
        flush_interval: float | None = None,
        retry_timeout: float = 5.0,
        max_retries: int | None = None,
        max_failures: int | None = 1000,
    ) -> None:
        """`topic`, `threads`: one stream of the topic for each thread; more threads than partitions are idle.

        `extractor`: a function from a message (topic, partition, offset, timestamp, headers, key, value) to a row, a
        dict or a tuple, or to None for none. `extracts="rows"`: to an iterable of rows (a generator function says so
        by itself). `extracts="batch"`: from a `pyarrow.RecordBatch` of records to one of rows. It may be called twice
        for the same records. Without an extractor the records' columns go to the sink as they are, which is fastest.

        `sink`: ParquetSink, AdbcSink, anything with their methods, or a function that gets a `pyarrow.Table`, or a list
        of rows. `schema`: what an extractor's rows are as Arrow; needed where the sink takes nothing else.

        `config`: Kafka's settings, as a connector takes them. `columns`: which to read. `start`: where to begin when
        the whole group starts. `until_end`: stop where the topic ends at the start; `limit`: after so many records.

        `dead_letter`: where messages go that fail: a topic's name, a DeadLetterTopic, or a function that gets a list.

        `flush_rows`, `flush_bytes`, `flush_interval` (seconds): when a thread writes to the sink what it has, and
        commits; whatever comes first. Without them it is as the sink likes it.

        `retry_timeout` (seconds): the pause after an error of the sink or the stream; `max_retries`: how often in a row
        before the Streamer fails (None: for ever). `max_failures`: how many messages in a row may fail.
        """
        self.topic = checked_topic(topic)
        self.threads = checked_threads(threads)
        self._sink = checked_sink(sink)
        self._settings = checked_config(config) | {"enable.auto.commit": "false", "consumer.timeout.ms": str(LOOK_MS)}
        self._config: ConsumerConfig = parse_config(self._settings)
        if self._config.formats.typed:
            raise OptionError("valueFormat", None, "is for streams", "A Streamer's extractor makes rows of messages")
        self._extraction = checked_extraction(
            extractor, extracts, schema, columns, key_decoder, value_decoder, needs_arrow(self._sink)
        )
        self._dead_letter = checked_dead_letter(dead_letter, self.topic)
        self._start = start
        self._until_end = until_end
        self._limit = limit
        for name, value, least in (
            ("limit", limit, 1),
            ("max_retries", max_retries, 0),
            ("max_failures", max_failures, 0),
        ):
            checked_number(name, value, least)
        check_limits({}, {"retry_timeout": retry_timeout})
        self._job = Job(
            topic=self.topic,
            columns=columns_to_read(columns, extractor is not None, self._dead_letter is not None),
            extraction=self._extraction,
            limits=limits(self._sink, flush_rows, flush_bytes, flush_interval),
            retry_timeout=retry_timeout,
            max_retries=max_retries,
            max_failures=max_failures,
        )
        self._lock = threading.Lock()
        self._run: Run | None = None
        self._connector: ConsumerConnector | None = None
        self._workers: list[Worker] = []
        self._threads: list[threading.Thread] = []
        self._working = 0
        self._is_awaited = False
        self._ended = threading.Event()

    def __repr__(self) -> str:
        return f"Streamer({self.topic!r}, threads={self.threads}, sink={self._sink!r})"

    # --- life -------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Open the sink, join the group and begin; returns at once. Raises what cannot work."""
        with self._lock:
            if self._run is not None:
                raise RuntimeError("a Streamer is started once: make another one")
            ends = self._ends() if self._until_end else None
            self._run = Run(self._wake_all, ends, self._limit)
        opened: list[Writer | LetterWriter] = []
        try:
            places = [self._open(f"{self.topic}-{number}", opened) for number in range(self.threads)]
            connector = ConsumerConnector(self._settings, start=self._start)
            self._connector = connector
            connector.set_rebalance_listener(_Listener(self))
            streams = connector.create_message_streams({self.topic: self.threads})[self.topic]
        except BaseException:
            for one in opened:
                one.close()
            self._close(0.0)
            raise
        for number, (stream, (writer, letters)) in enumerate(zip(streams, places, strict=True)):
            name = f"penstock-streamer-{self.topic}-{number}"
            self._workers.append(Worker(name, stream, connector, self._job, self._run, writer, letters))
        self._working = len(self._workers)
        for worker, place in zip(self._workers, places, strict=True):
            thread = threading.Thread(target=self._work, args=[worker, place], name=worker.name, daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def stop(self, timeout: float = STOP_SECONDS) -> None:
        """Let the threads write and commit what they have, and end them (I4). What a sink does not take in that time is
        not committed and comes again."""
        if self._run is None:
            return
        deadline = time.monotonic() + timeout
        self._run.stop(timeout)
        if threading.current_thread() in self._threads:
            return  # a sink that has seen enough: its own thread cannot wait for itself
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                where = "the sink, the extractor or a commit"
                log.error("%s did not end within %g s: it is still in %s", thread.name, timeout, where)
        self._close(max(1.0, deadline - time.monotonic()))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended: by `stop`, at the end of the topic, or by an error, which is raised here. Returns
        False if that takes longer."""
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
        """What it failed with."""
        return None if self._run is None else self._run.error

    @property
    def is_running(self) -> bool:
        return self._run is not None and not self._ended.is_set()

    def metrics(self) -> StreamerMetrics:
        """What was done so far."""
        lags = self._connector.lag() if self._connector is not None and not self._ended.is_set() else {}
        lag = sum(lags.values()) if lags else None
        return summed([worker.counters for worker in self._workers], lag, self._run.last_error if self._run else None)

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
        cluster = Cluster(self._config.client)
        partitions = cluster.metadata((self.topic,)).topics[self.topic].partitions
        return cluster.end([TopicPartition(self.topic, partition) for partition in partitions])

    def _open(self, thread: str, opened: list[Writer | LetterWriter]) -> tuple[Writer, LetterWriter | None]:
        try:
            writer = self._sink.open(thread)
        except PenstockError:
            raise
        except Exception as error:
            raise SinkError(f"{self._sink!r} cannot be opened. {type(error).__name__}: {error}") from error
        opened.append(writer)
        letters = None
        if self._dead_letter is not None:
            letters = self._dead_letter.open(self._config.client, self._config.group)
            opened.append(letters)
        return writer, letters

    def _work(self, worker: Worker, place: tuple[Writer, LetterWriter | None]) -> None:
        """The life of a worker's thread."""
        assert self._run is not None
        try:
            worker.work()
        except BaseException as error:
            # Whoever waits gets it raised.
            level = logging.INFO if self._is_awaited else logging.ERROR
            log.log(level, "%s has failed. %s: %s", worker.name, type(error).__name__, error)
            self._run.fail(error)
        for one in place:
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
        """Leave the group. Called by the last thread, and by who stops: whoever comes first."""
        if self._connector is not None:
            self._connector.shutdown(timeout)
        self._ended.set()

    def _wake_all(self) -> None:
        for worker in self._workers:
            worker.wake()


class _Listener:
    """A rebalance, told to the workers. Called by the membership thread."""

    def __init__(self, streamer: Streamer) -> None:
        self._streamer = streamer

    def revoked(self, owned: list[TopicPartition]) -> None:
        """Every thread is to write and commit what it has of these; the group waits for a while."""
        streamer = self._streamer
        assert streamer._run is not None
        streamer._run.expected = None
        release_seconds = min(RELEASE_SECONDS, streamer._config.rebalance_timeout / 2, streamer._run.remaining)
        deadline = time.monotonic() + release_seconds
        asked = []
        for worker in streamer._workers:
            release = Release(frozenset(owned), deadline)
            worker.release(release)
            asked.append((release, worker))
        for release, worker in asked:
            while not release.answered.wait(0.1) and worker.is_working:
                if release.is_late:
                    log.warning(
                        "%s has not written within %g s what it holds of partitions that leave: it will come again",
                        worker.name,
                        release_seconds,
                    )
                    break

    def assigned(self, consumer_id: str, assignment: Mapping[str, Mapping[int, str]]) -> None:
        streamer = self._streamer
        assert streamer._run is not None
        assert streamer._connector is not None
        # Not by the ids in the assignment: two members may have been given the same consumer.id.
        streamer._run.expected = streamer._connector.assigned()
        streamer._run.assignments += 1
