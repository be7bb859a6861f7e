"""Dead letters of a task that reads one range of offsets: each is written once, however often the task is tried.

What is promised to readers of committed records (`isolation.level=read_committed`): of every record that could not be
decoded there is one letter, whether its task was retried, run twice at the same time, killed at any moment or asked for
the same records again, as `foreachBatch` often does. Letters are in the topic before the task ends; they do not wait
for what Spark does with its rows, so a batch that fails later leaves its letters, and does not repeat them when it is
replayed. Readers of uncommitted records also see what killed attempts have left.

How: letters are held until the task ends, or until there are four megabytes of them, and then written in one Kafka
transaction, together with a note of the offsets that have one: beside the committed offset of a group that nobody is
in. Who begins a transaction shuts out every other attempt with the same transactional id (Kafka aborts what it had
begun), then reads the note, and leaves out what is there. So reading the note and writing it is one step, as if under a
lock, and an attempt that was shut out in the middle begins again, finds out how far the other came, and goes on.

What was weighed:
- One transaction for a whole task, open from its first letter on. A task may take longer than the 15 minutes that
  brokers allow, readers of committed records would wait for it all the time, and after a commit nothing would tell a
  retry that it had been. Transactions here last milliseconds.
- A transactional id, or a group, for each range. A broker remembers every one for a week: a stream with a bad record
  in each of its micro-batches would leave millions. There is one group for each scope, and one id for each source
  partition in it. Ranges of a partition that was split share it: they come in each other's way, and begin again.
- Asking the coordinator how the last transaction ended (DescribeTransactions). It forgets that when the id is taken,
  and before that it may change: two attempts at once would write twice.

Where it ends: another scope knows nothing of this one. A note names the newest letters, some hundreds or more: if a
record fails in one attempt only (a lookup of a user's class, a registry that was behind), it has its letter, even where
others of its range were written before. Of older ones it holds fifty spans of offsets that were done with (those that
touch are one), and what fails there for the first time has none. Records that fail in one attempt and are read in
another are both, letter and row. Brokers forget a note when a week has passed without another
(`offsets.retention.minutes`). A log that was cut and written anew has other records at offsets that count as done; a
topic made anew has not.

What it needs beyond the topic: `Write` on transactional ids and `Read` on groups whose names begin with
`penstock-letters:`. Without the latter letters are still written whole or not at all, but an attempt cannot know that a
former one has committed; that is warned of. Without the former, `transactional=False` writes plainly, at least once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from types import TracebackType
from typing import Self

import pyarrow as pa

from penstock.dead_letters.letter import DeadLetter, TopicWriter, append_letters, fault_letters
from penstock.dead_letters.written_offsets import Spans, parse_spans
from penstock.errors import AuthorizationFailed, UnknownTopic
from penstock.model.offset_range import OffsetRange
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.transactions import TransactionalProducer, TransactionLost
from penstock.wire.client_config import ClientConfig
from penstock.wire.cluster import Cluster, Topic
from penstock.wire.transport.retry import Attempts

log = logging.getLogger(__name__)

HELD_BYTES = 4 << 20
"""A transaction takes about ten requests: too many for each batch of 500 kB, and nothing for eight of them."""

LETTER_BYTES = 500
"""What a letter weighs beside its record: headers that say why, and Python's objects."""

YIELDING_SECONDS = 5.0
"""At most so long between two tries. Whoever begins ends what others have begun, so if there are many, most must wait
for one to get through. Measured with ranges of one partition that end at the same time, and 5 ms of network: 16 are
through after 7 s, 40 after 17 s. Without that network 16 need a second."""

PREFIX = "penstock-letters:"
"""Of all groups and transactional ids: what ACLs are made for."""


def names_of(scope: str, topic: str, source: TopicPartition) -> tuple[str, str]:
    """The group that keeps the notes, and the transactional id under which letters about a partition are written."""
    group = f"{PREFIX}{scope}:{topic}"
    return group, f"{group}:{source}"


def check_topic(config: ClientConfig, topic: str, scope: str = "", transactional: bool = True) -> None:
    """For the driver, before anything is read: whether tasks will be able to write letters, as far as that shows."""
    cluster = Cluster(config)
    _, unknown = cluster.listing((topic,))
    if unknown:
        raise UnknownTopic(topic, detail="it is to take dead letters (option deadLetterTopic). Create it first")
    if transactional:
        group, transactional_id = names_of(scope, topic, TopicPartition(topic, 0))
        producer = TransactionalProducer(config, transactional_id)
        try:
            producer.find()
        except AuthorizationFailed as error:
            raise _explained(error) from error
        try:
            producer.commits(group, [TopicPartition(topic, 0)])
        except AuthorizationFailed as error:
            _warn(group, str(error))


