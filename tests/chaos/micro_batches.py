"""A small engine in the place of Spark, for thousands of kills: it starts in a second and runs ten batches in another.

    python micro_batches.py <order.json>

It calls the sink as Spark does: plan a batch and record it in `offsets`, run its tasks, retry those that fail, call
`commit` or `abort` on the driver, record the batch in `commits`. A restart replays a batch that is not in `commits`.
Each batch has 1 to 5 tasks; each task has 0 to 100 rows with values `row <batch> <task> <number>`. The file has:

    sink        options
    folder      for `offsets` and `commits`
    query       the id of the query
    batches     the number of batches at which the driver ends
    deaths      the probability that a task is killed, at any moment
    jobs        instead of the batches of a query, batch writes of `<name> <number>`, one after the other. Prints `began
                <name>`, `committing <name>` and `done <name>`
    twins       the probability that two attempts at a task run at the same time. The engine takes the first result,
                and kills the other attempt some time later, as Spark does
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from penstock.config.sink import SinkOptions, parse_sink_options
from penstock.errors import PenstockError
from penstock.writer.commit import Committer
from penstock.writer.names import SinkScope
from penstock.writer.outcome import TaskOutcome
from penstock.writer.task import TaskPlace, run_task

FORK = multiprocessing.get_context("fork")
MAX_FAILURES = 4
ARROW_ROWS = 20
LIFE_SECONDS = 60  # of an attempt, which may outlive its driver
KILL_SECONDS = 0.3


def main() -> None:
    order = json.loads(Path(sys.argv[1]).read_text())
    options = parse_sink_options(order["sink"])
    if order.get("jobs"):
        run_jobs(order, options)
    scope = SinkScope(options.prefix, "query", order["query"], options.topic or "*")
    folder = Path(order["folder"])
    for batch in range(newest(folder / "commits") + 1, order["batches"]):
        tasks = plan(folder / "offsets" / str(batch))
        outcomes = run_batch(order, options, scope, batch, tasks)
        committer = Committer(options, scope, batch)
        complete = [outcome for outcome in outcomes if outcome is not None]
        try:
            if len(complete) < len(tasks):
                raise SystemExit("a task failed too often")
            committer.commit(complete)
        except (SystemExit, PenstockError):
            committer.abort(outcomes)
            raise
        record(folder / "commits" / str(batch), "done")


def run_jobs(order: dict[str, Any], options: SinkOptions) -> NoReturn:
    rows, tasks = order["jobs"]
    while True:
        name = uuid.uuid4().hex[:8]
        scope = SinkScope(options.prefix, "job", name, options.topic or "*")
        sys.stdout.write(f"began {name}\n")
        sys.stdout.flush()
        outcomes = []
        for task in range(tasks):
            values = [f"{name} {number}" for number in range(task, rows, tasks)]
            batch = pa.RecordBatch.from_pydict({"value": values})
            outcomes.append(run_task(options, TaskPlace(scope, task, None), [batch]))
        sys.stdout.write(f"committing {name}\n")
        sys.stdout.flush()
        Committer(options, scope, None).commit(outcomes)
        sys.stdout.write(f"done {name}\n")
        sys.stdout.flush()


def plan(path: Path) -> list[int]:
    """The number of rows of each task. The same for each replay."""
    if not path.exists():
        record(path, json.dumps([random.choice((0, random.randint(1, 100))) for _ in range(random.randint(1, 5))]))
    return json.loads(path.read_text())


def record(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_text(text)
    unfinished.replace(path)


def newest(folder: Path) -> int:
    return max((int(path.name) for path in folder.glob("[0-9]*")), default=-1)


def rows_of(batch: int, task: int, count: int) -> Iterator[pa.RecordBatch]:
    values = [f"row {batch} {task} {number}" for number in range(count)]
    for first in range(0, count, ARROW_ROWS):
        yield pa.RecordBatch.from_pydict({"value": values[first : first + ARROW_ROWS]})


def run_batch(
    order: dict[str, Any], options: SinkOptions, scope: SinkScope, batch: int, tasks: list[int]
) -> list[TaskOutcome | None]:
    found = []
    for task, count in enumerate(tasks):
        place = TaskPlace(scope, task, batch)
        outcome = None
        for _ in range(MAX_FAILURES):
            outcome = outcome or run_attempts(order, options, place, count)
        found.append(outcome)
    return found


def run_attempts(order: dict[str, Any], options: SinkOptions, place: TaskPlace, count: int) -> TaskOutcome | None:
    """One attempt, or two at the same time. The first result; None if all have failed."""
    running: dict[Any, Any] = {}
    for _ in range(2 if random.random() < order["twins"] else 1):
        here, there = FORK.Pipe(duplex=False)
        pause = random.uniform(0, 0.05) if order["twins"] else 0
        process = FORK.Process(target=attempt, args=(options, place, count, pause, there), daemon=True)
        process.start()
        there.close()
        running[here] = process
        if random.random() < order["deaths"]:
            kill_later(process.pid)
    while running:
        for pipe in wait(list(running)):
            process = running.pop(pipe)
            with contextlib.suppress(EOFError):
                outcome = pipe.recv()
                for each in running.values():
                    kill_later(each.pid)
                return outcome
    return None


def attempt(options: SinkOptions, place: TaskPlace, count: int, pause: float, pipe: Connection) -> None:
    os.setpgid(0, 0)
    signal.alarm(LIFE_SECONDS)

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in rows_of(place.batch or 0, place.task, count):
            yield batch
            time.sleep(pause)

    pipe.send(run_task(options, place, rows()))


def kill_later(pid: int | None) -> None:
    def kill() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid or 0, signal.SIGKILL)

    timer = threading.Timer(random.uniform(0, KILL_SECONDS), kill)
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    main()
