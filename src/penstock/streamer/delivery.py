"""Delivery of one thread: write rows to the sink, write dead letters, commit, in this order.

The order makes a Streamer at-least-once: a record is written, skipped or dead-lettered before its offset is committed.

A sink that stores offsets makes it exactly-once. Then dead letters come first, because the table's commit decides: a
letter may be written twice, and none is lost. The group's offsets follow, for tools that show lag.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import Protocol, cast

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
from penstock.masking import get_logger
from penstock.model.topic_partition import Offsets, TopicPartition, listed
from penstock.streamer.backlog import Backlog, Piece
from penstock.streamer.config import StreamerConfig
from penstock.streamer.counters import Counters
from penstock.streamer.dead_letters import LetterWriter
from penstock.streamer.extraction import Extraction
from penstock.streamer.run import Run
from penstock.streamer.sinks.sink import Rows, Writer
from penstock.streamer.sinks.table import TableWriter
from penstock.streamer.table_offsets import OffsetsMoved, TableOffsets

log = get_logger(__name__)

READ_AGAIN = 1_000_000
"""Offsets without a row that a restart may read again. Each commit without rows is a version of the table."""

NOT_RETRIABLE = (SinkError, OptionError, AuthenticationFailed, AuthorizationFailed)
"""Errors that a retry cannot fix."""


class Commits(Protocol):
    def commit_offsets(self, offsets: Offsets) -> None: ...


class Delivery:
    """The delivery of one thread. Only that thread calls it, except `wake`."""

    def __init__(
        self,
        name: str,
        config: StreamerConfig,
        run: Run,
        extraction: Extraction,
        writer: Writer,
        letters: LetterWriter | None,
        commits: Commits,
        on_failed_try: Callable[[], None],
        table: TableOffsets | None = None,
    ) -> None:
        """`on_failed_try` is called after each failed try: the time to give up revoked partitions. `table`: the offsets
        of a sink that stores them; its writer is a TableWriter."""
        self.backlog = Backlog()
        self.counters = Counters()
        self.committed: Offsets = {}
        self.has_given_up = False
        """Whether rows were dropped at the deadline without being written."""
        self._name = name
        self._config = config
        self._run = run
        self._extraction = extraction
        self._writer = writer
        self._letters = letters
        self._commits = commits
        self._table = table
        self._tried: Offsets = {}
        """The positions of a commit to the table without an answer: it may have been made."""
        self._on_failed_try = on_failed_try
        self._written: Offsets = {}
        """Offsets up to which everything is written, and which are not committed yet."""
        self._counted = 0
        """Records among `counters.records` that are no longer held: they are delivered, or dropped."""
        self._uncommitted_records = 0
        """Records that are delivered, and not committed yet."""
        self._commit_at = 0.0
        """The earliest time of the next commit, after one that failed."""
        self._failed_in_a_row = {"extractor": 0, "sink": 0}
        """Consecutive failed messages."""
        self._awake = threading.Event()

    def wake(self) -> None:
        """End the pause before a retry. Any thread."""
        self._awake.set()

    def seconds_to_flush(self, now: float) -> float | None:
        """The seconds until what is held is written, if no other limit is reached before. Any thread."""
        since = self.backlog.since
        return None if since is None else max(0.0, since + self._config.limits.seconds - now)

    def deliver_if_due(self, now: float) -> bool:
        """Deliver if a flush limit is reached. Returns whether one was."""
        if self.backlog.is_due(self._config.limits, now):
            self.deliver()
            return True
        if self._written and now >= self._commit_at:
            self._commit()
        return False

    def deliver(self) -> None:
        """Write and commit everything. Retries until it is done, or until the deadline."""
        tries = 0
        while (failure := self._try_to_write()) is not None:
            error, what = failure
            self._on_failed_try()
            if not self.may_retry(tries, error, what):
                raise SinkError(f"{what}, after {tries} retries. {type(error).__name__}: {error}") from error
            tries += 1
            if self._run.is_past_deadline:
                log.warning("%s: %d records are not written and will be read again", self._name, self.backlog.records)
                self.backlog.clear()
                self._counted = self.counters.records
                self.has_given_up = True
                break
            self.pause()
        self._commit()

    def may_retry(self, tries: int, error: Exception, what: str) -> bool:
        """Record a failure after this many retries. Returns whether one more is allowed."""
        self._run.note_error(error)
        most, pause = self._config.max_retries, self._config.retry_timeout
        if most is not None and tries >= most:
            return False
        self.counters.retries += 1
        log.warning("%s: %s. Retry after %g s. %s: %s", self._name, what, pause, type(error).__name__, error)
        return True

    def log_error(self, text: str) -> None:
        log.error("%s: %s", self._name, text)

    def drop(self, partitions: Collection[TopicPartition], why: str = "") -> None:
        """Drop what is held of partitions that other members own now, or will own."""
        records = self.backlog.drop(partitions)
        self._counted += records
        for tp in partitions:
            self._written.pop(tp, None)
            self.committed.pop(tp, None)
        if records:
            where = listed(sorted(partitions))
            log.warning(
                "%s: %d records of %s are not written and will be read again: %s", self._name, records, where, why
            )

    def pause(self) -> None:
        """Wait before a retry of something else than the sink. Ends early for a revocation, or to stop."""
        self._awake.wait(min(self._config.retry_timeout, self._run.remaining))
        self._awake.clear()

    # --- writing ----------------------------------------------------------------------------------------------------

    def floor(self, tp: TopicPartition) -> int | None:
        """The offset below which records of a partition are held already, or are in the table. None for a sink that
        stores no offsets: there a record may be written twice."""
        if self._table is None:
            return None
        known = (self._table.offset(tp), self.backlog.positions.get(tp))
        return max((offset for offset in known if offset is not None), default=None)

    def _try_to_write(self) -> tuple[Exception, str] | None:
        """Returns a retriable error and what failed with it, or None."""
        backlog = self.backlog
        what = "the sink does not take rows"
        try:
            if self._table is not None:
                backlog.write(self._writer.write, self._extraction, self._refused, keeps=True)
            elif backlog.write(self._write, self._extraction, self._refused):
                self.counters.flushes += 1
            if backlog.letters:
                assert self._letters is not None
                what = "dead letters cannot be written"
                self._letters.write(backlog.letters)
                self.counters.dead_lettered += len(backlog.letters)
                backlog.clear_letters()
            if self._table is not None:
                what = "the table does not take a commit"
                self._write_to_table(self._table)
        except NOT_RETRIABLE:
            raise
        except Exception as error:
            return error, what
        self._written |= backlog.clear()
        self._uncommitted_records += self.counters.records - self._counted
        self._counted = self.counters.records
        return None

    def _write_to_table(self, table: TableOffsets) -> None:
        """Store what is held, with its offsets, in one commit. What the table has by then is dropped (I5)."""
        writer = cast(TableWriter, self._writer)
        backlog = self.backlog
        while True:
            # A partition may have come back with a higher offset, while records from before are held.
            known = table.known(backlog.positions)
            self._drop_stored({tp: at for tp, at in known.items() if at is not None})
            positions, moves = table.moves(backlog.positions, known)
            if not positions:
                return
            rows = cast("pa.Table | None", backlog.rows())
            if rows is None and not self._deserves_commit(positions, table):
                return
            try:
                is_stored = writer.commit(rows, moves)
            except OffsetsMoved as moved:
                first = backlog.first_offsets()
                newest = table.moved(moved.offsets, moves.before, first)
                was_made = all(newest.get(tp) == at == self._tried.get(tp) for tp, at in positions.items())
                self._tried = {}
                if was_made:  # the commit that had no answer
                    self._stored(rows, positions, table)
                    return
            except SinkError:
                raise
            except Exception:
                self._tried = positions
                raise
            else:
                self._tried = {}
                if is_stored:
                    self._stored(rows, positions, table)
                return

    def _deserves_commit(self, positions: Offsets, table: TableOffsets) -> bool:
        """Whether to store offsets without rows: if records were skipped or failed, or if the table has no offset yet.
        Markers of transactions and records that a predicate left out are read again after a restart, up to a limit."""
        if self.counters.records > self._counted:
            return True
        known = {tp: table.offset(tp) for tp in positions}
        return any(known[tp] is None or at - (known[tp] or 0) >= READ_AGAIN for tp, at in positions.items())

    def _stored(self, rows: Rows | None, positions: Offsets, table: TableOffsets) -> None:
        table.stored(positions)
        if rows is not None:
            self.counters.rows += len(rows)
            self.counters.flushes += 1
            self._failed_in_a_row["sink"] = 0

    def _drop_stored(self, floors: Offsets) -> None:
        """Drop held records that the table has: another member of the group was faster, or this one is not the owner
        any more."""
        dropped = self.backlog.drop_below(floors, self._extraction, self._refused)
        if dropped:
            self.already_stored(dropped)

    def already_stored(self, records: int) -> None:
        self.counters.already_stored += records
        log.warning(
            "%s: %d records are in %s already: another member of the group, or a commit without an answer, stored them",
            *(self._name, records, self._config.sink),
        )

    def _write(self, rows: Rows) -> None:
        self._writer.write(rows)
        self.counters.rows += len(rows)
        self._failed_in_a_row["sink"] = 0

    def _refused(self, piece: Piece, error: RowsRefused) -> None:
        self.failed(piece.tp, piece.records, "sink", error)
        self.count_failures("sink", 1, error)

    # --- messages that fail (I3) ------------------------------------------------------------------------------------

    def failed(
        self, tp: TopicPartition, record: pa.RecordBatch, stage: str, error: Exception, quietly: bool = False
    ) -> None:
        """Handle a message that cannot become a row: log its offset, count it, and keep a dead letter."""
        self.counters.failed += 1
        self._run.note_error(error)
        if not quietly:
            offset = record.column(self._config.place.offset)[0].as_py()
            fate = "skipped" if self._letters is None else "dead-lettered"
            log.error("%s-%d, offset %d, was %s. %s: %s: %s", *tp, offset, fate, stage, type(error).__name__, error)
            log.debug("traceback:", exc_info=error)
        if self._letters is not None:
            cause = Cause(stage, type(error).__name__, str(error))
            self.backlog.add_letters(letters_of(tp, record, [cause] * record.num_rows))

    def count_failures(self, stage: str, count: int, last: Exception | None) -> None:
        """Count consecutive failures; 0 resets the count. Above `max_failures` the cause is the extractor or the sink,
        not the messages: the Streamer fails rather than skip a whole topic."""
        self._failed_in_a_row[stage] = self._failed_in_a_row[stage] + count if count else 0
        failed, most = self._failed_in_a_row[stage], self._config.max_failures
        if most is not None and failed > most:
            raise SinkError(
                f"{failed} consecutive messages failed in the {stage}, the last with {type(last).__name__}: {last}. "
                f"The cause is probably the {stage}, not the messages. Fix it, or raise max_failures to continue"
            ) from last

    # --- committing -------------------------------------------------------------------------------------------------

    def _commit(self) -> None:
        offsets = {tp: offset for tp, offset in self._written.items() if self.committed.get(tp) != offset}
        if not offsets:
            self._written.clear()
            self._uncommitted_records = 0
            return
        try:
            self._commits.commit_offsets(offsets)
        except CommitRefused as error:
            log.warning("%s: records written since the last commit may be read again: %s", self._name, error)
            self._uncommitted(error)
            self._written.clear()
            self._uncommitted_records = 0
        except NOT_RETRIABLE:
            raise
        except Exception as error:
            pause = self._config.retry_timeout
            log.warning("%s: the commit failed. Retry after %g s. %s", self._name, pause, error)
            self._uncommitted(error)
            self._commit_at = time.monotonic() + pause
        else:
            self.counters.commits += 1
            self.counters.committed += self._uncommitted_records
            self._uncommitted_records = 0
            self.committed |= offsets
            self._written.clear()

    def _uncommitted(self, error: Exception) -> None:
        self.counters.commits_failed += 1
        self._run.note_error(error)
