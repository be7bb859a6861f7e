"""Ends the transactions of a batch, on the driver (W5, W6, W7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from penstock.config.sink import SinkOptions
from penstock.errors import BrokerError, ReplayError, TransactionLost
from penstock.masking import get_logger
from penstock.model.topic_partition import TopicPartition
from penstock.wire.cluster import Cluster
from penstock.wire.producer.producer import Producer
from penstock.wire.producer.transactions import OpenTransaction, end_transactions, lost_transactions
from penstock.writer.decision import Decision, decide, decide_after_failure, open_transactions, total
from penstock.writer.names import SinkScope
from penstock.writer.note import Intent, Note
from penstock.writer.outcome import TaskOutcome
from penstock.writer.task import read_note

log = get_logger(__name__)


class Committer:
    """Ends the transactions of one batch. For one thread."""

    def __init__(self, options: SinkOptions, scope: SinkScope, batch: int | None) -> None:
        """`batch`: None for a batch write that is never replayed: it has no notes."""
        self._options = options
        self._scope = scope
        self._batch = batch
        self._cluster = Cluster(options.client)

    def commit(self, outcomes: Sequence[TaskOutcome]) -> None:
        """Commit what the tasks have written. Raises if the batch is not, or only in part, visible."""
        if self._batch is None:
            transactions = open_transactions(outcomes)
            self._check_open(transactions)
            self._commit(transactions)
            return
        with self._taken_intent() as driver:
            self._commit_once(outcomes, driver)

    def _commit_once(self, outcomes: Sequence[TaskOutcome], driver: Producer) -> None:
        assert self._batch is not None
        intent = self._read_intent()
        notes = self._notes(intent, outcomes)
        decision = decide(self._batch, outcomes, intent, notes)
        if decision.refusal:
            self._abort(decision.abort)
            raise ReplayError(f"{self._scope.name}: {decision.refusal}")
        if decision.commit:
            if not any(note.batch == self._batch for note in notes.values()):
                self._check_open(decision.commit)
                self._write_intent(outcomes, driver)
            self._commit(decision.commit)
        self._abort(decision.abort)

    def abort(self, outcomes: Sequence[TaskOutcome | None]) -> None:
        """Abort a batch whose task or commit failed, or complete a commit that began. Raises nothing: what is left
        open times out."""
        try:
            decision = self._decision_after_failure(outcomes)
            self._abort(decision.abort)
            if decision.commit:
                log.info("%s: completing the commit of batch %s", self._scope.name, self._batch)
                self._commit(decision.commit)
        except (BrokerError, ReplayError) as error:
            log.warning("%s: transactions stay open until they time out: %s", self._scope.name, error)

    def _decision_after_failure(self, outcomes: Sequence[TaskOutcome | None]) -> Decision[OpenTransaction]:
        if self._batch is None:
            return Decision(abort=open_transactions(outcomes))
        intent = self._read_intent()
        return decide_after_failure(self._batch, outcomes, intent, self._notes_so_far(intent))

    # --- notes ------------------------------------------------------------------------------------------------------

    @property
    def _place(self) -> TopicPartition:
        return TopicPartition(self._options.notes_in, 0)

    def _read_intent(self) -> Intent | None:
        group = self._scope.intent
        committed = self._cluster.commits(group, [self._place]).get(self._place)
        return None if committed is None else Intent.parse(committed.metadata, group)

    @contextmanager
    def _taken_intent(self) -> Iterator[Producer]:
        """Take the transactional id of the intent: a driver that was replaced, and is still alive, writes none after
        this. Otherwise it could commit tasks that this attempt does not have."""
        with Producer(self._options.client, self._options.producer, transactional_id=self._scope.intent) as driver:
            driver.begin()
            yield driver

    def _write_intent(self, outcomes: Sequence[TaskOutcome], driver: Producer) -> None:
        assert self._batch is not None
        intent = Intent(self._batch, len(outcomes), total([outcome.content for outcome in outcomes]))
        driver.commit_offsets(self._scope.intent, {self._place: (self._batch, str(intent))})
        driver.commit_transaction()

    def _notes(self, intent: Intent | None, outcomes: Sequence[TaskOutcome]) -> dict[int, Note]:
        """The notes of all tasks of a replayed batch, which can no longer change; none if this batch is not a replay.

        A task that holds a transaction, or has found its note, has taken its transactional id. The others are taken
        here: a commit of the last attempt may still be on its way to the broker.
        """
        if intent is None or intent.batch != self._batch:
            return {}
        notes = {outcome.task: outcome.note for outcome in outcomes if outcome.note is not None}
        # Do not ask for the note of a task that holds a transaction: the broker answers when the transaction ends. The
        # task would not have written if there were a note of this batch.
        taken = {outcome.task for outcome in outcomes if outcome.transaction is not None} | notes.keys()
        for task in range(max(intent.tasks, len(outcomes))):
            if task not in taken:
                name = self._scope.task(task)
                with Producer(self._options.client, self._options.producer, transactional_id=name) as producer:
                    producer.begin()
                notes |= self._note(task, stable=True)
        return notes

    def _notes_so_far(self, intent: Intent | None) -> dict[int, Note]:
        """The notes that are visible while transactions of this batch are open."""
        if intent is None or intent.batch != self._batch:
            return {}
        return dict(item for task in range(intent.tasks) for item in self._note(task, stable=False).items())

    def _note(self, task: int, stable: bool) -> dict[int, Note]:
        note = read_note(self._cluster, self._scope.task(task), self._options.notes_in, stable)
        return {} if note is None else {task: note}

    # --- transactions -----------------------------------------------------------------------------------------------

    def _check_open(self, transactions: Sequence[OpenTransaction]) -> None:
        """Refuse to begin a commit that cannot be completed, because one of the transactions has ended."""
        self._raise_lost(lost_transactions(self._options.client, transactions))

    def _commit(self, transactions: Sequence[OpenTransaction]) -> None:
        timeout = self._options.producer.delivery_timeout
        self._raise_lost(end_transactions(self._options.client, transactions, committed=True, timeout=timeout))

    def _raise_lost(self, results: Mapping[OpenTransaction, TransactionLost | None]) -> None:
        lost = [problem for problem in results.values() if problem is not None]
        if lost:
            reason = f"{lost[0].reason} ({len(lost)} of {len(results)} transactions)"
            raise TransactionLost(lost[0].transactional_id, reason, hint=self._what_now)

    @property
    def _what_now(self) -> str:
        if self._batch is None:
            return "Write again"
        return f"Start the query again: it replays batch {self._batch}, and no row is lost or visible twice"

    def _abort(self, transactions: Sequence[OpenTransaction]) -> None:
        if transactions:
            timeout = min(ABORT_SECONDS, self._options.producer.delivery_timeout)
            end_transactions(self._options.client, transactions, committed=False, timeout=timeout)


ABORT_SECONDS = 10.0
"""For aborts. Without them, readers under read_committed wait until the transactions time out."""
