"""Random logs on a real broker: starts, ends and filters by time are what reading all of it says.

Each example writes several logs at once, as partitions of two topics, one of which is compacted: in any order of time,
over many segments, with transactions that commit or abort, and with beginnings that are deleted.
"""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka import Producer
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import penstock
from fixtures.cluster import cluster_of
from fixtures.consumer import eventually
from fixtures.produce import TOGETHER, Rec, rdkafka, send
from fixtures.stream import Operator
from penstock.config.source import parse_options
from penstock.model.narrowing import Narrowing
from penstock.model.offset_spec import AtTimestamp, PerPartition, StartRules
from penstock.model.topic_partition import TopicPartition
from penstock.planner.batch import plan_batch
from penstock.planner.starting_offsets import resolve_end, resolve_start

START = 1_700_000_000_000
PARTITIONS = 8
SEGMENT_MS = 1000
LATEST = 8 * SEGMENT_MS

BATCHES = st.lists(st.tuples(st.integers(0, LATEST), st.integers(0, 4)), min_size=1, max_size=6)
"""Times after START, and keys."""
ROUNDS = st.tuples(
    st.sampled_from(["plain", "plain", "commit", "abort"]),
    st.lists(BATCHES, min_size=PARTITIONS, max_size=PARTITIONS),
)
"""What is written at once, to all partitions."""


class World:
    """One broker, and producers that are open during the whole test: creating one takes longer than writing with it."""

    def __init__(self, kafka):
        self.kafka = kafka
        options = kafka.client_options(prefix="")
        self.plain = Producer(rdkafka(options, **TOGETHER))
        self.transactional = Producer(rdkafka(options, **TOGETHER, **{"transactional.id": f"x-{uuid.uuid4().hex}"}))
        self.transactional.init_transactions(60)
        self.operator = Operator(kafka)

    def make(self, policy):
        name = f"times-{policy}-{uuid.uuid4().hex[:8]}"
        configs = {"cleanup.policy": policy, "segment.ms": SEGMENT_MS, "index.interval.bytes": 256}
        # A small index keeps the cleaner from making one segment of many.
        cleaning = {"min.cleanable.dirty.ratio": 0.01, "max.compaction.lag.ms": 100, "segment.index.bytes": 48}
        self.kafka.create_topic(name, PARTITIONS, configs=configs | (cleaning if policy == "compact" else {}))
        return name

    def write(self, topics, kind, batches):
        producer = self.plain if kind == "plain" else self.transactional
        if kind != "plain":
            producer.begin_transaction()
        for topic in topics:
            for partition, batch in enumerate(batches):
                records = [Rec(b"v" * 50, b"%d" % key, timestamp=START + at, partition=partition) for at, key in batch]
                send(producer, topic, records)
        assert producer.flush(60) == 0
        if kind == "commit":
            producer.commit_transaction(60)
        elif kind == "abort":
            producer.abort_transaction(60)

    def read(self, topic, isolation):
        """Timestamps by offset of every record, by partition."""
        options = self.kafka.client_options() | {"subscribe": topic, "kafka.isolation.level": isolation}
        table = penstock.read_batches(options, columns=["partition", "offset", "timestamp"]).read_all()
        logs = {TopicPartition(topic, partition): {} for partition in range(PARTITIONS)}
        for row in table.to_pylist():
            log = logs[TopicPartition(topic, row["partition"])]
            log[row["offset"]] = round(row["timestamp"].timestamp() * 1000)
        return logs


@pytest.fixture(scope="module")
def world(kafka):
    made = World(kafka)
    yield made
    del made.plain, made.transactional  # otherwise they would try to reach the broker until the process ends


# Not shrunk: an example takes seconds.
@settings(max_examples=4, phases=[Phase.generate])
@given(
    st.lists(ROUNDS, min_size=3, max_size=8),
    st.lists(st.floats(0, 1), min_size=PARTITIONS, max_size=PARTITIONS),
    st.lists(st.integers(0, LATEST + 1), min_size=4, max_size=4),
)
def test_F8_starts_ends_and_filters_by_time_are_what_a_scan_says(world, rounds, deleted, times):
    topics = [world.make("delete"), world.make("compact")]
    twice = ("plain", [[(0, 8)]] * PARTITIONS)  # so that there is something to clean
    rounds = [twice, twice, *rounds]
    for kind, batches in rounds:
        world.write(topics, kind, batches)
    # Closes the segments before it, so that they can be cleaned.
    world.write(topics, "plain", [[(LATEST + 2 * SEGMENT_MS, 9)]] * PARTITIONS)
    ends = cluster_of(world.kafka).end([TopicPartition(topics[0], p) for p in range(PARTITIONS)])
    world.operator.delete_records(
        topics[0], {tp.partition: int(end * deleted[tp.partition]) for tp, end in ends.items()}
    )
    written = sum(len(batch) for _, batches in rounds for batch in batches)
    eventually(
        lambda: sum(map(len, world.read(topics[1], "read_uncommitted").values())) < written + PARTITIONS,
        "the cleaner has been at work",
    )
    for topic in topics:
        for isolation in ("read_committed", "read_uncommitted"):
            while True:
                logs = world.read(topic, isolation)
                answers = {time: by_time(world, topic, isolation, time) for time in [*times, 0, LATEST + SEGMENT_MS]}
                if world.read(topic, isolation) == logs:  # the cleaner was not at work meanwhile
                    break
            for time, (starts, stops, pushed) in answers.items():
                for tp, log in logs.items():
                    late = [offset for offset, at in log.items() if at >= START + time]
                    assert [o for o in log if o >= starts[tp]] == [o for o in log if late and o >= late[0]], (tp, time)
                    assert [o for o in log if o < stops[tp]] == [o for o in log if not late or o < late[0]], (tp, time)
                    first, stop = pushed.get(tp, (0, 0))
                    assert [o for o in late if first <= o < stop] == late, (tp, time)


def by_time(world, topic, isolation, time):
    """Where a read would start and stop by a time, and what a filter leaves of a batch."""
    partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    cluster = cluster_of(world.kafka, **{"kafka.isolation.level": isolation})
    mode = AtTimestamp(PerPartition({topic: START + time}))
    starts = resolve_start(mode, partitions, cluster, StartRules())
    stops = resolve_end(mode, partitions, cluster)
    options = world.kafka.client_options() | {"subscribe": topic, "kafka.isolation.level": isolation}
    plan = plan_batch(parse_options(options), Narrowing(min_timestamp=START + time))
    return starts, stops, {each.topic_partition: (each.start, each.stop) for each in plan}
