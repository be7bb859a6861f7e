"""Streamers into tables that are killed at random moments while a producer runs: each record is there once (I5)."""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
import uuid
from collections import Counter
from pathlib import Path

import duckdb
import pytest
from confluent_kafka import Producer

from chaos.processes import Program
from fixtures.consumer import WAIT, eventually, quick
from fixtures.lake import DeltaLake, IcebergLake
from fixtures.produce import Rec, rdkafka, send
from penstock import Streamer
from support import lake_program
from support.group_configs import set_session

PROGRAM = Path(lake_program.__file__)
KILLS = int(os.environ.get("PENSTOCK_TABLE_KILLS", "24"))
"""For each kind of table."""

PARTITIONS = 4
MEMBERS = 2


SESSION_MS = 6000
"""Short, so that the group moves the partitions of a killed member before it is back."""

PROTOCOLS = {
    "classic": {"session.timeout.ms": SESSION_MS, "partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_I5_killed_streamers_store_each_record_once(topic, kafka, lake, tmp_path, protocol):
    """Two members of one group write to one table. One after the other is killed, and started again; each kill hits the
    other one with a rebalance. Half of the kills come while the table is maintained."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")  # noqa: T201
    chance, name = random.Random(seed), topic(PARTITIONS)
    config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": f"g-{uuid.uuid4().hex[:8]}"}
    config |= quick(PROTOCOLS[protocol]) | PROTOCOLS[protocol]
    if protocol == "consumer":
        set_session(kafka, config["group.id"], SESSION_MS)
    produced, stop = [0], threading.Event()

    def keep_producing():
        to = Producer(rdkafka(kafka.client_options(prefix="")))
        while not stop.wait(0.05):
            at = produced[0]
            produced[0] += send(to, name, [Rec(b"%d" % n, partition=n % PARTITIONS) for n in range(at, at + 40)])
            assert to.flush(WAIT) == 0

    def started(life):
        return Program(f"life-{life}", [sys.executable, PROGRAM, json.dumps(config), name, lake.target], tmp_path)

    producer = threading.Thread(target=keep_producing)
    producer.start()
    programs, kills = [started(life) for life in range(MEMBERS)], 0
    try:
        while kills < KILLS:
            at = chance.randrange(MEMBERS)
            # Half of them at a random time, before the member has partitions too; the others in a commit.
            if chance.random() < 0.5:
                eventually(lambda at=at: "stored" in programs[at].log() or not programs[at].running, "it stores", 60)
            time.sleep(chance.uniform(0.0, 2.0))
            assert programs[at].running, programs[at].log()[-3000:]
            programs[at].kill()
            kills += 1
            if kills % 5 == 0:
                maintain(lake)
            programs[at] = started(MEMBERS + kills)
    finally:
        stop.set()
        producer.join(WAIT)
        for program in programs:
            program.kill()
    with Streamer(name, 2, sink=lake.sink(), config=config, until_end=True) as rest:
        assert rest.wait(WAIT)
    expected = {b"%d" % n: 1 for n in range(produced[0])}
    assert Counter(lake.rows().column("value").to_pylist()) == expected
    found = duckdb.read_parquet(lake.files()).aggregate(
        'count(*), count(DISTINCT value), count(DISTINCT (partition, "offset"))'
    )
    assert found.fetchall() == [(produced[0],) * 3]
    print(f"{kills} kills, {produced[0]} records, {lake.commits()} commits")  # noqa: T201


def maintain(lake: DeltaLake | IcebergLake) -> None:
    """Its rewrite may lose against a commit of the Streamers: then there is none this time."""
    try:
        lake.maintain(vacuum=False)
    except Exception as error:
        print(f"no maintenance this time: {type(error).__name__}: {error}")  # noqa: T201
