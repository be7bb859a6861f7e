"""From what a thread holds to what is committed: write to the sink, write dead letters, commit, in this order.

That order is what makes a Streamer at-least-once: nothing is committed that was not written, skipped or dead-lettered
before.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from typing import Protocol

import pyarrow as pa

from penstock.dead_letters.letter import Cause, letters_of
from penstock.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    CommitRefused,
    OptionError,
    RowsRefused,
    SinkError,
)
from penstock.model.topic_partition import Offsets, TopicPartition, listed
from penstock.streamer.backlog import Backlog, Piece
from penstock.streamer.counters import Counters
from penstock.streamer.dead_letters import LetterWriter
from penstock.streamer.extraction import Extraction
from penstock.streamer.run import Job, Run
from penstock.streamer.sinks.sink import Rows, Writer

log = logging.getLogger(__name__)

HOPELESS = (SinkError, OptionError, AuthenticationFailed, AuthorizationFailed)
"""What does not get better by being tried again."""


class Commits(Protocol):
    def commit_offsets(self, offsets: Offsets) -> None: ...


class Delivery:
    """One thread's, which alone calls it, but for `wake`."""

    def __init__(
        self,
        name: str,
        job: Job,
        run: Run,
        extraction: Extraction,
        writer: Writer,
        letters: LetterWriter | None,
        commits: Commits,
        on_failed_try: Callable[[], None],
    ) -> None:
        """`on_failed_try` is called after each: the time to let go of partitions that others wait for."""
        self.backlog = Backlog()
        self.counters = Counters()
        self.committed: Offsets = {}
        self.has_given_up = False
        """Whether something was let go of, at the end, without being written."""
        self._name = name
        self._job = job
        self._run = run
        self._extraction = extraction
        self._writer = writer
        self._letters = letters
        self._commits = commits
        self._on_failed_try = on_failed_try
        self._written: Offsets = {}
        """How far everything is written, where that is not committed yet."""
        self._commit_at = 0.0
        """Not before: the last one failed."""
        self._in_a_row = {"extractor": 0, "sink": 0}
        """Messages that failed one after the other."""
        self._awake = threading.Event()

    def wake(self) -> None:
        """End the pause between two tries. Any thread."""
        self._awake.set()

    def deliver_what_is_due(self, now: float) -> bool:
        """Returns whether anything was."""
        if self.backlog.is_due(self._job.limits, now):
            self.deliver()
            return True
        if self._written and now >= self._commit_at:
            self._commit()
        return False

    def deliver(self) -> None:
        """Write and commit everything. Tries until it is done, or the time to finish is over."""
        tries = 0
        while (trouble := self._try_to_write()) is not None:
            error, what = trouble
            self._on_failed_try()
            if not self.may_retry(tries, error, what):
                raise SinkError(f"{what}, after {tries} retries. {type(error).__name__}: {error}") from error
            tries += 1
            if self._run.is_over:
                log.warning("%s: %d records are not written and will come again", self._name, self.backlog.records)
                self.backlog.clear()
                self.has_given_up = True
                break
            self._awake.wait(min(self._job.retry_timeout, self._run.remaining))
            self._awake.clear()
        self._commit()

    def may_retry(self, tries: int, error: Exception, what: str) -> bool:
        """Note a failure after so many retries; returns whether there may be one more."""
        self._run.met(error)
        most, pause = self._job.max_retries, self._job.retry_timeout
        if most is not None and tries >= most:
            return False
        self.counters.retries += 1
        log.warning("%s: %s. Retry after %g s. %s: %s", self._name, what, pause, type(error).__name__, error)
        return True

    def say(self, text: str) -> None:
        log.error("%s: %s", self._name, text)

    def forget(self, partitions: Collection[TopicPartition], why: str = "") -> None:
        """Others have these partitions now, or will."""
        records = self.backlog.drop(partitions)
        for tp in partitions:
            self._written.pop(tp, None)
            self.committed.pop(tp, None)
        if records:
            where = listed(sorted(partitions))
            log.warning("%s: %d records of %s are not written and will come again: %s", self._name, records, where, why)

    # --- writing ----------------------------------------------------------------------------------------------------

    def _try_to_write(self) -> tuple[Exception, str] | None:
        """What came in the way, and of what, if it is worth another try."""
        backlog = self.backlog
        what = "the sink takes no rows"
        try:
            if backlog.write(self._write, self._extraction, self._refused):
                self.counters.flushes += 1
            if backlog.letters:
                assert self._letters is not None
                what = "dead letters cannot be written"
                self._letters.write(backlog.letters)
                self.counters.dead_lettered += len(backlog.letters)
        except HOPELESS:
            raise
        except Exception as error:
            return error, what
        self._written |= backlog.clear()
        return None

    def _write(self, rows: Rows) -> None:
        self._writer.write(rows)
        self.counters.rows += len(rows)
        self._in_a_row["sink"] = 0

    def _refused(self, piece: Piece, error: RowsRefused) -> None:
        self.failed(piece.tp, piece.records, "sink", error)
        self.count_failures("sink", 1, error)

    # --- messages that fail (I3) ------------------------------------------------------------------------------------

    def failed(
        self, tp: TopicPartition, record: pa.RecordBatch, stage: str, error: Exception, quietly: bool = False
    ) -> None:
        """One message cannot become a row: say where it is, count it, keep a letter of it, and go on."""
        self.counters.failed += 1
        self._run.met(error)
        if not quietly:
            offset = record.column("offset")[0].as_py()
            fate = "skipped" if self._letters is None else "dead-lettered"
            log.error("%s-%d, offset %d, is %s. %s: %s: %s", *tp, offset, fate, stage, type(error).__name__, error)
            log.debug("in full:", exc_info=error)
        if self._letters is not None:
            cause = Cause(stage, type(error).__name__, str(error))
            self.backlog.add_letters(letters_of(tp, record, [cause] * record.num_rows))

    def count_failures(self, stage: str, count: int, last: Exception | None) -> None:
        """So many messages failed one after the other; 0: one did not. Where nothing works any more, it is not the
        messages: to skip all of a topic would be the worst answer."""
        self._in_a_row[stage] = self._in_a_row[stage] + count if count else 0
        failed, most = self._in_a_row[stage], self._job.max_failures
        if most is not None and failed > most:
            raise SinkError(
                f"{failed} messages in a row failed in the {stage}, the last with {type(last).__name__}: {last}. That "
                f"looks like the {stage} and not like the messages. Repair it, or raise max_failures to go on"
            ) from last

    # --- committing -------------------------------------------------------------------------------------------------

    def _commit(self) -> None:
        offsets = {tp: offset for tp, offset in self._written.items() if self.committed.get(tp) != offset}
        if not offsets:
            self._written.clear()
            return
        try:
            self._commits.commit_offsets(offsets)
        except CommitRefused as error:
            log.warning("%s: what was written since the last commit may come again: %s", self._name, error)
            self._uncommitted(error)
            self._written.clear()
        except HOPELESS:
            raise
        except Exception as error:
            pause = self._job.retry_timeout
            log.warning("%s: offsets are not committed. Retry after %g s. %s", self._name, pause, error)
            self._uncommitted(error)
            self._commit_at = time.monotonic() + pause
        else:
            self.counters.commits += 1
            self.committed |= offsets
            self._written.clear()

    def _uncommitted(self, error: Exception) -> None:
        self.counters.commits_failed += 1
        self._run.met(error)
