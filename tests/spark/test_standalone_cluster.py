"""Beyond one machine: master, two workers, driver and broker, each a process of its own."""

import contextlib
import gc
import signal
from pathlib import Path

import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.streaming.datasource import ReadAllAvailable

import penstock
from chaos.load import group_offsets
from chaos.sink import read_back, written
from fixtures.produce import Rec
from penstock.spark import PenstockDataSource

# Several starts of Spark, one after the other, each with a deadline of its own.
pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(900)]

PARTITIONS = 4
SECRET = "zanzibar-7731"


def numbered(start: int, end: int) -> list[Rec]:
    return [Rec(b"value %d" % i, timestamp=1_700_000_000_000 + i, partition=i % PARTITIONS) for i in range(start, end)]


def expected(topic: str, end: int) -> dict:
    return {(topic, i % PARTITIONS, i // PARTITIONS, b"value %d" % i): 1 for i in range(end)}


def test_a_batch_read_is_shared_by_both_workers_and_gives_exactly_the_input(
    standalone_cluster, kafka, topic, produce, tmp_path
):
    name = topic(partitions=PARTITIONS)
    produce(name, numbered(0, 2000))
    source = {"format": "penstock", "options": kafka.client_options() | {"subscribe": name}}
    steps = [{"do": "read", "path": str(tmp_path / "out"), **source}, {"do": "places", **source}]
    with standalone_cluster.driver(steps, tmp_path) as driver:
        rows, places = driver.answers()

    assert rows == 2000
    assert read_back(tmp_path / "out") == expected(name, 2000)
    folders = {Path(directory) for directory, _, _ in places}
    used = {worker for worker in standalone_cluster.workers for folder in folders if worker in folder.parents}
    assert used == set(standalone_cluster.workers)
    # Nothing was sent along: what a task imports is Spark's or installed, and the same wherever it runs.
    for directory, python_path, package in places:
        assert package == penstock.__file__
        assert not [entry for entry in python_path if Path(__file__).parents[1] in (Path(entry), *Path(entry).parents)]
        assert not [entry for entry in python_path if Path(directory) in Path(entry).parents]


def test_F10_a_stream_on_the_cluster_goes_on_where_an_earlier_driver_ended(
    standalone_cluster, kafka, topic, produce, tmp_path
):
    name = topic(partitions=PARTITIONS)
    group = f"{name}-group"
    step = {
        "do": "stream",
        "format": "penstock",
        "options": kafka.client_options()
        | {"subscribe": name, "startingOffsets": "earliest", "kafka.group.id": group, "maxOffsetsPerTrigger": "800"},
        "path": str(tmp_path / "out"),
        "checkpoint": str(tmp_path / "checkpoint"),
        "trigger": {"availableNow": True},
    }
    places = [(name, partition) for partition in range(PARTITIONS)]
    # A new broker makes the topic for groups when it is first asked about one. The end of a run does not wait for that.
    assert group_offsets(kafka.client_options(prefix=""), group, places) == {}
    for run, end in enumerate((2000, 3000)):
        produce(name, numbered(1000 * run * 2, end))
        with standalone_cluster.driver([step], tmp_path, name=f"driver-{run}") as driver:
            [batches] = driver.answers()
        assert [batch["rows"] for batch in batches] == [[800, 800, 400], [800, 200]][run]
        assert written(tmp_path / "out") == expected(name, end)
        committed = group_offsets(kafka.client_options(prefix=""), group, places)
        assert committed == dict.fromkeys(places, end // PARTITIONS)


def readers(options: dict[str, str]) -> list:
    source = PenstockDataSource(options)
    return [source.reader(source.schema()), source.streamReader(source.schema())]


def test_what_is_pickled_to_executors_shows_no_secret():
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{SECRET}";'
    options = {
        "kafka.bootstrap.servers": "127.0.0.1:9",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": login,
        "subscribe": "some",
    }
    for reader in readers(options):
        pickled = CloudPickleSerializer().dumps(reader)
        assert SECRET.encode() in pickled  # executors must log in: it is there, and does not show
        arrived = CloudPickleSerializer().loads(pickled)
        for each in (reader, arrived):
            shown = [repr(each), str(each), *(repr(part) for part in vars(each).values())]
            assert not [text for text in shown if SECRET in text]


def test_what_is_pickled_to_executors_holds_no_open_handle(kafka, topic, produce):
    """Pickling refuses sockets, locks and threads, so it is tried when a reader has planned and has them all."""
    name = topic(partitions=PARTITIONS)
    produce(name, numbered(0, 40))
    options = kafka.client_options() | {"subscribe": name, "startingOffsets": "earliest", "kafka.group.id": f"{name}-g"}
    on_end = signal.getsignal(signal.SIGTERM)  # a reader with a group listens to it
    batch, stream = readers(options)
    partitions = list(batch.partitions())
    begin = stream.initialOffset()
    partitions += stream.partitions(begin, stream.latestOffset(begin, ReadAllAvailable()))
    try:
        gc.collect()  # what other tests have left is closed before, not meanwhile
        before = open_handles()
        arrived = [CloudPickleSerializer().loads(CloudPickleSerializer().dumps(each)) for each in (batch, stream)]
        assert open_handles() == before
        # And what has arrived is whole: it reads.
        shares = CloudPickleSerializer().loads(CloudPickleSerializer().dumps(partitions))
        halves = (shares[:PARTITIONS], shares[PARTITIONS:])
        for reader, half in zip(arrived, halves, strict=True):
            assert sum(rows.num_rows for share in half for rows in reader.read(share)) == 40
    finally:
        stream.stop()
        signal.signal(signal.SIGTERM, on_end)


def open_handles() -> set[tuple[str, str]]:
    """The sockets and files that this process has open, where the system shows them."""
    folder = Path("/proc/self/fd")
    found = set()
    for entry in folder.iterdir() if folder.exists() else ():
        with contextlib.suppress(OSError):  # the one by which the folder itself is read
            found.add((entry.name, str(entry.readlink())))
    return {handle for handle in found if "/proc/" not in handle[1]}
