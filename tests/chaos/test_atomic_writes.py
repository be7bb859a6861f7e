"""Batch writes that are killed with SIGKILL: a reader of committed records finds all rows of a write, or none."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.committed import await_no_open_transaction, committed
from chaos.pipeline import environment, report
from chaos.processes import Driver, Program, until
from penstock.testing import EmbeddedKafka

pytestmark = [pytest.mark.spark, pytest.mark.broker]

SOAK_KILLS = int(os.environ.get("PENSTOCK_SOAK_WRITES", "100"))
SOAK_COMMIT_KILLS = int(os.environ.get("PENSTOCK_SOAK_WRITER_KILLS", "500"))
ENGINE = Path(__file__).with_name("micro_batches.py")
ROWS, ENGINE_ROWS, TASKS = 2000, 40, 4
START_SECONDS = 180
TIMEOUT_MS = 15_000
OPEN_SECONDS = 120  # the time-out, up to 10 s until the broker looks for it, and a busy machine


class Writes:
    """Writes to one topic, by drivers that are killed."""

    def __init__(self, kafka: EmbeddedKafka, topic: str, folder: Path) -> None:
        self._kafka, self._topic, self._folder = kafka, topic, folder
        self._sink = kafka.client_options() | {
            "topic": topic,
            "deliveryGuarantee": "exactly-once",
            "kafka.transaction.timeout.ms": str(TIMEOUT_MS),
        }
        self._lives = itertools.count()
        self._began: list[str] = []
        self._done: list[str] = []

    def kill_at_random(self, chance: random.Random) -> None:
        """One life of a driver, which writes again and again: up to its third write."""
        step = {"do": "writes", "sink": self._sink, "rows": ROWS, "tasks": TASKS}
        name = f"driver-{next(self._lives)}"
        with Driver([step], self._folder, name=name, environment=environment(self._folder)) as driver:
            driver.await_line("began")
            if chance.random() < 0.5:
                driver.await_line("done")  # the first write is slow: Spark's and Python's processes are new
            time.sleep(chance.uniform(0, 1.5))
            driver.kill()
        self._ended(driver)

    def kill_commit_at_random(self, chance: random.Random) -> None:
        """One life of the small engine, which is killed in a commit, or a little before or after it."""
        name = f"engine-{next(self._lives)}"
        order = self._folder / f"{name}.order"
        order.write_text(json.dumps({"sink": self._sink, "jobs": [ENGINE_ROWS, TASKS]}))
        with Program(name, [sys.executable, ENGINE, order], self._folder, environment(self._folder)) as engine:
            wanted = chance.randint(1, 4)
            commits = lambda: engine.log().count("committing")  # noqa: E731
            assert until(lambda: commits() >= wanted or not engine.running, START_SECONDS, 0.001), engine.log()
            time.sleep(chance.uniform(0, 0.05))
            engine.kill()
        self._ended(engine)

    def _ended(self, driver: Program) -> None:
        assert "Error" not in driver.log(), driver.log()[-3000:]
        self._began += re.findall(r"^began (\w+)$", driver.log(), re.MULTILINE)
        self._done += re.findall(r"^done (\w+)$", driver.log(), re.MULTILINE)

    def check(self) -> str:
        await_no_open_transaction(self._kafka, self._topic, OPEN_SECONDS)
        found = committed(self._kafka, self._topic)
        assert not (found - Counter(set(found))), "some rows are visible twice"
        rows = Counter(value.split()[0] for value in found)
        partial = {name: count for name, count in rows.items() if count not in (ROWS, ENGINE_ROWS)}
        assert not partial, f"writes that are visible in part: {partial}, logs in {self._folder}"
        assert not set(self._done) - set(rows), f"not visible: {set(self._done) - set(rows)}"
        return f"{len(self._began)} writes, {len(rows)} visible, {len(self._done)} returned"


Kill = Callable[[Writes, random.Random], None]


def kill_again_and_again(kafka, topic, folder, kills: int, kill: Kill = Writes.kill_at_random) -> None:
    writes, chance = Writes(kafka, topic(partitions=3), folder), random.Random()
    for number in range(1, kills + 1):
        kill(writes, chance)
        if number % 25 == 0:
            report(f"{number} of {kills} kills: {writes.check()}")
    report(writes.check())


@pytest.mark.timeout(900)
def test_W7_a_write_killed_five_times_is_visible_as_a_whole_or_not_at_all(kafka, topic, tmp_path):
    kill_again_and_again(kafka, topic, tmp_path, kills=5)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_W7_a_write_killed_many_times_is_visible_as_a_whole_or_not_at_all(kafka, topic, tmp_path):
    kill_again_and_again(kafka, topic, tmp_path, SOAK_KILLS)


@pytest.mark.timeout(900)
def test_W7_a_commit_killed_ten_times_is_visible_as_a_whole_or_not_at_all(kafka, topic, tmp_path):
    """In the commit or near it, with a small engine instead of Spark."""
    kill_again_and_again(kafka, topic, tmp_path, 10, Writes.kill_commit_at_random)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_W7_a_commit_killed_hundreds_of_times_is_visible_as_a_whole_or_not_at_all(kafka, topic, tmp_path):
    kill_again_and_again(kafka, topic, tmp_path, SOAK_COMMIT_KILLS, Writes.kill_commit_at_random)
