"""Exactly once: a driver killed at each step of the protocol, and commits and aborts that fail.

writer/decision.py says why it holds. crashing/sitecustomize.py causes the crashes: the product has no hooks for tests.
One query lives through all of them. The first batch of each life repeats that of the last crash, and the next crash is
in the second batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from chaos.pipeline import CLIENT, COMMITTER, END, PARTITIONS, Pipeline, report

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(3600)]

TASKS = PARTITIONS

KILLS = {
    "a task has its id": [f"kill after +2 {CLIENT}.take_transactional_id"],
    "a task has written its rows": [f"kill before +2 {CLIENT}.commit_in_transaction"],
    "a task has written its note": [f"kill after +2 {CLIENT}.commit_in_transaction"],
    "a task is done": ["kill after +2 penstock.writer.task run_task"],
    "all tasks are done": [f"kill before +1 {COMMITTER}.commit"],
    "before the intent": [f"kill before +1 {COMMITTER}._write_intent"],
    "after the intent": [f"kill after +1 {COMMITTER}._write_intent"],
    "before the first end": [f"kill before +1 {END}"],
    "after the first end": [f"kill after +1 {END}"],
    "before the last end": [f"kill before +{TASKS} {END}"],
    "after the last end": [f"kill after +{TASKS} {END}"],
    "before Spark's commit log": [f"kill after +1 {COMMITTER}.commit"],
}

FAILED_COMMITS = {
    "at the intent": [f"fail before +1 {COMMITTER}._write_intent"],
    "at the first end": [f"fail before +1 {END}"],
    "at the last end": [f"fail before +{TASKS} {END}"],
    "after the last end": [f"fail after +1 {COMMITTER}.commit"],
    "and killed before the abort": [f"fail before +2 {END}", f"kill before 1 {COMMITTER}.abort"],
    # The call after the last one of the commit is in the abort, which completes the commit.
    "and killed in the abort": [f"fail before +2 {END}", f"kill before +{TASKS + 1} {END}"],
    "and killed after the abort": [f"fail before +2 {END}", f"kill after 1 {COMMITTER}.abort"],
}

FAILED_TASKS = {
    "killed before the abort": [f"kill before 1 {COMMITTER}.abort"],
    "killed in the abort": [f"kill after 1 {COMMITTER}._decision_after_failure"],
    "killed after the abort": [f"kill after 1 {COMMITTER}.abort"],
}

LAST_FAILS = {"chance": 1.0, "task": TASKS - 1}
"""With two cores, at least two of four tasks have succeeded when the last one starts. Without a task that has succeeded
there is nothing to abort."""

WINDOW_KILLS = {
    "before the intent": [f"kill before +1 {COMMITTER}._write_intent"],
    "before the first end": [f"kill before +1 {END}"],
    "between the ends": [f"kill after +1 {END}"],
    "after the last end": [f"kill after +2 {END}"],
    "before Spark's commit log": [f"kill after +1 {COMMITTER}.commit"],
}
"""Two tasks write windows."""


def live_through(
    pipeline: Pipeline, steps: Mapping[str, Sequence[str]], trouble: dict[str, float] | None = None
) -> None:
    with pipeline.load() as load:
        for number, (step, crashes) in enumerate(steps.items(), 1):
            pipeline.crash(*crashes, trouble=trouble)
            pipeline.check_none_twice()
            report(f"{number} of {len(steps)}: {step}: {pipeline.checkpoint.progress()}")
        produced = load.stop()
    pipeline.check(produced)


def test_W6_a_driver_killed_at_each_step_writes_each_row_once(kafka, tmp_path):
    live_through(Pipeline(kafka, tmp_path), KILLS)


def test_W6_a_driver_killed_at_each_step_writes_each_window_once(kafka, tmp_path):
    live_through(Pipeline(kafka, tmp_path, windowed=True), WINDOW_KILLS)


def test_W6_a_commit_that_fails_is_completed_or_replayed(kafka, tmp_path):
    live_through(Pipeline(kafka, tmp_path), FAILED_COMMITS)


def test_W6_an_abort_that_dies_leaves_no_row_twice(kafka, tmp_path):
    live_through(Pipeline(kafka, tmp_path), FAILED_TASKS, trouble=LAST_FAILS)
