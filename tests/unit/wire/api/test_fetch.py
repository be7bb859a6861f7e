"""Fetch requests are, byte for byte, those that kafka-python would make."""

from __future__ import annotations

import uuid
from collections import defaultdict
from dataclasses import replace

import pytest
from kafka.protocol.consumer import FetchRequest

from penstock.wire.api.fetch import HIGHEST, LOWEST, NAMES_ONLY, FetchPosition, fetch_request
from support.configs import client_config

CONFIG = client_config(bootstrap=(("localhost", 1),))
IDS = {"words": uuid.UUID(int=7), "größer": uuid.UUID(int=2**127 + 5)}
POSITIONS = [
    FetchPosition("words", 0, 0, IDS["words"], 3),
    FetchPosition("größer", 300, 2**40, IDS["größer"]),
    FetchPosition("words", 11, 2**63 - 1, IDS["words"], 2**31 - 1),
]
VERSIONS = range(LOWEST, HIGHEST + 1)


def theirs(version, positions, forgotten, config, session, rack, max_wait):
    key = "topic_id" if version > NAMES_ONLY else "topic"

    def by_topic(some, made):
        topics = defaultdict(list)
        for position in some:
            topics[getattr(position, key)].append(made(position))
        return topics.items()

    def partition(position):
        return FetchRequest.FetchTopic.FetchPartition(
            version=version, partition=position.partition, current_leader_epoch=position.leader_epoch,
            fetch_offset=position.offset, last_fetched_epoch=-1, log_start_offset=-1, partition_max_bytes=2**20,
        )  # fmt: skip

    return FetchRequest(
        version=version, replica_id=-1, max_wait_ms=int(max_wait * 1000), min_bytes=config.fetch_min_bytes,
        max_bytes=50 * 2**20, isolation_level=int(config.read_committed), session_id=session[0],
        session_epoch=session[1], rack_id=rack,
        topics=[
            FetchRequest.FetchTopic(version=version, partitions=partitions, **{key: topic})
            for topic, partitions in by_topic(positions, partition)
        ],
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(version=version, partitions=numbers, **{key: topic})
            for topic, numbers in by_topic(forgotten, lambda position: position.partition)
        ],
    )  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("positions", "forgotten", "session", "rack"),
    [
        (POSITIONS, [], (0, -1), ""),
        (POSITIONS[:1], POSITIONS[1:], (2**31 - 1, 5), "eu-west-1a"),
        ([], [], (9, 2**31 - 1), ""),
        ([FetchPosition("words", number, number, IDS["words"]) for number in range(200)], [], (0, 0), "r"),
    ],
    ids=["alone", "in a session", "nothing new", "many"],
)
def test_a_fetch_request_is_the_one_of_kafka_python(version, positions, forgotten, session, rack):
    if version < 7:  # without sessions there is nothing to forget, and kafka-python cannot say so
        forgotten = []
    for config in (CONFIG, replace(CONFIG, read_committed=not CONFIG.read_committed, fetch_min_bytes=77)):
        ours = fetch_request(
            version, positions, config, max_bytes=50 * 2**20, partition_max_bytes=2**20, max_wait=0.5, rack=rack,
            session=session, forgotten=forgotten,
        )  # fmt: skip
        expected = theirs(version, positions, forgotten, config, session, rack, 0.5)
        expected.with_header(correlation_id=2**31 - 1, client_id="penstock")
        assert ours.encode(2**31 - 1, "penstock") == expected.encode(framed=True, header=True)
