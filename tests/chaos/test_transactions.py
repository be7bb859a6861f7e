"""read_committed with producers that commit and abort at random."""

import pytest

from chaos.load import Transactions

pytestmark = [pytest.mark.spark, pytest.mark.broker]

PARTITIONS = 2
SEEDS = (11, 12)


def test_read_committed_has_every_committed_record_and_no_aborted_one(running, kafka, topic):
    name = topic(partitions=PARTITIONS)
    options = kafka.client_options(prefix="")
    query = running(kafka, subscribe=name, **{"kafka.isolation.level": "read_committed"})
    # Two at a time: the transactions of one producer lie between the records of the other.
    first, second = (Transactions(options, f"{name}-{seed}", name, PARTITIONS, seed) for seed in SEEDS)
    with first, second:
        query.await_rows(1000)
        first.stop()
        second.stop()
    assert first.aborted
    assert second.aborted
    query.await_exactly(first.committed + second.committed)
