"""Exactly once with tasks that die, fail, run twice, or take longer than their transactions live."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator

import pytest

from chaos.committed import await_no_open_transaction
from chaos.pipeline import END, Pipeline, Supervised, report
from chaos.processes import until
from penstock.testing import EmbeddedKafka
from support import spark_jvm

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(900)]

SOAK_KILLS = int(os.environ.get("PENSTOCK_SOAK_WORKER_KILLS", "100"))
SOAK_BATCHES = int(os.environ.get("PENSTOCK_SOAK_BATCHES", "60"))
LOST = "TransactionLost"
MAX_FAILURES = "failed 4 times"
SHORT_MS = 3000
"""Of transactions that time out on purpose."""

LONGER_MS = 15_000
"""Of transactions that time out after their commit began: a busy machine takes seconds until it begins."""


@pytest.fixture(scope="module")
def impatient() -> Iterator[EmbeddedKafka]:
    """A broker that ends transactions as soon as they time out, not up to 10 s later."""
    with EmbeddedKafka(settings={"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}) as kafka:
        yield kafka


def kill_workers(query: Supervised, kills: int) -> None:
    chance, killed = random.Random(kills), 0
    while killed < kills:
        assert until(query.driver.task_workers, 120), query.driver.log()[-3000:]
        time.sleep(chance.uniform(0, 0.5))
        for pid in query.driver.task_workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        report(f"{killed} of {kills} workers killed")
        query.await_batches(1)


def write_while_workers_die(pipeline: Pipeline, kills: int) -> None:
    with pipeline.load() as load, Supervised(pipeline) as query:
        kill_workers(query, kills)
        assert "Lost task" in query.driver.log(), "no kill fell into a task"
        produced = load.stop()
    pipeline.check(produced)


@pytest.mark.parametrize("windowed", [False, True], ids=["rows", "windows"])
def test_W6_killed_workers_write_each_row_once(kafka, tmp_path, windowed):
    write_while_workers_die(Pipeline(kafka, tmp_path, windowed=windowed, master="local[2,100]"), kills=8)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("windowed", [False, True], ids=["rows", "windows"])
def test_W6_workers_killed_many_times_write_each_row_once(kafka, tmp_path, windowed):
    write_while_workers_die(Pipeline(kafka, tmp_path, windowed=windowed, master="local[2,100]"), kills=SOAK_KILLS)


def write_in_spite_of(pipeline: Pipeline, batches: int, failures: list[str], **options: str) -> None:
    with pipeline.load() as load, Supervised(pipeline, failures) as query:
        for done in range(1, batches + 1):
            query.await_batches(1)
            if done % 10 == 0:
                report(f"{done} of {batches} batches, {query.restarts} restarts")
        produced = load.stop()
    report(f"{len(produced)} records, {query.restarts} restarts")
    pipeline.check(produced, **options)


def failing(kafka: EmbeddedKafka, folder, windowed: bool = False) -> Pipeline:
    return Pipeline(kafka, folder, windowed=windowed, master="local[2,4]", trouble={"chance": 0.15})


def test_W6_tasks_that_fail_at_random_write_each_row_once(kafka, tmp_path):
    write_in_spite_of(failing(kafka, tmp_path), 10, [MAX_FAILURES])


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("windowed", [False, True], ids=["rows", "windows"])
def test_W6_tasks_that_fail_often_write_each_row_once(kafka, tmp_path, windowed):
    write_in_spite_of(failing(kafka, tmp_path, windowed), SOAK_BATCHES, [MAX_FAILURES])


def speculating(kafka: EmbeddedKafka, folder) -> Pipeline:
    """A cluster of two executors: Spark does not speculate on a local master. Attempts of one task that overlap fence
    each other; if the one that Spark chose is fenced, the query fails."""
    settings = {
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.25",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.executor.memory": "600m",
        "spark.executor.extraJavaOptions": spark_jvm.OPTIONS,
    }
    trouble = {"chance": 0.3, "seconds": 2}
    return Pipeline(kafka, folder, master="local-cluster[2,2,600]", settings=settings, trouble=trouble)


@pytest.mark.parametrize("batches", [10, pytest.param(SOAK_BATCHES, marks=[pytest.mark.soak, pytest.mark.timeout(0)])])
def test_W6_speculative_attempts_write_each_row_once(kafka, tmp_path, batches):
    write_in_spite_of(speculating(kafka, tmp_path), batches, [LOST, MAX_FAILURES])


def short_lived(kafka: EmbeddedKafka, folder, milliseconds=SHORT_MS, **options) -> Pipeline:
    return Pipeline(kafka, folder, sink={"kafka.transaction.timeout.ms": str(milliseconds)}, **options)


PATIENT = {"kafka.transaction.timeout.ms": "60000"}


def test_W6_a_transaction_that_times_out_fails_the_query_and_is_replayed(impatient, tmp_path):
    """One task is slow: by the time the driver commits, the transactions of the others have ended."""
    pipeline = short_lived(impatient, tmp_path)
    produced = pipeline.produce(1000)
    slow = {"chance": 1.0, "seconds": 4 * SHORT_MS / 1000, "once": str(tmp_path / "was-slow")}
    with pipeline.start(trouble=slow) as driver:
        assert until(lambda: not driver.running, 120), driver.log()[-3000:]
    assert LOST in driver.log(), driver.log()[-5000:]
    assert "Start the query again: it replays batch 0, and no row is lost or visible twice" in driver.log()
    pipeline.check(produced, **PATIENT)


def test_W6_what_times_out_after_a_commit_began_is_replayed(impatient, tmp_path):
    pipeline = short_lived(impatient, tmp_path, LONGER_MS)
    produced = pipeline.produce(1000)
    pipeline.crash(f"kill after 1 {END}")
    await_no_open_transaction(impatient, pipeline.target, 90)
    pipeline.check(produced, **PATIENT)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_W6_transactions_that_time_out_often_are_replayed(impatient, tmp_path):
    pipeline = short_lived(impatient, tmp_path, trouble={"chance": 0.05, "seconds": 4 * SHORT_MS / 1000})
    write_in_spite_of(pipeline, SOAK_BATCHES, [LOST], **PATIENT)
