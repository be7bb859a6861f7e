"""Through Spark Connect: the client is a process without a JVM, and the server one that never saw Penstock imported."""

import pytest

from chaos.sink import read_back, written
from fixtures.produce import Rec

# Several starts of Spark, one after the other, each with a deadline of its own.
pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(900)]

PARTITIONS = 3


def numbered(start: int, end: int) -> list[Rec]:
    return [Rec(b"value %d" % i, timestamp=1_700_000_000_000 + i, partition=i % PARTITIONS) for i in range(start, end)]


def expected(topic: str, end: int) -> dict:
    return {(topic, i % PARTITIONS, i // PARTITIONS, b"value %d" % i): 1 for i in range(end)}


def test_a_batch_read_through_connect_gives_exactly_the_input(connect_server, kafka, topic, produce, tmp_path):
    name = topic(partitions=PARTITIONS)
    produce(name, numbered(0, 900))
    source = {"format": "penstock", "options": kafka.client_options() | {"subscribe": name}}
    with connect_server.client([{"do": "read", "path": str(tmp_path / "out"), **source}], tmp_path) as client:
        [rows] = client.answers()
    assert rows == 900
    assert read_back(tmp_path / "out") == expected(name, 900)


def test_F10_a_stream_through_connect_goes_on_where_an_earlier_client_ended(
    connect_server, kafka, topic, produce, tmp_path
):
    name = topic(partitions=PARTITIONS)
    step = {
        "do": "stream",
        "format": "penstock",
        "options": kafka.client_options() | {"subscribe": name, "startingOffsets": "earliest"},
        "path": str(tmp_path / "out"),
        "checkpoint": str(tmp_path / "checkpoint"),
        "trigger": {"availableNow": True},
    }
    for run, (start, end) in enumerate(((0, 900), (900, 1500))):
        produce(name, numbered(start, end))
        with connect_server.client([step], tmp_path, name=f"client-{run}") as client:
            [batches] = client.answers()
        assert [batch["rows"] for batch in batches] == [end - start]
        assert written(tmp_path / "out") == expected(name, end)
