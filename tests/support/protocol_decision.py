"""The real decisions of the driver, asked with the values of the model of exactly-once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from penstock.writer.decision import decide, decide_after_failure
from penstock.writer.note import Content, Intent, Note
from support.protocol_state import FENCED, LIVE, MISSING, Driver, Intended, Noted, Outcome


@dataclass(frozen=True)
class TaskOutcome:
    task: int
    content: Content
    transaction: int | None
    note: Note | None


@cache
def decision(
    driver: Driver, intended: Intended | None, after_failure: bool, hashed: bool
) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """Tasks whose transactions are committed and aborted, and whether the batch is refused."""

    def content(rows: int) -> Content:
        return Content(rows.bit_count(), rows if hashed else 0)

    def note(noted: Noted | None) -> Note | None:
        return None if noted is None else Note(noted[0], content(noted[1]))

    def outcome(task: int, given: Outcome) -> TaskOutcome | None:
        if given.kind == MISSING:
            return None
        transaction = task if given.kind in (LIVE, FENCED) else None
        return TaskOutcome(task, content(driver.division[task]), transaction, note(given.note))

    outcomes = [outcome(task, given) for task, given in enumerate(driver.outcomes)]
    intent = None if intended is None else Intent(intended[0], intended[1], content(intended[2]))
    notes = {task: found for task, noted in driver.notes if (found := note(noted)) is not None}
    if after_failure:
        made = decide_after_failure(driver.batch, outcomes, intent, notes)
    else:
        made = decide(driver.batch, [each for each in outcomes if each is not None], intent, notes)
    return made.commit, made.abort, bool(made.refusal)
