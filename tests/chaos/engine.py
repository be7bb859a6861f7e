"""A query of the small engine (micro_batches.py) that is killed at random, and its rows counted afterwards."""

from __future__ import annotations

import json
import random
import sys
import time
import uuid
from collections import Counter
from pathlib import Path

from chaos.committed import await_no_open_transaction, committed
from chaos.micro_batches import newest
from chaos.pipeline import environment, report
from chaos.processes import Program, until
from penstock.testing import EmbeddedKafka

ENGINE = Path(__file__).with_name("micro_batches.py")
SECONDS = 180
OPEN_SECONDS = 120
FOREVER = 10**6


class Engine:
    """A query of the small engine."""

    def __init__(self, kafka: EmbeddedKafka, topic: str, folder: Path, **trouble: float) -> None:
        self._kafka, self._topic, self._folder = kafka, topic, folder
        self._trouble = {"deaths": 0.0, "twins": 0.0} | trouble
        self._query = uuid.uuid4().hex
        self._lives = 0
        self.failures: Counter[str] = Counter()

    def start(self, batches: int = FOREVER, crashes: tuple[str, ...] = (), quiet: bool = False) -> Program:
        self._lives += 1
        name = f"life-{self._lives}"
        sink = {"topic": self._topic, "deliveryGuarantee": "exactly-once", "kafka.transaction.timeout.ms": "30000"}
        order = self._folder / f"{name}.order"
        trouble = {"deaths": 0.0, "twins": 0.0} if quiet else self._trouble
        order.write_text(
            json.dumps(
                {
                    "sink": self._kafka.client_options() | sink,
                    "folder": str(self._folder),
                    "query": self._query,
                    "batches": batches,
                    **trouble,
                }
            )
        )
        more = environment(self._folder / f"{name}.crashes", crashes)
        return Program(name, [sys.executable, ENGINE, order], self._folder, more)

    def kill_at_random(self, chance: random.Random) -> None:
        """One life: until a new batch is planned, and a little longer. A query may fail by itself if attempts overlap:
        the one whose result counts may have been fenced by the other."""
        before = newest(self._folder / "offsets")
        with self.start() as driver:
            planned = lambda: newest(self._folder / "offsets") > before  # noqa: E731
            assert until(lambda: planned() or not driver.running, SECONDS, 0.002), driver.log()[-3000:]
            until(lambda: not driver.running, chance.uniform(0, 1), 0.01)
            if not driver.running:
                self._failed(driver)
            driver.kill()

    def _failed(self, driver: Program) -> None:
        reason = driver.log().rstrip().rpartition("\n")[2]
        lost = "TransactionLost" in driver.log() and self._trouble["twins"]
        assert lost or "a task failed too often" in reason, driver.log()[-3000:]
        self.failures[reason.split(":")[0]] += 1

    def crash(self, *crashes: str) -> None:
        with self.start(crashes=crashes) as driver:
            assert until(lambda: not driver.running, SECONDS), driver.log()[-3000:]
        logs = list((self._folder / f"{driver.name}.crashes").glob("crash-*"))
        assert len(logs) == len(crashes), f"{crashes}: not reached: {driver.log()[-3000:]}"
        assert all("!" in log.read_text() for log in logs), driver.log()[-3000:]

    def check(self) -> str:
        """Finish the last batch, and compare."""
        batches = newest(self._folder / "offsets") + 1
        with self.start(batches, quiet=True) as driver:
            assert driver.wait(SECONDS) == 0, driver.log()[-3000:]
        await_no_open_transaction(self._kafka, self._topic, OPEN_SECONDS)
        found, wanted = committed(self._kafka, self._topic), Counter(self._rows(batches))
        assert found == wanted, f"surplus {found - wanted}, missing {wanted - found}, logs in {self._folder}"
        return f"{batches} batches, {wanted.total()} rows: each once; {dict(self.failures)}"

    def _rows(self, batches: int) -> list[str]:
        return [
            f"row {batch} {task} {number}"
            for batch in range(batches)
            for task, count in enumerate(json.loads((self._folder / "offsets" / str(batch)).read_text()))
            for number in range(count)
        ]


TROUBLES = {
    "drivers": {},
    "drivers and tasks": {"deaths": 0.2},
    "drivers and twins": {"twins": 0.2},
    "all": {"deaths": 0.15, "twins": 0.15},
}


def kill_again_and_again(engine: Engine, kills: int) -> None:
    chance, began = random.Random(), time.monotonic()
    for kill in range(1, kills + 1):
        engine.kill_at_random(chance)
        if kill % 25 == 0:
            report(f"{kill} of {kills} kills in {time.monotonic() - began:.0f} s: {engine.check()}")
    report(engine.check())
