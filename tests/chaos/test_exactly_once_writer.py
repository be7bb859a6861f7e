"""Exactly once under hundreds of kills: the sink's tasks and commits under a small engine instead of Spark.

It has what Spark's order of calls allows: drivers that die at any moment, tasks that die, attempts that overlap, tasks
without rows, other numbers of tasks in each batch. See micro_batches.py.
"""

from __future__ import annotations

import os

import pytest

from chaos.engine import TROUBLES, Engine, kill_again_and_again
from chaos.pipeline import COMMITTER, END, report

pytestmark = [pytest.mark.broker, pytest.mark.timeout(900)]

SOAK_KILLS = int(os.environ.get("PENSTOCK_SOAK_WRITER_KILLS", "500"))


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_W6_a_driver_killed_five_times_under_a_small_engine_writes_each_row_once(kafka, topic, tmp_path, trouble):
    kill_again_and_again(Engine(kafka, topic(partitions=3), tmp_path, **trouble), kills=5)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_W6_a_driver_killed_hundreds_of_times_under_a_small_engine_writes_each_row_once(
    kafka, topic, tmp_path, trouble
):
    kill_again_and_again(Engine(kafka, topic(partitions=3), tmp_path, **trouble), SOAK_KILLS // len(TROUBLES))


def test_W6_each_step_under_a_small_engine(kafka, topic, tmp_path):
    """Batches have one to five tasks, so the same count hits different moments."""
    engine = Engine(kafka, topic(partitions=3), tmp_path)
    for count in range(1, 9):
        for when in ("before", "after"):
            engine.crash(f"kill {when} {count} {END}")
        engine.crash(f"fail before {count} {END}")
    for when in ("before", "after"):
        engine.crash(f"kill {when} 2 {COMMITTER}._write_intent")
        engine.crash(f"kill {when} 2 {COMMITTER}.commit")
        engine.crash(f"fail before 2 {END}", f"kill {when} 1 {COMMITTER}.abort")
    report(engine.check())
