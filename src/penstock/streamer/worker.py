"""One stream, drained by one thread (I2): take a batch, extract, deliver when it is time to."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConsumerTimeout, CorruptBatch, NoGroupOffset, OffsetOutOfRange, RecordTooLarge
from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.streamer.backlog import Piece
from penstock.streamer.counters import Counters
from penstock.streamer.dead_letters import LetterWriter
from penstock.streamer.delivery import Delivery
from penstock.streamer.extraction import Extracted
from penstock.streamer.run import Job, Release, Run
from penstock.streamer.sinks.sink import Writer

TOLD = 10
"""Failures that are logged one by one out of those of one slice."""

SLICE_SECONDS = 2.0
"""How long records go through an extractor before the thread looks at the clock and at rebalances. A slice of those
that each take a moment, as a question to somebody else does, would take minutes."""


class Consumer(Protocol):
    """As much of a ConsumerConnector as a worker needs."""

    def commit_offsets(self, offsets: Offsets) -> None: ...
    def position(self) -> dict[TopicPartition, int]: ...
    def assignment(self) -> dict[TopicPartition, str]: ...
    def seek(self, offsets: Offsets) -> None: ...
    def pause(self, partitions: Sequence[TopicPartition]) -> None: ...


class Readable(Protocol):
    """As much of a Stream."""

    @property
    def thread_id(self) -> str: ...
    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]: ...


class Worker:
    """Its methods are called by its own thread, but where they say otherwise."""

    def __init__(
        self,
        name: str,
        stream: Readable,
        consumer: Consumer,
        job: Job,
        run: Run,
        writer: Writer,
        letters: LetterWriter | None,
    ) -> None:
        self.name = name
        self._stream = stream
        self._consumer = consumer
        self._job = job
        self._run = run
        self._extraction = job.extraction()
        self._delivery = Delivery(name, job, run, self._extraction, writer, letters, consumer, self._give_up_leaving)
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._taking: TopicPartition | None = None
        """The partition of a batch that is not through yet: the consumer's position is ahead of us there."""
        self._left: set[TopicPartition] = set()
        """Partitions that have left since that batch was taken."""
        self._cut: set[TopicPartition] = set()
        """Partitions of which a batch was not used to its end."""
        self._released: dict[TopicPartition, int] = {}
        """Partitions that are not ours before the group says so for the next time: the consumer lists them a little
        longer, with a position that counts what we let go of."""
        self._tries: dict[TopicPartition | None, int] = {}
        """Errors on the stream since the last record: of a partition, or (None) of no single one."""
        self._last_error: Exception | None = None
        self._read_again_at: dict[TopicPartition, float] = {}
        self._releases: deque[Release] = deque()
        self.is_working = False
        """Whether `work` runs. Any thread."""

    @property
    def counters(self) -> Counters:
        """Any thread."""
        return self._delivery.counters

    # --- the membership thread --------------------------------------------------------------------------------------

    def release(self, release: Release) -> None:
        """Partitions leave. The caller waits for the answer."""
        self._releases.append(release)
        self._delivery.wake()

    def wake(self) -> None:
        """Any thread: the run is to stop."""
        self._delivery.wake()

    # --- its own thread ---------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Drain the stream until the run is to stop; then write and commit what is left (I4)."""
        self.is_working = True
        try:
            while not self._run.stopping.is_set():
                if self._releases:
                    self._let_go()
                batch = self._next()
                if batch is None:
                    self._note_positions()
                    self._stop_at_the_end()
                else:
                    self._take(batch)
                self._look()
            self._note_positions()
            self._delivery.deliver()
        finally:
            self.is_working = False
            while self._releases:
                self._part_with(self._releases[0])

    def _next(self) -> pa.RecordBatch | None:
        """The next batch; None if none came for a short while."""
        if self._batches is None:
            self._batches = self._stream.batches(self._job.columns)
        try:
            return next(self._batches)
        except ConsumerTimeout:
            self._batches = None
        except StopIteration:
            self._run.stop()  # somebody has shut the connector down
        except Exception as error:
            self._batches = None
            self._stream_failed(error)
        return None

    def _stream_failed(self, error: Exception) -> None:
        """I3: an error on the stream is tried again. Where it stands in one partition's way, that one is read again
        after a while and the others go on meanwhile; from other errors the connector recovers by itself."""
        if error is self._last_error or isinstance(error, OffsetOutOfRange | NoGroupOffset):
            raise error  # it has ended the connector, which raises it again and again; or somebody wants it to be one
        self._last_error = error
        tp = None
        if isinstance(error, CorruptBatch | RecordTooLarge):
            tp = TopicPartition(error.topic, error.partition)
            if tp not in self._consumer.assignment():
                return  # it has left
            self._read_again_at[tp] = time.monotonic() + self._job.retry_timeout
        tries = self._tries.get(tp, 0)
        if not self._delivery.may_retry(tries, error, f"{tp or self._job.topic} cannot be read"):
            raise error
        self._tries[tp] = tries + 1

    def _read_again(self, tp: TopicPartition) -> None:
        del self._read_again_at[tp]
        position = self._consumer.position().get(tp)
        if position is not None:
            with suppress(ValueError):  # it has left in this moment
                self._consumer.seek({tp: position})

    # records

    def _take(self, batch: pa.RecordBatch) -> None:
        tp = TopicPartition(self._job.topic, batch.column("partition")[0].as_py())
        for read in (tp, None):
            self._tries.pop(read, None)
        batch = self._wanted(tp, batch)
        step = min(self._extraction.slice or self._job.limits.rows, self._job.limits.rows)
        self._taking = tp
        self._left.clear()
        began, at = time.monotonic(), 0
        while at < batch.num_rows:
            records = batch.slice(at, step)
            extracted = self._extraction.extract(tp, records, SLICE_SECONDS)
            records = records.slice(0, extracted.through)
            at += records.num_rows
            self._keep(tp, records, extracted)
            self._look()
            if tp in self._left:
                break  # the rest is somebody else's now
            if self._run.is_over or (self._run.is_hurried and time.monotonic() - began >= SLICE_SECONDS):
                self._cut.add(tp)
                break
        self._taking = None

    def _wanted(self, tp: TopicPartition, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What of a batch lies before the end, and within the limit."""
        ends = self._run.ends
        if ends is not None:
            inside = pc.sum(pc.less(batch.column("offset"), ends.get(tp, 0))).as_py()
            if inside < batch.num_rows:
                batch = batch.slice(0, inside)
                with suppress(ValueError):  # it has left since the batch was handed out
                    self._consumer.pause([tp])
        granted = self._run.grant(batch.num_rows)
        if granted < batch.num_rows:
            self._cut.add(tp)
        if self._run.has_enough:
            self._run.stop()
        return batch.slice(0, granted)

    def _keep(self, tp: TopicPartition, records: pa.RecordBatch, extracted: Extracted) -> None:
        delivery, failures = self._delivery, extracted.failures
        delivery.counters.records += records.num_rows
        delivery.counters.skipped += extracted.skipped
        kept = records
        if failures:
            for number, (at, error) in enumerate(failures):
                delivery.failed(tp, records.slice(at, 1), "extractor", error, quietly=number >= TOLD)
            if len(failures) > TOLD:
                delivery.say(f"{len(failures) - TOLD} more of the next {records.num_rows} messages failed")
            failed = {failure.at for failure in failures}
            kept = records.take(pa.array([at for at in range(records.num_rows) if at not in failed], pa.int64()))
        if extracted.rows is not None:
            delivery.backlog.add(Piece(tp, kept, extracted.rows))
        delivery.backlog.reached(tp, records.column("offset")[-1].as_py() + 1, time.monotonic())
        if kept.num_rows:
            delivery.count_failures("extractor", 0, None)
        elif failures:
            delivery.count_failures("extractor", len(failures), failures[-1].error)

    # between two batches, or slices of one

    def _look(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        if self._releases:
            self._let_go()
        elif self._delivery.deliver_what_is_due(now):
            self._stop_at_the_end()
        for tp in [tp for tp, due in self._read_again_at.items() if now >= due]:
            self._read_again(tp)

    def _note_positions(self) -> None:
        """Where everything handed out is held or delivered, the consumer's position counts: it is past transaction
        markers and other gaps that end in no record. It also keeps the place of a partition that begins at its end."""
        if self._delivery.has_given_up:
            return
        self._released = {tp: at for tp, at in self._released.items() if at == self._run.assignments}
        mine = [tp for tp, thread in self._consumer.assignment().items() if thread == self._stream.thread_id]
        positions = self._consumer.position()
        ends, now = self._run.ends, time.monotonic()
        for tp in mine:
            if tp == self._taking or tp in self._cut or tp in self._released or tp not in positions:
                continue
            if ends is not None and tp not in ends:
                continue
            position = positions[tp] if ends is None else min(positions[tp], ends[tp])
            if self._delivery.committed.get(tp) != position:
                self._delivery.backlog.reached(tp, position, now)

    def _stop_at_the_end(self) -> None:
        """Stop the run if all partitions that are ours have been read to where they are to be read."""
        ends, expected = self._run.ends, self._run.expected
        if ends is None or expected is None:
            return
        positions = self._consumer.position()
        if all(positions.get(tp, -1) >= ends.get(tp, 0) for tp in expected):
            self._run.stop()

    # partitions that leave

    def _let_go(self) -> None:
        """Partitions leave: write and commit first, if there is time."""
        self._note_positions()
        releases = list(self._releases)
        for release in releases:
            if release.is_late:
                self._delivery.forget(self._leaving(release), "the group did not wait any longer")
        self._delivery.deliver()
        for release in releases:
            if release in self._releases:
                self._part_with(release)

    def _give_up_leaving(self) -> None:
        """A try to deliver has failed: others can have these partitions without waiting for the next."""
        while self._releases:
            self._delivery.forget(self._leaving(self._releases[0]), "the sink does not take them, and they leave")
            self._part_with(self._releases[0])

    def _part_with(self, release: Release) -> None:
        leaving = self._leaving(release)
        self._delivery.forget(leaving, "they leave")
        for tp in leaving:
            self._tries.pop(tp, None)
            self._read_again_at.pop(tp, None)
        self._released |= dict.fromkeys(leaving, self._run.assignments)
        self._cut -= leaving
        self._left |= leaving
        self._releases.remove(release)
        release.answered.set()

    def _leaving(self, release: Release) -> frozenset[TopicPartition]:
        """What a release takes from us. After one that was not answered in time, partitions may have come back: what
        is held is then of both times. To write it all and commit is right; to forget it would lose the later part."""
        if not release.is_late:
            return release.partitions
        mine = self._consumer.assignment()
        return frozenset(tp for tp in release.partitions if mine.get(tp) != self._stream.thread_id)
