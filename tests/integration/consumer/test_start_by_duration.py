"""Resets by duration (KIP-1106), and starts at the leader's own disk."""

import time

import pytest

from fixtures.consumer import eventually
from fixtures.stream import HOUR, records, tp
from penstock import OptionError, read_batches
from penstock.wire.api import list_offsets


@pytest.fixture
def hours(topic, produce):
    """Records of now and of the two hours before, ten of each; and a partition with older ones only."""
    name, now = topic(partitions=2), int(time.time() * 1000)  # not the time of the import: a run may take an hour
    for age in (2, 1, 0):
        produce(name, records(10, timestamp=now - age * HOUR))
    produce(name, records(10, 1, timestamp=now - 9 * HOUR))
    return name


@pytest.mark.parametrize(("reset", "first"), [("PT90M", 10), ("PT2H30M", 0), ("P2D", 0)])
def test_H12_a_partition_without_an_offset_starts_at_the_first_record_of_the_duration(consumers, hours, reset, first):
    reading = consumers.reading(hours, auto_offset_reset=f"by_duration:{reset}")
    eventually(lambda: reading.connector.position() == {tp(hours): 30, tp(hours, 1): 10}, reading.connector.position)
    wanted = [(hours, 0, offset) for offset in range(first, 30)]
    if reset == "P2D":
        wanted += [(hours, 1, offset) for offset in range(10)]
    eventually(lambda: sorted(reading.records().elements()) == wanted, lambda: f"not {reading.records()}")


def test_H12_an_offset_that_is_gone_continues_at_the_first_record_of_the_duration(consumers, hours):
    connector = consumers.connector(auto_offset_reset="by_duration:PT90M", consumer_timeout_ms=60_000)
    (stream,) = connector.create_message_streams({hours: 1})[hours]
    next(stream)
    connector.seek({tp(hours): 1000})
    assert (found := next(stream)).offset == 10, found


def test_a_batch_starts_by_duration_where_the_group_has_no_offset(kafka, consumers, hours):
    options = kafka.client_options() | {"subscribe": hours, "kafka.group.id": consumers.group}
    options |= {"startingOffsets": "group", "kafka.auto.offset.reset": "by_duration:PT90M"}
    table = read_batches(options, columns=["partition", "offset"]).read_all()
    assert sorted(table.to_pylist(), key=str) == [{"partition": 0, "offset": offset} for offset in range(10, 30)]


class TestEarliestLocal:
    def test_without_tiered_storage_it_is_the_beginning(self, kafka, consumers, hours):
        reading = consumers.reading(hours, start="earliest-local", auto_offset_reset="latest")
        eventually(lambda: reading.count() == 40, "all records")
        options = kafka.client_options() | {"subscribe": hours, "startingOffsets": "earliest-local"}
        assert read_batches(options).read_all().num_rows == 40

    def test_a_broker_that_does_not_know_it_is_an_error_with_the_alternative(self, monkeypatch, consumers, hours):
        monkeypatch.setattr(list_offsets, "KNOWS_LOCAL", 1000)
        connector = consumers.connector(start="earliest-local", consumer_timeout_ms=60_000)
        (stream,) = connector.create_message_streams({hours: 1})[hours]
        with pytest.raises(OptionError, match=r"too old for tiered storage. Use earliest"):
            next(stream)
