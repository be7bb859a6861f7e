"""A query from Kafka to Kafka, exactly once, whose driver dies and is started again. Checks what it wrote."""

from __future__ import annotations

import itertools
import os
import random
import sys
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Producer

import penstock
from chaos.checkpoint import Checkpoint
from chaos.committed import await_no_open_transaction, committed
from chaos.load import Load
from chaos.processes import Driver, until
from fixtures.produce import rdkafka

PARTITIONS = 4
PER_WINDOW = 100  # numbers; see windows_of in driver.py
START_SECONDS = 300
FINISH_SECONDS = 600
LOOK_SECONDS = 0.01
OPEN_SECONDS = 90
CRASHING = Path(__file__).with_name("crashing")
PACKAGE = Path(penstock.__file__).parents[1]

NUMBER_AT_END = 10**9
"""Far behind all others: it moves the watermark behind all windows. Its own window is never complete."""

COMMITTER = "penstock.writer.commit Committer"
CLIENT = "penstock.wire.producer.transaction_client TransactionClient"
END = "penstock.wire.producer.send_together SendTogether._send"
"""Functions for `Pipeline.crash`."""

Trouble = Mapping[str, Any]


class Pipeline:
    """Numbers in `source`, and rows or windows of them in `target`. Lives in `folder`."""

    def __init__(
        self,
        kafka: Any,
        folder: Path,
        *,
        windowed: bool = False,
        partitions: int = PARTITIONS,
        per_batch: int = 500,
        sink: Mapping[str, str] | None = None,
        master: str = "local[2]",
        settings: Mapping[str, str] | None = None,
        trouble: Trouble | None = None,
        topics: Mapping[str, object] | None = None,
    ) -> None:
        """`sink`, `topics`: more options of the sink, and settings of both topics."""
        self.folder = folder
        self.checkpoint = Checkpoint(folder / "checkpoint", folder / "nothing")
        name = uuid.uuid4().hex[:12]
        self.target = f"target-{name}"
        self._source = f"source-{name}"
        self._kafka = kafka
        self._partitions = partitions
        self._windowed = windowed
        self._per_batch = per_batch
        self._sink = {"topic": self.target, "deliveryGuarantee": "exactly-once", **(sink or {})}
        self._master = master
        self._settings = settings or {}
        self._trouble = trouble
        self._lives = itertools.count()
        kafka.create_topic(self._source, partitions, configs=topics or {})
        kafka.create_topic(self.target, 3, configs=topics or {})

    def load(self, per_second: int = 300) -> Load:
        place = lambda number: (self._source, number % self._partitions)  # noqa: E731
        return Load(self._kafka.client_options(prefix=""), place, per_second)

    def produce(self, count: int) -> Counter[bytes]:
        """Write numbers, all at once."""
        producer = Producer(rdkafka(self._kafka.client_options(prefix="")))
        values = [b"value %d" % number for number in range(count)]
        for number, value in enumerate(values):
            producer.produce(self._source, value, partition=number % self._partitions)
        assert producer.flush(START_SECONDS) == 0
        return Counter(values)

    def start(
        self, *, ends: bool = False, crashes: Sequence[str] = (), trouble: Trouble | None = None, **options: str
    ) -> Driver:
        """A driver that runs until it is killed, or with `ends` until all records are written."""
        name = f"driver-{next(self._lives)}"
        trouble = trouble or (None if ends else self._trouble)
        limit = {} if ends else {"maxOffsetsPerTrigger": str(self._per_batch)}
        step = {
            "do": "pipe",
            "source": {
                **self._kafka.client_options(),
                "subscribe": self._source,
                "startingOffsets": "earliest",
                **limit,
            },
            "sink": self._kafka.client_options() | self._sink | options,
            "checkpoint": str(self.checkpoint.folder),
            "windowed": self._windowed,
            "trigger": {"availableNow": True} if ends else {"processingTime": "100 milliseconds"},
        }
        return Driver(
            [step if trouble is None else step | {"trouble": dict(trouble)}],
            self.folder,
            name=name,
            master=self._master,
            settings=self._settings,
            environment=environment(self.folder / f"{name}.crashes", crashes),
        )

    def crash(self, *crashes: str, trouble: Trouble | None = None) -> Driver:
        """One life, until the crashes happen. Each line: see crashing/sitecustomize.py."""
        with self.start(crashes=crashes, trouble=trouble) as driver:
            ended = until(lambda: not driver.running, START_SECONDS)
        assert ended, f"no crash in {START_SECONDS} s: {driver.log()[-3000:]}"
        logs = sorted((self.folder / f"{driver.name}.crashes").glob("crash-*"))
        happened = [path.read_text() for path in logs]
        assert len(happened) == len(crashes), f"{crashes}: not reached: {driver.log()[-3000:]}"
        assert all("!" in text for text in happened), f"{crashes}: {happened}: {driver.log()[-3000:]}"
        return driver

    def kill_at_random(self, chance: random.Random) -> None:
        """One life: until a new batch is planned, and up to two seconds longer; or, sometimes, any time after the
        start."""
        before = self.checkpoint.progress().planned
        with self.start() as driver:
            if chance.random() < 0.2:
                time.sleep(chance.uniform(0.2, 8))
            else:
                planned = lambda: self.checkpoint.progress().planned > before  # noqa: E731
                met = until(lambda: planned() or not driver.running, START_SECONDS, LOOK_SECONDS)
                assert met, f"no batch in {START_SECONDS} s: {driver.log()[-3000:]}"
                time.sleep(chance.uniform(0, 2))
            driver.kill()
        assert "StreamingQueryException" not in driver.log(), driver.log()[-5000:]

    def check(self, produced: Counter[bytes], **options: str) -> None:
        """Write what is left, and compare: a reader of committed records finds each row once, and nothing else."""
        if self._windowed:
            producer = Producer(rdkafka(self._kafka.client_options(prefix="")))
            producer.produce(self._source, b"value %d" % NUMBER_AT_END, partition=0)
            assert producer.flush(START_SECONDS) == 0
        with self.start(ends=True, **options) as driver:
            driver.answers(FINISH_SECONDS)
        await_no_open_transaction(self._kafka, self.target, OPEN_SECONDS)
        self.compare(produced)

    def check_none_twice(self) -> None:
        """No row is visible twice so far."""
        found = committed(self._kafka, self.target)
        twice = found - Counter(set(found))
        assert not twice, f"{twice.total()} of {len(found)} rows twice: {twice.most_common(5)}; logs in {self.folder}"

    def compare(self, produced: Counter[bytes]) -> None:
        numbers = [int(value.split()[1]) for value in produced]
        wanted = windows(numbers) if self._windowed else [f"row {number}" for number in numbers]
        found = committed(self._kafka, self.target)
        missing, surplus = Counter(wanted) - found, found - Counter(wanted)
        assert not missing, (
            f"missing {missing.total()} of {len(wanted)}: {missing.most_common(5)}; logs in {self.folder}"
        )
        assert not surplus, (
            f"surplus {surplus.total()} over {len(wanted)}: {surplus.most_common(5)}; logs in {self.folder}"
        )