class RangeLetters:
    """The letters of one task about one range. Connects to nothing before there is one. For one thread.

    Leaving its `with` block lets go of what is not written yet: `finish` is what makes letters last. `scope` names who
    reads: letters are written once for each. It must be the same for all attempts at a task, and another one for
    another query over the same topics, whose letters would be taken for the same.
    """

    def __init__(
        self, config: ClientConfig, topic: str, range_: OffsetRange, scope: str, transactional: bool = True
    ) -> None:
        self._config = config
        self._topic = topic
        self._range = range_
        self._group, self._transactional_id = names_of(scope, topic, range_.topic_partition)
        self._transactional = transactional
        self._remembers = True
        """Whether the group is ours to use."""
        self._next = range_.start
        """After the last letter: what is below counts as done once that is written."""
        self._held: list[DeadLetter] = []
        self._held_bytes = 0
        self._written = 0
        self._producer: TransactionalProducer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    def add(self, records: pa.RecordBatch, faults: Sequence[tuple[int, str, str]]) -> None:
        """Take the records at fault: (row, column, reason). Batches come in the order of their offsets.

        May write what is held, and raises if that cannot be done.
        """
        for letter in fault_letters(self._range.topic_partition, records, faults):
            if letter.offset < self._next:
                raise ValueError(f"offset {letter.offset} comes after {self._next - 1}: it may count as done")
            self._next = letter.offset + 1
            self._held.append(letter)
            self._held_bytes += letter.size + LETTER_BYTES
            if self._held_bytes >= HELD_BYTES:
                self._write(self._next)

    def finish(self, read_until: int | None = None) -> int:
        """The range was read, to its end or only until an offset: make all letters last.

        Returns how many this attempt has written.
        """
        if self._held:
            self._write(self._range.stop if read_until is None else read_until)
        return self._written

    def abort(self) -> None:
        """The task failed: forget what is not written. What is, stays, and the next attempt leaves it out."""
        self._held.clear()
        self._held_bytes = 0

    def _write(self, done_until: int) -> None:
        if self._transactional:
            self._written += self._write_once(done_until)
        else:
            writer = TopicWriter(self._config, self._topic)
            try:
                writer.write(self._held)
            finally:
                writer.close()
            self._written += len(self._held)
        self.abort()

    # --- once -------------------------------------------------------------------------------------------------------

    def _write_once(self, done_until: int) -> int:
        if self._producer is None:
            self._producer = TransactionalProducer(self._config, self._transactional_id)
        attempts = Attempts(
            f"writing {len(self._held)} dead letters of {self._range} to {self._topic!r}",
            self._config.api_timeout,
            backoff_max=YIELDING_SECONDS,
            hint="Other tasks that read the same partition came in between, all the time. Split it into fewer "
            f"(option minPartitions), or wait longer: set {self._config.option('default.api.timeout.ms')}",
        )
        while True:
            try:
                return self._try(self._producer, done_until)
            except TransactionLost as error:
                log.info("dead letters of %s: another attempt came in between: %s", self._range, error)
                attempts.failed(str(error), error)
            except AuthorizationFailed as error:
                raise _explained(error) from error
            finally:
                self._producer.abort_transaction()  # nothing, after a commit
            attempts.pause()

    def _try(self, producer: TransactionalProducer, done_until: int) -> int:
        producer.begin_transaction()
        source = self._range.topic_partition
        dead = producer.metadata((self._topic,)).topics[self._topic]
        done = self._done(producer, dead)
        letters = [letter for letter in self._held if not done.has(letter.offset)]
        if not letters:
            log.info("all %d dead letters of %s are there already", len(self._held), self._range)
            return 0
        target = TopicPartition(self._topic, source.partition % len(dead.partitions))
        append_letters(lambda records: producer.append(target, records), letters, self._topic)
        if self._remembers:
            note = str(done.with_letters(self._range.start, done_until, [letter.offset for letter in letters]))
            try:
                producer.commit_offset(self._group, source, done_until, note)
            except AuthorizationFailed as error:
                # A group may be part of the transaction now, or not: begin anew, without it.
                self._forgo(error)
                raise TransactionLost(str(error)) from error
        producer.commit_transaction()
        return len(letters)

    def _done(self, producer: TransactionalProducer, dead: Topic) -> Spans:
        """What is written of this range's partition, as far as the group knows."""
        about = f"{self._range.topic_id or ''}/{dead.topic_id or ''}"
        noted = None
        if self._remembers:
            source = self._range.topic_partition
            try:
                noted = producer.commits(self._group, [source]).get(source)
            except AuthorizationFailed as error:
                self._forgo(error)
        return Spans(about) if noted is None else parse_spans(noted.metadata, about)

    def _forgo(self, error: AuthorizationFailed) -> None:
        self._remembers = False
        _warn(self._group, str(error))


def _explained(error: AuthorizationFailed) -> AuthorizationFailed:
    return AuthorizationFailed(
        f"{error}. Dead letters need Write on their topic and on transactional ids that begin with {PREFIX!r}. Without "
        "the latter, set option deadLetterTransactional to false: a letter may then come more than once"
    )


@cache
def _warn(group: str, problem: str) -> None:
    """Once per process and group."""
    log.warning(
        "dead letters may come more than once, when a task is retried after it has written them: %s. Allow Read on "
        "groups that begin with %r (this one is %r)",
        problem,
        PREFIX,
        group,
    )
