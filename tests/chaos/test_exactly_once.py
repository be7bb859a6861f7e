"""Exactly once from topic to topic: a driver is killed with SIGKILL at random moments while records arrive.

Driver, JVM and Python workers end at once, as in a power cut. In the end a reader of committed records must find each
row once, or each window with all its numbers.
"""

import os
import random

import pytest

from chaos.pipeline import Pipeline, report

pytestmark = [pytest.mark.spark, pytest.mark.broker]

SOAK_KILLS = int(os.environ.get("PENSTOCK_SOAK_KILLS", "24"))
SEED = int(os.environ.get("PENSTOCK_SOAK_SEED", str(random.randrange(10**6))))
"""Printed. The moments of kills are random anyway: this repeats only the plan."""


def kill_again_and_again(pipeline: Pipeline, kills: int) -> None:
    report(f"seed {SEED}, logs in {pipeline.folder}")
    chance = random.Random(SEED)
    with pipeline.load() as load:
        for kill in range(1, kills + 1):
            pipeline.kill_at_random(chance)
            report(f"kill {kill} of {kills}: {load.written} records, {pipeline.checkpoint.progress()}")
        produced = load.stop()
    pipeline.check(produced)
    report(f"{len(produced)} records: each once")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("windowed", [False, True], ids=["rows", "windows"])
def test_W6_a_driver_killed_four_times_writes_each_row_once(kafka, tmp_path, windowed):
    kill_again_and_again(Pipeline(kafka, tmp_path, windowed=windowed), kills=4)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("windowed", [False, True], ids=["rows", "windows"])
def test_W6_a_driver_killed_many_times_writes_each_row_once(kafka, tmp_path, windowed):
    kill_again_and_again(Pipeline(kafka, tmp_path, windowed=windowed), kills=SOAK_KILLS)
