"""What the driver does with the transactions of a batch: commit, abort, or refuse. Pure.

Why a committed reader sees each row once:

- A task takes its transactional id before it reads its note. Taking the id fences older attempts and ends their
  transactions. So the note is final: an older attempt can no longer commit.
- A task whose note names the batch writes nothing. Otherwise its rows and the new note are one transaction.
- Only the driver commits, after all tasks have succeeded. It writes its intent first, in a transaction of its own. It
  takes the id of that transaction before it reads the last intent: a driver that was replaced can write no other.
- Spark records a batch as done after the driver's commit. A batch that is not recorded is replayed: tasks whose
  transactions were committed find their notes, and the others write again.

A replay must have the same rows in the same tasks. The contents in notes and intent prove it: if they differ, some rows
would be visible twice and others never, so the batch is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Generic, Protocol, TypeVar

from penstock.writer.note import Content, Intent, Note

Transaction = TypeVar("Transaction", covariant=True)


class Outcome(Protocol[Transaction]):
    """The part of a TaskOutcome that decides."""

    @property
    def task(self) -> int: ...
    @property
    def content(self) -> Content: ...
    @property
    def transaction(self) -> Transaction | None: ...
    @property
    def note(self) -> Note | None: ...


Open = TypeVar("Open")


@dataclass(frozen=True, slots=True)
class Decision(Generic[Open]):
    """Transactions to commit, or to abort; and why the batch is refused, if it is."""

    commit: tuple[Open, ...] = ()
    abort: tuple[Open, ...] = ()
    refusal: str = ""


def total(contents: Sequence[Content]) -> Content:
    return reduce(Content.__add__, contents, Content())


def open_transactions(outcomes: Sequence[Outcome[Open] | None]) -> tuple[Open, ...]:
    """The transactions that tasks have left open. None stands for a task that failed."""
    found = [None if outcome is None else outcome.transaction for outcome in outcomes]
    return tuple(each for each in found if each is not None)


def decide(
    batch: int, outcomes: Sequence[Outcome[Open]], intent: Intent | None, notes: Mapping[int, Note]
) -> Decision[Open]:
    """Decide at the commit of a batch, when all tasks have succeeded.

    `intent`: the last one in Kafka. `notes`: the notes of all tasks of `intent` and of this attempt, by task, which can
    no longer change; only needed if `intent` names this batch.
    """
    found = open_transactions(outcomes)
    if intent is not None and intent.batch > batch:
        return Decision(abort=found, refusal=_older(batch, intent.batch))
    if intent is None or intent.batch < batch:
        # No transaction of this batch was ever committed.
        return Decision(commit=found)
    visible = {task: note for task, note in notes.items() if note.batch == batch}
    if not visible:
        return Decision(commit=found)
    content = total([outcome.content for outcome in outcomes])
    if content != intent.content:
        return Decision(abort=found, refusal=_differs(batch, intent.content, content))
    if total([note.content for note in visible.values()]) == intent.content:
        # The whole batch is visible. New transactions exist only if rows were divided into other tasks.
        return Decision(abort=found)
    if intent.tasks != len(outcomes):
        return Decision(abort=found, refusal=_divided(batch, intent.tasks, len(outcomes), len(visible)))
    return _roll_forward(batch, outcomes, visible)


def decide_after_failure(
    batch: int, outcomes: Sequence[Outcome[Open] | None], intent: Intent | None, notes: Mapping[int, Note]
) -> Decision[Open]:
    """Decide when a task or a commit has failed: abort, or complete a commit that began.

    Completing is not needed for the guarantee: the replay would do it. It makes the batch visible as a whole sooner.
    """
    complete = [outcome for outcome in outcomes if outcome is not None]
    began = intent is not None and intent.batch == batch and any(note.batch == batch for note in notes.values())
    if began and len(complete) == len(outcomes):
        decision = decide(batch, complete, intent, notes)
        if not decision.refusal:
            return decision
    return Decision(abort=open_transactions(outcomes))


def _roll_forward(batch: int, outcomes: Sequence[Outcome[Open]], visible: Mapping[int, Note]) -> Decision[Open]:
    commit: list[Open] = []
    for outcome in outcomes:
        note = visible.get(outcome.task)
        if note is None:
            if outcome.transaction is not None:
                commit.append(outcome.transaction)
        elif note.content != outcome.content:
            refusal = _differs(batch, note.content, outcome.content, f"task {outcome.task} of ")
            return Decision(abort=open_transactions(outcomes), refusal=refusal)
    return Decision(commit=tuple(commit))


def _differs(batch: int, before: Content, now: Content, which: str = "") -> str:
    what = f"{before.rows} rows before and {now.rows} now" if before.rows != now.rows else f"other rows ({now.rows})"
    return (
        f"{which}batch {batch} was committed in part, and its replay has other contents: {what}. Exactly-once needs a "
        "query that computes the same rows again: look for rand(), uuid(), current_timestamp() and lookups in other "
        "systems"
    )


def _divided(batch: int, before: int, now: int, visible: int) -> str:
    return (
        f"{visible} of {before} tasks of batch {batch} are committed, and its replay has {now} tasks. Run the replay "
        f"with {before} tasks: undo changes of minPartitions, of spark.sql.shuffle.partitions and of the cluster's size"
    )


def _older(batch: int, newest: int) -> str:
    return (
        f"batch {batch} comes again, but batch {newest} is already committed. The checkpoint is older than the output: "
        "it was restored, or two queries use it. Continue from the newer checkpoint, or start a new query with a new "
        "checkpoint, which writes its rows again"
    )
