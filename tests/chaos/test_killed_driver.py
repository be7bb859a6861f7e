"""Exactly once: a driver is killed with SIGKILL repeatedly while records arrive.

Driver, JVM and Python workers end at once, as in a power cut. Each kill has an aim: the first planning, a batch that is
planned but not in the sink, a batch that is in the sink but not in the commit log, the time after it, or a random time.
"""

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable

import pytest

from chaos.checkpoint import Checkpoint, Moment
from chaos.load import Load, group_offsets
from chaos.processes import Driver, until
from chaos.sink import values_of, written

pytestmark = [pytest.mark.spark, pytest.mark.broker]

PARTITIONS = 4
START_SECONDS = 120
LOOK_SECONDS = 0.005  # a batch takes 100 ms and more
LATE_KILLS = 3  # on a busy machine a kill may come too late for its aim

Aim = Callable[[Checkpoint], bool]


class KilledQuery:
    """A query whose driver is killed and restarted on its checkpoint."""

    def __init__(self, kafka, topic: str, folder) -> None:
        self.folder = folder
        self.checkpoint = Checkpoint(folder / "checkpoint", folder / "output")
        self.places = [(topic, partition) for partition in range(PARTITIONS)]
        self._group = f"{topic}-group"
        self._client = kafka.client_options(prefix="")
        self._options = kafka.client_options() | {
            "subscribe": topic,
            "startingOffsets": "earliest",
            "kafka.group.id": self._group,
        }
        self._runs = itertools.count()

    def start(self, options: dict[str, str], **trigger: object) -> Driver:
        step = {
            "do": "stream",
            "format": "penstock",
            "options": self._options | options,
            "path": str(self.checkpoint.output),
            "checkpoint": str(self.checkpoint.folder),
            "trigger": trigger,
        }
        return Driver([step], self.folder, name=f"driver-{next(self._runs)}")

    def kill_at(self, aim: Aim, delay: float) -> Moment:
        """One life of the driver: until `aim` is met, and a little longer. Returns the state at the kill."""
        with self.start({"maxOffsetsPerTrigger": "500"}, processingTime="100 milliseconds") as driver:
            met = until(lambda: aim(self.checkpoint) or not driver.running, START_SECONDS, LOOK_SECONDS)
            time.sleep(delay)
            driver.kill()
        assert met, f"the aim of the kill was not met: {driver.log()[-3000:]}"
        assert "StreamingQueryException" not in driver.log(), driver.log()[-3000:]
        return self.checkpoint.progress().moment

    def finish(self) -> None:
        with self.start({}, availableNow=True) as driver:
            driver.answers()

    def committed(self) -> dict:
        return group_offsets(self._client, self._group, self.places)

    def check_group(self) -> None:
        """The group may have the offsets of finished batches, and no others."""
        durable = self.checkpoint.durable()
        ahead = {place: at for place, at in self.committed().items() if at > durable.get(place, 0)}
        assert not ahead, f"the group has {ahead}, but only {durable} is finished"


def aims(checkpoint: Checkpoint, chance: random.Random) -> list[tuple[Aim, float]]:
    """Conditions to wait for, each with a delay. Each needs a batch that was planned from here on."""
    before = checkpoint.progress().planned

    def during(moment: Moment) -> Aim:
        def met(found: Checkpoint) -> bool:
            progress = found.progress()
            return progress.planned > before and progress.moment is moment

        return met

    return [
        (during(Moment.READING), 0),
        (during(Moment.COMMITTING), 0),
        (lambda found: found.progress().done > before, chance.uniform(0, 0.2)),
        (lambda found: found.progress().planned > before, chance.uniform(0, 2)),
    ]


def kill_again_and_again(kafka, topic: str, folder, kills: int) -> Counter[Moment]:
    """The states at the kills. Checks the output."""
    chance = random.Random(kills)
    query = KilledQuery(kafka, topic, folder)
    fell: Counter[Moment] = Counter()
    with Load(kafka.client_options(prefix=""), lambda i: (topic, i % PARTITIONS)) as load:
        fell[query.kill_at(lambda found: found.begun, chance.uniform(0, 0.3))] += 1  # during the first planning
        for kill in range(kills - 1):
            if kill % 6 == 5:
                fell[query.kill_at(lambda found: True, chance.uniform(0.2, 6))] += 1  # at any point of Spark's start
            else:
                fell[query.kill_at(*aims(query.checkpoint, chance)[kill % 6 % 4])] += 1
            query.check_group()
        for _ in range(LATE_KILLS):
            if not fell[Moment.READING]:
                fell[query.kill_at(*aims(query.checkpoint, chance)[0])] += 1
                query.check_group()
        produced = load.stop()
    query.finish()
    output = written(query.checkpoint.output)
    assert values_of(output) == produced
    ends = Counter((topic, partition) for topic, partition, _, _ in output)
    assert query.committed() == ends  # without gaps, the end offset is the number of records
    return fell


@pytest.mark.timeout(900)
def test_F18_a_driver_killed_four_times_gives_each_record_once(kafka, topic, tmp_path):
    fell = kill_again_and_again(kafka, topic(partitions=PARTITIONS), tmp_path, kills=4)
    assert fell[Moment.READING]


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_F18_a_driver_killed_24_times_gives_each_record_once(kafka, topic, tmp_path):
    fell = kill_again_and_again(kafka, topic(partitions=PARTITIONS), tmp_path, kills=24)
    assert set(fell) == set(Moment), fell
