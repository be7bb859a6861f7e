"""W5, W6: the driver's decision about the transactions of a batch, with plain values."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from penstock.writer.decision import Decision, decide, decide_after_failure
from penstock.writer.note import Content, Intent, Note

NOTHING = Content()
A, B, C = Content(2, 10), Content(3, 20), Content(4, 40)


@dataclass(frozen=True)
class Outcome:
    task: int
    content: Content = NOTHING
    transaction: str | None = None
    note: Note | None = None


def written(task: int, content: Content) -> Outcome:
    return Outcome(task, content, f"transaction {task}")


def done(task: int, content: Content, batch: int = 7) -> Outcome:
    return Outcome(task, content, note=Note(batch, content))


def test_W5_a_new_batch_is_committed():
    outcomes = [written(0, A), Outcome(1), written(2, B)]
    for intent in (None, Intent(6, 3, A)):
        assert decide(7, outcomes, intent, {}) == Decision(commit=("transaction 0", "transaction 2"))


def test_W6_a_driver_that_died_before_the_first_commit_commits_the_replay():
    """Nothing is visible, so the replay may even have other rows."""
    outcomes = [written(0, A), written(1, C)]
    notes = {0: Note(6, A), 1: Note(5, B)}
    assert decide(7, outcomes, Intent(7, 2, A + B), notes).commit == ("transaction 0", "transaction 1")


def test_W6_a_driver_that_died_in_the_middle_rolls_forward():
    outcomes = [done(0, A), written(1, B), Outcome(2)]
    notes = {0: Note(7, A), 1: Note(6, A)}
    assert decide(7, outcomes, Intent(7, 3, A + B), notes) == Decision(commit=("transaction 1",))


def test_W6_a_driver_that_died_after_the_last_commit_has_nothing_to_do():
    outcomes = [done(0, A), done(1, B)]
    assert decide(7, outcomes, Intent(7, 2, A + B), {0: Note(7, A), 1: Note(7, B)}) == Decision()


@pytest.mark.parametrize(
    "outcomes",
    [
        [done(0, A), written(1, C)],  # another row count in a task that is not visible
        [done(0, C), written(1, A + B)],  # in one that is visible
        [done(0, Content(2, 11)), written(1, B)],  # the same count, other rows
        [Outcome(0), written(1, B)],  # no rows where there were some
    ],
)
def test_W6_a_replay_with_other_rows_is_refused(outcomes):
    decision = decide(7, outcomes, Intent(7, 2, A + B), {0: Note(7, A)})
    assert "batch 7 was committed in part, and its replay has other contents" in decision.refusal
    assert decision.commit == ()
    assert decision.abort == ("transaction 1",)


def test_W6_rows_that_moved_between_tasks_are_refused():
    """The batch as a whole is the same, but the visible task has other rows now."""
    decision = decide(7, [done(0, B), written(1, A)], Intent(7, 2, A + B), {0: Note(7, A)})
    assert "task 0 of batch 7" in decision.refusal


def test_W6_another_number_of_tasks_is_refused_while_the_batch_is_visible_in_part():
    decision = decide(7, [written(0, A + B)], Intent(7, 2, A + B), {1: Note(7, B)})
    assert "1 of 2 tasks of batch 7 are committed, and its replay has 1 tasks" in decision.refusal
    assert decision.abort == ("transaction 0",)


def test_W6_another_number_of_tasks_is_fine_if_the_batch_is_visible_as_a_whole():
    outcomes = [done(0, B), done(1, A), written(2, C)]
    intent = Intent(7, 2, A + B + C)
    notes = {0: Note(7, A + B), 1: Note(7, C)}
    assert decide(7, outcomes, intent, notes) == Decision(abort=("transaction 2",))


def test_W6_a_checkpoint_older_than_the_output_is_refused():
    decision = decide(7, [written(0, A)], Intent(9, 1, B), {})
    assert "batch 9 is already committed" in decision.refusal
    assert decision.abort == ("transaction 0",)


def test_W6_after_a_failed_task_everything_is_aborted():
    outcomes = [written(0, A), None, written(2, B)]
    expected = Decision(abort=("transaction 0", "transaction 2"))
    assert decide_after_failure(7, outcomes, Intent(6, 3, A), {}) == expected
    assert decide_after_failure(7, outcomes, None, {}) == expected


def test_W6_after_a_failed_commit_the_rest_is_committed():
    outcomes = [written(0, A), written(1, B)]
    decision = decide_after_failure(7, outcomes, Intent(7, 2, A + B), {0: Note(7, A), 1: Note(6, B)})
    assert decision == Decision(commit=("transaction 1",))


def test_W6_after_a_refused_replay_nothing_is_committed():
    outcomes = [done(0, C), written(1, B)]
    decision = decide_after_failure(7, outcomes, Intent(7, 2, A + B), {0: Note(7, A)})
    assert decision == Decision(abort=("transaction 1",))
