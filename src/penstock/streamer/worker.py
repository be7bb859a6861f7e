"""Worker: one thread that reads one stream (I2), extracts rows and delivers them when a flush limit is reached."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import (
    ConsumerTimeout,
    CorruptBatch,
    DeserializerFailed,
    IncompatibleSchema,
    MalformedRecord,
    NoGroupOffset,
    OffsetOutOfRange,
    OptionError,
    PredicateFailed,
    RecordTooLarge,
    RegistryError,
    RegistryRefused,
    SchemaNotFound,
    UnreadableSchema,
)
from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.streamer.backlog import Piece, from_offset
from penstock.streamer.config import StreamerConfig
from penstock.streamer.counters import Counters
from penstock.streamer.dead_letters import LetterWriter
from penstock.streamer.delivery import Delivery
from penstock.streamer.extraction import Extracted
from penstock.streamer.run import Revocation, Run
from penstock.streamer.sinks.sink import Writer
from penstock.streamer.table_offsets import TableOffsets, truncated

NOT_RETRIABLE = (
    MalformedRecord,
    DeserializerFailed,
    PredicateFailed,
    OptionError,
    RegistryRefused,
    SchemaNotFound,
    UnreadableSchema,
    IncompatibleSchema,
)
"""Errors of typed columns that the same records give again."""

LOGGED_FAILURES = 10
"""Failures of one slice that are logged one by one."""

SLICE_SECONDS = 2.0
"""How long an extractor runs before the thread checks flush limits and rebalances. A slice can take minutes if the
extractor calls another service for each message."""


class Consumer(Protocol):
    """The part of a ConsumerConnector that a worker needs."""

    def commit_offsets(self, offsets: Offsets) -> None: ...
    def position(self) -> dict[TopicPartition, int]: ...
    def assignment(self) -> dict[TopicPartition, str]: ...
    def seek(self, offsets: Offsets) -> None: ...
    def pause(self, partitions: Sequence[TopicPartition]) -> None: ...


class Readable(Protocol):
    """The part of a Stream that a worker needs."""

    @property
    def thread_id(self) -> str: ...
    def batches(self, columns: Sequence[str] | None, *, where: str | None = None) -> Iterator[pa.RecordBatch]: ...


class Worker:
    """Its own thread calls its methods, unless they say otherwise."""

    def __init__(
        self,
        name: str,
        stream: Readable,
        consumer: Consumer,
        config: StreamerConfig,
        run: Run,
        writer: Writer,
        letters: LetterWriter | None,
        table: TableOffsets | None = None,
        check_log: Callable[[TopicPartition, int], None] = lambda tp, offset: None,
        others_have_ended: Callable[[Collection[TopicPartition]], bool] = lambda mine: True,
    ) -> None:
        """`table`: the offsets of a sink that stores them. `check_log` is called when records come again: it raises if
        they are those of another log. `others_have_ended`: whether all partitions but the given ones are read to their
        ends."""
        self.name = name
        self._stream = stream
        self._consumer = consumer
        self._config = config
        self._run = run
        self._extraction = config.extraction()
        self._delivery = Delivery(
            name, config, run, self._extraction, writer, letters, consumer, self._give_up_revoked, table
        )
        self._table = table
        self._check_log = check_log
        self._others_have_ended = others_have_ended
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._taking: TopicPartition | None = None
        """The partition of the batch in progress: the consumer's position is ahead of the extracted records there."""
        self._revoked_meanwhile: set[TopicPartition] = set()
        """Partitions that were revoked while that batch was in progress."""
        self._cut: set[TopicPartition] = set()
        """Partitions of which a batch was not read to its end."""
        self._revoked: dict[TopicPartition, int] = {}
        """Revoked partitions, each with the number of the assignment before. Until the next assignment the consumer
        still lists them, with a position that counts dropped records."""
        self._read_to: dict[TopicPartition, tuple[int, int]] = {}
        """For a sink that stores offsets: the number of the assignment in which a partition was read last, and how
        far."""
        self._tries: dict[TopicPartition | None, int] = {}
        """Errors of the stream since the last record, by partition; None: errors of no single partition."""
        self._last_error: Exception | None = None
        self._read_again_at: dict[TopicPartition, float] = {}
        self._revocations: deque[Revocation] = deque()
        self.is_working = False
        """Whether `work` runs. Any thread."""

    @property
    def counters(self) -> Counters:
        """Any thread."""
        return self._delivery.counters

    def seconds_to_flush(self, now: float) -> float | None:
        """The seconds until it writes the records that it holds; None if it holds none. Any thread."""
        return self._delivery.seconds_to_flush(now)

    # --- the membership thread --------------------------------------------------------------------------------------

    def revoke(self, revocation: Revocation) -> None:
        """Write and commit what is held of revoked partitions. The caller waits for `revocation.done`."""
        self._revocations.append(revocation)
        self._delivery.wake()

    def wake(self) -> None:
        """Any thread: check now whether to stop."""
        self._delivery.wake()

    # --- its own thread ---------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Read the stream until the run stops; then write and commit the rest (I4)."""
        self.is_working = True
        try:
            while not self._run.stopping.is_set():
                if self._revocations:
                    self._handle_revocations()
                batch = self._next()
                if batch is None:
                    self._note_positions()
                    self._stop_at_the_end()
                else:
                    self._take(batch)
                self._do_due_work()
            self._note_positions()
            self._delivery.deliver()
        finally:
            self.is_working = False
            while self._revocations:
                self._finish(self._revocations[0])

    def _next(self) -> pa.RecordBatch | None:
        """The next batch; None if none arrived within the poll interval."""
        if self._batches is None:
            self._batches = self._stream.batches(self._config.columns, where=self._config.where)
        try:
            return next(self._batches)
        except ConsumerTimeout:
            self._batches = None
        except StopIteration:
            self._run.stop()  # the connector was shut down
        except Exception as error:
            self._batches = None
            self._stream_failed(error)
        return None

    def _stream_failed(self, error: Exception) -> None:
        """I3: retry after an error of the stream. If the error concerns one partition, that one is read again after
        `retry_timeout` while the others continue; from other errors the connector recovers by itself."""
        if error is self._last_error or isinstance(error, OffsetOutOfRange | NoGroupOffset):
            raise error  # it has ended the connector, which raises it forever; or auto.offset.reset is none
        self._last_error = error
        tp = None
        if isinstance(error, CorruptBatch | RecordTooLarge):
            tp = TopicPartition(error.topic, error.partition)
            if tp not in self._consumer.assignment():
                return  # it was revoked
            self._read_again_at[tp] = time.monotonic() + self._config.retry_timeout
        tries = self._tries.get(tp, 0)
        if isinstance(error, NOT_RETRIABLE):
            raise error
        if not self._delivery.may_retry(tries, error, f"{tp or self._config.topic} cannot be read"):
            raise error
        self._tries[tp] = tries + 1
        if isinstance(error, RegistryError):
            self._delivery.pause()  # the next batch asks again at once

    def _read_again(self, tp: TopicPartition) -> None:
        del self._read_again_at[tp]
        position = self._consumer.position().get(tp)
        if position is not None:
            with suppress(ValueError):  # it was revoked in this moment
                self._consumer.seek({tp: position})

    # records

    def _take(self, batch: pa.RecordBatch) -> None:
        tp = self._partition_of(batch)
        if self._table is not None and not self._table.has(tp):
            return  # its assignment has failed, which ends the Streamer
        for read in (tp, None):
            self._tries.pop(read, None)
        batch = self._wanted(tp, batch)
        step = min(self._extraction.slice or self._config.limits.rows, self._config.limits.rows)
        self._taking = tp
        self._revoked_meanwhile.clear()
        began, at = time.monotonic(), 0
        while at < batch.num_rows:
            records = batch.slice(at, step)
            extracted = self._extraction.extract(tp, records, SLICE_SECONDS)
            records = records.slice(0, extracted.through)
            at += records.num_rows
            self._keep(tp, records, extracted)
            self._do_due_work()
            if tp in self._revoked_meanwhile:
                break  # another member reads the rest
            if self._run.is_past_deadline or (self._run.has_deadline and time.monotonic() - began >= SLICE_SECONDS):
                self._cut.add(tp)
                break
        self._taking = None

    def _partition_of(self, batch: pa.RecordBatch) -> TopicPartition:
        """All records of a batch are of one partition."""
        place, topics = self._config.place, self._config.topics
        one_topic = isinstance(topics, tuple) and len(topics) == 1
        topic = topics[0] if one_topic else batch.column(place.topic)[0].as_py()  # type: ignore[index]
        return TopicPartition(topic, batch.column(place.partition)[0].as_py())

    def _new(self, tp: TopicPartition, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The part of a batch that is neither in the table nor held already.

        A late revocation may be followed by an assignment, while records from before are held. And another member may
        have stored more than this one has read.
        """
        if self._table is None:
            return batch
        floor, offset_column = self._delivery.floor(tp), self._config.place.offset
        offsets = batch.column(offset_column)
        first, assignment = offsets[0].as_py(), self._run.assignments
        read_in, read_to = self._read_to.get(tp, (-1, 0))
        self._read_to[tp] = assignment, offsets[-1].as_py() + 1
        if floor is None or first >= floor:
            return batch
        self._check_log(tp, floor)
        if assignment == read_in and first < read_to:
            raise truncated(self._table.table, tp, first, floor)
        rest = from_offset(batch, offset_column, floor)
        self._delivery.already_stored(batch.num_rows - rest.num_rows)
        return rest

    def _wanted(self, tp: TopicPartition, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The part of a batch that is before the end and within the limit."""
        batch = self._new(tp, batch)
        ends = self._run.ends
        if ends is not None:
            inside = pc.sum(pc.less(batch.column(self._config.place.offset), ends.get(tp, 0))).as_py() or 0
            if inside < batch.num_rows:
                batch = batch.slice(0, inside)
                with suppress(ValueError):  # it was revoked after the batch was read
                    self._consumer.pause([tp])
        granted = self._run.grant(batch.num_rows)
        if granted < batch.num_rows:
            self._cut.add(tp)
        if self._run.reached_limit:
            self._run.stop()
        return batch.slice(0, granted)

    def _keep(self, tp: TopicPartition, records: pa.RecordBatch, extracted: Extracted) -> None:
        delivery, failures = self._delivery, extracted.failures
        delivery.counters.records += records.num_rows
        delivery.counters.skipped += extracted.skipped
        kept = records
        if failures:
            for number, (at, error) in enumerate(failures):
                delivery.failed(tp, records.slice(at, 1), "extractor", error, quietly=number >= LOGGED_FAILURES)
            if len(failures) > LOGGED_FAILURES:
                delivery.log_error(
                    f"{len(failures) - LOGGED_FAILURES} more of the next {records.num_rows} messages failed"
                )
            failed = {failure.at for failure in failures}
            kept = records.take(pa.array([at for at in range(records.num_rows) if at not in failed], pa.int64()))
        if extracted.rows is not None:
            delivery.backlog.add(Piece(tp, kept, extracted.rows, self._config.place.offset))
        last = records.column(self._config.place.offset)[-1].as_py()
        delivery.backlog.reached(tp, last + 1, time.monotonic())
        if kept.num_rows:
            delivery.count_failures("extractor", 0, None)
        elif failures:
            delivery.count_failures("extractor", len(failures), failures[-1].error)

    # between two batches, or slices of one

    def _do_due_work(self) -> None:
        """Revocations, delivery, and partitions that are to be read again."""
        now = time.monotonic()
        if self._revocations:
            self._handle_revocations()
        elif self._delivery.deliver_if_due(now):
            self._stop_at_the_end()
        for tp in [tp for tp, due in self._read_again_at.items() if now >= due]:
            self._read_again(tp)

    def _note_positions(self) -> None:
        """Take over the consumer's positions where every record it returned is held or delivered. They are past
        transaction markers and other gaps without a record, and hold the start of a partition that began at its end."""
        if self._delivery.has_given_up:
            return
        self._revoked = {tp: at for tp, at in self._revoked.items() if at == self._run.assignments}
        mine = [tp for tp, thread in self._consumer.assignment().items() if thread == self._stream.thread_id]
        positions = self._consumer.position()
        ends, now = self._run.ends, time.monotonic()
        for tp in mine:
            if tp == self._taking or tp in self._cut or tp in self._revoked or tp not in positions:
                continue
            if ends is not None and tp not in ends:
                continue
            position = positions[tp] if ends is None else min(positions[tp], ends[tp])
            if self._table is not None and (not self._table.has(tp) or position < (self._delivery.floor(tp) or 0)):
                continue
            if self._delivery.committed.get(tp) != position:
                self._delivery.backlog.reached(tp, position, now)

    def _stop_at_the_end(self) -> None:
        """Stop the run if all partitions have been read to their ends: the assigned ones here, others elsewhere."""
        ends, expected = self._run.ends, self._run.expected
        if ends is None or expected is None:
            return
        positions = self._consumer.position()
        if not all(positions.get(tp, -1) >= ends.get(tp, 0) for tp in expected):
            return
        if self._others_have_ended(expected):
            self._run.stop()
        elif self._delivery.backlog.since is not None:
            self._delivery.deliver()  # other members may wait for these commits

    # revoked partitions

    def _handle_revocations(self) -> None:
        """Write and commit what is held of revoked partitions, if there is time."""
        self._note_positions()
        revocations = list(self._revocations)
        for revocation in revocations:
            if revocation.is_late:
                self._delivery.drop(self._lost_to(revocation), "the group did not wait any longer")
        self._delivery.deliver()
        for revocation in revocations:
            if revocation in self._revocations:
                self._finish(revocation)

    def _give_up_revoked(self) -> None:
        """After a failed try to deliver: hand over revoked partitions without waiting for the retry."""
        while self._revocations:
            reason = "the sink does not take them, and their partitions are revoked"
            self._delivery.drop(self._lost_to(self._revocations[0]), reason)
            self._finish(self._revocations[0])

    def _finish(self, revocation: Revocation) -> None:
        lost = self._lost_to(revocation)
        self._delivery.drop(lost, "their partitions are revoked")
        for tp in lost:
            self._tries.pop(tp, None)
            self._read_again_at.pop(tp, None)
        self._revoked |= dict.fromkeys(lost, self._run.assignments)
        self._cut -= lost
        self._revoked_meanwhile |= lost
        self._revocations.remove(revocation)
        revocation.done.set()

    def _lost_to(self, revocation: Revocation) -> frozenset[TopicPartition]:
        """The partitions that a revocation takes away. After a late one, partitions may be assigned again, and the held
        records are from both times: writing and committing all of them is right, dropping them would lose the later
        part."""
        if not revocation.is_late:
            return revocation.partitions
        mine = self._consumer.assignment()
        return frozenset(tp for tp in revocation.partitions if mine.get(tp) != self._stream.thread_id)
