"""One checkpoint, two sources: a query changes hands between Spark's own Kafka source and Penstock, both ways.

The sink is Spark's Parquet sink, whose log takes each batch once. All phases of a test run in one driver, which waits
for a file where new records are to come in between.
"""

import itertools
from functools import partial
from pathlib import Path

import pytest

from chaos.processes import RUN_SECONDS, Driver, until
from chaos.sink import written
from fixtures.produce import Rec

# The first test of all may have to fetch PySpark 4.2.0, which is large.
pytestmark = [pytest.mark.jvm, pytest.mark.broker, pytest.mark.timeout(1500)]

PARTITIONS = 3
JVM, PENSTOCK = "kafka", "penstock"


class Migration:
    """A topic, a checkpoint, an output; and what was produced so far."""

    def __init__(self, kafka, topic, produce, folder: Path) -> None:
        self.folder = folder
        self.checkpoint, self.output = folder / "checkpoint", folder / "output"
        self._topic, self._produce = topic(partitions=PARTITIONS), produce
        self._options = kafka.client_options() | {"subscribe": self._topic, "startingOffsets": "earliest"}
        self._count = 0

    def produce(self, count: int) -> None:
        end = self._count + count
        numbers = range(self._count, end)
        self._produce(self._topic, [Rec(b"value %d" % i, timestamp=i + 1, partition=i % PARTITIONS) for i in numbers])
        self._count = end

    def step(self, source: str, *, batches: int | None = None, **options: object) -> dict:
        """Read all records, or some batches of them."""
        trigger = {"processingTime": "0 seconds"} if batches else {"availableNow": True}
        return {
            "do": "stream",
            "format": source,
            "options": self._options | {name: str(value) for name, value in options.items()},
            "path": str(self.output),
            "checkpoint": str(self.checkpoint),
            "trigger": trigger,
        } | ({"batches": batches} if batches else {})

    def pause(self, name: str) -> dict:
        return {"do": "await", "path": str(self.folder / name)}

    def go_on(self, name: str) -> None:
        (self.folder / name).touch()

    def await_answers(self, driver: Driver, count: int) -> None:
        """Until so many steps are done."""
        done = until(lambda: len(driver.answered()) >= count or not driver.running, RUN_SECONDS)
        assert done, driver.log()[-3000:]
        assert len(driver.answered()) >= count, driver.log()[-3000:]

    def assert_each_record_once(self) -> None:
        wanted = {(self._topic, i % PARTITIONS, i // PARTITIONS, b"value %d" % i): 1 for i in range(self._count)}
        assert written(self.output) == wanted

    def forget_last_batch(self) -> int:
        """As a crash leaves it after planning: the offsets are there, the sink and the commit log know nothing."""
        last = max(int(path.name) for path in (self.checkpoint / "commits").glob("[0-9]*"))
        for folder in (self.checkpoint / "commits", self.output / "_spark_metadata"):
            (folder / str(last)).unlink()
            (folder / f".{last}.crc").unlink()
        return last


@pytest.fixture
def migration(kafka, topic, produce, tmp_path):
    return Migration(kafka, topic, produce, tmp_path)


def test_F20_a_checkpoint_moves_from_spark_to_penstock_and_back_and_back_again(migration, both_sources):
    migration.produce(300)
    steps = [migration.step(JVM)]
    for name, source in (("b", PENSTOCK), ("c", JVM), ("d", PENSTOCK)):
        steps += [migration.pause(name), migration.step(source)]
    with both_sources(steps, migration.folder) as driver:
        for done, name in enumerate("bcd"):
            migration.await_answers(driver, 1 + 2 * done)
            migration.produce(200 + 10 * done)
            migration.go_on(name)
        answers = driver.answers()
    batches = [batch for answer in answers if answer for batch in answer]
    assert [batch["rows"] for batch in batches] == [300, 200, 210, 220]  # so both sources took part
    for before, after in itertools.pairwise(batches):
        assert after["startOffset"] == before["endOffset"]
    migration.assert_each_record_once()


def test_F20_sources_change_places_in_the_middle_of_a_backlog(migration, both_sources):
    migration.produce(1200)
    steps = [migration.step(source, batches=2, maxOffsetsPerTrigger=90) for source in (JVM, PENSTOCK, JVM, PENSTOCK)]
    with both_sources([*steps, migration.step(JVM, maxOffsetsPerTrigger=300)], migration.folder) as driver:
        answers = driver.answers()
    assert all(answers)
    assert all(batch["rows"] <= 300 for answer in answers for batch in answer)
    migration.assert_each_record_once()


@pytest.mark.parametrize(("planner", "reader"), [(JVM, PENSTOCK), (PENSTOCK, JVM)])
def test_F18_a_batch_that_one_source_planned_is_replayed_by_the_other_as_planned(
    migration, both_sources, planner, reader
):
    migration.produce(200)
    steps = [migration.step(planner, maxOffsetsPerTrigger=120), migration.pause("crashed"), migration.step(reader)]
    with both_sources(steps, migration.folder) as driver:
        migration.await_answers(driver, 1)
        forgotten = migration.forget_last_batch()
        migration.produce(100)  # must not slip into the batch that was planned before
        migration.go_on("crashed")
        before, _, after = driver.answers()
    [planned] = [batch for batch in before if batch["id"] == forgotten]
    replayed = after[0]
    assert {name: replayed[name] for name in ("id", "rows", "startOffset", "endOffset")} == {
        name: planned[name] for name in ("id", "rows", "startOffset", "endOffset")
    }
    migration.assert_each_record_once()


def test_F20_a_checkpoint_of_an_older_spark_moves_to_penstock_on_this_one_and_back(migration, both_sources):
    here = partial(Driver, name="here")
    for start, source, rows in ((both_sources, JVM, 300), (here, PENSTOCK, 200), (both_sources, JVM, 100)):
        migration.produce(rows)
        with start([migration.step(source)], migration.folder) as driver:
            [batches] = driver.answers()
        assert [batch["rows"] for batch in batches] == [rows]
    migration.assert_each_record_once()