class Supervised:
    """Keeps a driver of a pipeline running: a query that fails is started again."""

    def __init__(self, pipeline: Pipeline, failures: Sequence[str] = ()) -> None:
        """`failures`: words in the log of a query that may fail. Without them, none may."""
        self._pipeline = pipeline
        self._failures = failures
        self.driver = pipeline.start()
        self.restarts = 0

    def await_batches(self, count: int, seconds: float = START_SECONDS) -> None:
        """Wait until Spark has noted so many more batches."""
        wanted = self._done() + count
        end = time.monotonic() + seconds
        while self._done() < wanted:
            if not self.driver.running:
                self._restart()
            assert time.monotonic() < end, f"no {count} batches in {seconds} s: {self.driver.log()[-5000:]}"
            time.sleep(LOOK_SECONDS)

    def _done(self) -> int:
        return self._pipeline.checkpoint.progress().done

    def _restart(self) -> None:
        self.driver.kill()
        log = self.driver.log()
        assert any(words in log for words in self._failures), f"the query has ended: {log[-8000:]}"
        self.restarts += 1
        self.driver = self._pipeline.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.driver.kill()


def windows(numbers: Sequence[int]) -> list[str]:
    """What windows_of in driver.py writes."""
    counts: Counter[int] = Counter()
    sums: Counter[int] = Counter()
    for number in numbers:
        first = number - number % PER_WINDOW
        counts[first] += 1
        sums[first] += number
    return [f"{first} {counts[first]} {sums[first]}" for first in counts]


def environment(folder: Path, crashes: Sequence[str] = ()) -> dict[str, str]:
    """For a driver: it imports the same penstock as this process, and crashes if it is told to."""
    if not crashes:
        return {"PYTHONPATH": str(PACKAGE)}
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "PYTHONPATH": os.pathsep.join(map(str, (CRASHING, PACKAGE))),
        "PENSTOCK_CRASHES": "\n".join(crashes),
        "PENSTOCK_CRASH_FOLDER": str(folder),
    }


def report(text: str) -> None:
    """Progress. pytest shows it if a test fails; `make soak` shows it at once."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
