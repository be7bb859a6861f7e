"""Dead letters of a task that reads one range of offsets: each is written once, however often the task runs.

The guarantee holds for readers of committed records (`isolation.level=read_committed`). For every record that could not
be decoded there is one letter, even if its task is retried, runs twice at the same time, is killed at any moment, or
reads the same records again, as `foreachBatch` often does. Letters are in the topic before the task ends. They do not
wait for Spark's sink: a batch that fails later leaves its letters, and its replay does not repeat them. Readers of
uncommitted records also see the letters of killed attempts.

How: a task buffers letters until it ends, or until it has four megabytes of them. It then writes them in one Kafka
transaction, together with a note: the offsets that have a letter. The note is the metadata of an offset that is
committed for a private group, which never has members. A task that begins a transaction fences every other attempt with
the same transactional id, and Kafka aborts the transaction of that attempt. The task then reads the note, and skips
the letters that it lists. So reading and writing the note is one step, as if under a lock. A fenced attempt begins
again, reads how far the other attempt came, and writes the rest.

Rejected alternatives:
- One transaction for a whole task, open from its first letter on. A task may take longer than the 15 minutes that
  brokers allow, and readers of committed records would wait for it. After a commit, a retry would not know of it.
  Transactions here last milliseconds.
- A transactional id, or a group, for each range. A broker remembers each for a week: a stream with a bad record in each
  micro-batch would leave millions. There is one group for each scope, and one id for each source partition in it.
  Ranges of a split partition share the id: they fence each other, and begin again.
- Asking the coordinator how the last transaction ended (DescribeTransactions). The coordinator forgets it when a
  producer takes the id, and before that it may change: two concurrent attempts would write twice.

Limits: a scope does not know the notes of another scope (`scope.py`). A note lists the newest letters one by one, some
hundreds or more. A record that fails in one attempt only (a failed lookup of a user's class, a registry that was
behind) gets its letter, even if other letters of its range were written before. Of older offsets, a note keeps fifty
spans that are done; adjacent spans are one. A record in such a span that fails for the first time gets no letter. A
record that fails in one attempt and is decoded in another one is both a letter and a row. Brokers delete a note after a
week without a new one (`offsets.retention.minutes`). A truncated log has new records at offsets that count as done; a
recreated topic does not, because a note names topic ids.

Permissions beyond the topic: `Write` on transactional ids and `Read` on groups with the prefix `penstock-letters:`.
Without the latter, letters are still written whole or not at all, but an attempt cannot know that an earlier one has
committed; a warning says so. Without the former, `transactional=False` writes plainly, at least once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from types import TracebackType
from typing import Self

import pyarrow as pa

from penstock.dead_letters.letter import DeadLetter, fault_letters
from penstock.dead_letters.letter_writer import (
    SizeLimits,
    TopicWriter,
    letter_settings,
    send_letters,
    settle_refusal,
)
from penstock.dead_letters.scope import PREFIX, LetterNames, LetterScope, letter_names
from penstock.dead_letters.written_offsets import WrittenOffsets, parse_note
from penstock.errors import AuthorizationFailed, TransactionLost, UnknownTopic, UnwritableRecord
from penstock.masking import get_logger
from penstock.model.offset_range import OffsetRange
from penstock.model.topic_partition import TopicPartition
from penstock.wire.client_config import ClientConfig
from penstock.wire.cluster import Topic
from penstock.wire.producer.producer import Producer
from penstock.wire.producer.transaction_client import TransactionClient
from penstock.wire.transport.retry import Attempts

log = get_logger(__name__)

BUFFERED_BYTES = 4 << 20
"""A transaction takes about ten requests: too many for each batch of 500 kB, and cheap for eight of them."""

LETTER_BYTES = 500
"""Size of a letter beside its record: the headers that say why, and Python objects."""

BACKOFF_SECONDS = 5.0
"""Longest wait between two attempts. A task that begins ends the transactions of others, so with many tasks most must
wait for one to commit. Measured with ranges of one partition that end at the same time, and 5 ms of network: 16 have
committed after 7 s, 40 after 17 s. Without that network 16 need a second."""


def check_topic(config: ClientConfig, topic: str, transactional: bool = True) -> None:
    """Check that tasks will be able to write letters, as far as the driver can tell before anything is read."""
    cluster = TransactionClient(config)
    _, unknown = cluster.listing((topic,))
    if unknown:
        raise UnknownTopic(topic, detail="option deadLetterTopic names it. Create it first")
    if transactional:
        names = letter_names("", topic, TopicPartition(topic, 0))  # only permissions are checked: nothing is written
        try:
            cluster.check_transactional_id(names.transactional_id)
        except AuthorizationFailed as error:
            raise _explained(error) from error
        try:
            cluster.commits(names.group, [TopicPartition(topic, 0)])
        except AuthorizationFailed as error:
            _warn(names.group, str(error))


class _LetterCut(Exception):
    """A letter is too large for the topic, and goes without some of its parts in the next attempt."""


class RangeLetters:
    """The letters of one task about one range. Connects to no broker before the first letter. For one thread.

    Leaving its `with` block discards buffered letters: only `finish` makes them durable. Letters are written once for
    each scope, so all attempts at a task must have the same one.
    """

    def __init__(
        self, config: ClientConfig, topic: str, range_: OffsetRange, scope: LetterScope, transactional: bool = True
    ) -> None:
        self._config = config
        self._topic = topic
        self._range = range_
        self._names = letter_names(scope.name, topic, range_.topic_partition)
        self._earlier_names = (
            None if scope.earlier is None else letter_names(scope.earlier, topic, range_.topic_partition)
        )
        self._transactional = transactional
        self._may_use_group = True
        self._next_offset = range_.start
        """The offset after the last letter. All offsets below count as done once that letter is written."""
        self._buffered: list[DeadLetter] = []
        self._buffered_bytes = 0
        self._written = 0
        self._limits = SizeLimits()
        self._producer: Producer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()
        if self._producer is not None:
            self._producer.close()

    def add(self, records: pa.RecordBatch, faults: Sequence[tuple[int, str, str]]) -> None:
        """Take the records at fault: (row, column, reason). Batches must come in the order of their offsets.

        Writes the buffered letters if there are many, and raises if that fails.
        """
        for letter in fault_letters(self._range.topic_partition, records, faults):
            if letter.offset < self._next_offset:
                raise ValueError(f"offset {letter.offset} comes after {self._next_offset - 1}: it may count as done")
            self._next_offset = letter.offset + 1
            self._buffered.append(letter)
            self._buffered_bytes += letter.size + LETTER_BYTES
            if self._buffered_bytes >= BUFFERED_BYTES:
                self._write(self._next_offset)

    def finish(self, read_until: int | None = None) -> int:
        """Make all letters durable: the task has read the range to its end, or only until an offset.

        Returns the number of letters that this attempt has written.
        """
        if self._buffered:
            self._write(self._range.stop if read_until is None else read_until)
        return self._written

    def abort(self) -> None:
        """Discard buffered letters, because the task failed. The next attempt skips the letters that are written."""
        self._buffered.clear()
        self._buffered_bytes = 0

    def _write(self, done_until: int) -> None:
        if self._transactional:
            self._written += self._write_once(done_until)
        else:
            writer = TopicWriter(self._config, self._topic)
            try:
                writer.write(self._buffered)
            finally:
                writer.close()
            self._written += len(self._buffered)
        self.abort()

    # --- in transactions --------------------------------------------------------------------------------------------

    def _write_once(self, done_until: int) -> int:
        if self._producer is None:
            settings = letter_settings(TransactionClient(self._config), transactional=True)
            self._producer = Producer(self._config, settings, self._names.transactional_id)
        attempts = Attempts(
            f"writing {len(self._buffered)} dead letters of {self._range} to {self._topic!r}",
            self._config.api_timeout,
            backoff_max=BACKOFF_SECONDS,
            hint="Other tasks that read the same partition came in between, every time. Split it into fewer tasks "
            f"(option minPartitions), or wait longer: set {self._config.option('default.api.timeout.ms')}",
        )
        while True:
            try:
                return self._try(self._producer, done_until)
            except TransactionLost as error:
                log.info("dead letters of %s: another attempt came in between: %s", self._range, error)
                attempts.failed(str(error), error)
            except _LetterCut:
                continue
            except AuthorizationFailed as error:
                raise _explained(error) from error
            finally:
                self._producer.abort_transaction()  # does nothing after a commit
            attempts.pause()

    def _try(self, producer: Producer, done_until: int) -> int:
        producer.begin()
        source = self._range.topic_partition
        letter_topic = producer.cluster.metadata((self._topic,)).topics[self._topic]
        written = self._written_offsets(producer, letter_topic)
        letters = [letter for letter in self._buffered if letter.offset not in written]
        if not letters:
            log.info("all %d dead letters of %s were written before", len(self._buffered), self._range)
            return 0
        target = TopicPartition(self._topic, source.partition % len(letter_topic.partitions))
        try:
            send_letters(producer, target, letters, self._limits)
        except UnwritableRecord as error:
            settle_refusal(error, letters, self._limits, self._topic)
            raise _LetterCut from error
        if self._may_use_group:
            note = str(written.with_letters(self._range.start, done_until, [letter.offset for letter in letters]))
            try:
                producer.commit_offsets(self._names.group, {source: (done_until, note)})
            except AuthorizationFailed as error:
                # The group may be part of the transaction now, or not: begin again without it.
                self._forgo_group(error)
                raise TransactionLost(self._names.transactional_id, str(error)) from error
        producer.commit_transaction()
        return len(letters)

    def _written_offsets(self, producer: Producer, letter_topic: Topic) -> WrittenOffsets:
        """The offsets of the source partition that have letters, by the note of this scope or of its earlier name."""
        topic_ids = f"{self._range.topic_id or ''}/{letter_topic.topic_id or ''}"
        note = None
        if self._may_use_group:
            try:
                note = self._note(producer, self._names)
                if note is None and self._earlier_names is not None:
                    note = self._earlier_note(producer, self._earlier_names)
            except AuthorizationFailed as error:
                self._forgo_group(error)
        return WrittenOffsets(topic_ids) if note is None else parse_note(note, topic_ids)

    def _note(self, producer: Producer, names: LetterNames) -> str | None:
        source = self._range.topic_partition
        committed = producer.cluster.commits(names.group, [source]).get(source)
        return None if committed is None else committed.metadata

    def _earlier_note(self, producer: Producer, names: LetterNames) -> str | None:
        """The note that an earlier version has left. Taking its transactional id ends what a killed task of that
        version had begun: else its note stays unknown until the transaction times out."""
        with suppress(AuthorizationFailed):  # a transactional id that this user may not use was never used
            producer.cluster.take_transactional_id(names.transactional_id, producer.settings.transaction_timeout)
        return self._note(producer, names)

    def _forgo_group(self, error: AuthorizationFailed) -> None:
        self._may_use_group = False
        _warn(self._names.group, str(error))


def _explained(error: AuthorizationFailed) -> AuthorizationFailed:
    return AuthorizationFailed(
        f"{error}. Dead letters need Write on their topic and on transactional ids with the prefix {PREFIX!r}. Without "
        "the latter, set option deadLetterTransactional to false: a letter may then be written more than once"
    )


@cache
def _warn(group: str, problem: str) -> None:
    """Warn once per process and group."""
    log.warning(
        "dead letters may be written more than once, when a task is retried after it has written them: %s. Allow Read "
        "on groups with the prefix %r (this one is %r)",
        problem,
        PREFIX,
        group,
    )
