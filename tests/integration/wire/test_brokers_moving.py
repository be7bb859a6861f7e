"""Brokers that move to other addresses behind bootstrap servers that stay (KIP-899, KIP-1102)."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from fixtures.consumer import Reading, eventually
from fixtures.proxy import with_shutdown
from fixtures.stream import Stream
from penstock import ConsumerConnector, EmbeddedKafka, TopicPartition, write_batches
from penstock.wire.api.error_codes import CODES
from penstock.wire.cluster import Cluster
from support.configs import client_config
from support.simulated_cluster import SimulatedCluster

PARTITIONS = [TopicPartition("t", number) for number in range(3)]


class Switch:
    """A bootstrap server that stays: it forwards connections to the broker that `port` names."""

    def __init__(self, port: int = 0, host: str = "127.0.0.1", own: int = 0) -> None:
        self.port = port
        self._server = socket.create_server((host, own))
        self.own: int = self._server.getsockname()[1]
        self._open: list[socket.socket] = [self._server]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._open:
            with_shutdown(each)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self.port), 10)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)
            self._open += [client, broker]
            for pair in ((client, broker), (broker, client)):
                threading.Thread(target=self._forward, args=pair, daemon=True).start()

    @staticmethod
    def _forward(source: socket.socket, target: socket.socket) -> None:
        try:
            while piece := source.recv(65536):
                target.sendall(piece)
        except OSError:
            pass
        with_shutdown(source)
        with_shutdown(target)


def simulated() -> SimulatedCluster:
    return SimulatedCluster({"t": 3}, {})


class TestSimulated:
    @pytest.fixture
    def switch(self) -> Iterator[Switch]:
        with Switch() as made:
            yield made

    def client(self, switch, **more):
        return Cluster(client_config(bootstrap=(("127.0.0.1", switch.own),), api_timeout=60.0, **more))

    def test_brokers_that_have_moved_are_found_through_the_bootstrap_servers(self, switch):
        with simulated() as old:
            switch.port = old.ports[0]
            client = self.client(switch)
            assert set(client.end(PARTITIONS).values()) == {1000}
        with simulated() as new:
            new.ends |= dict.fromkeys(PARTITIONS, 2000)
            switch.port = new.ports[0]
            assert set(client.end(PARTITIONS).values()) == {2000}

    @pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
    def test_brokers_that_answer_for_another_cluster_say_so(self, switch, strategy):
        """The old brokers still run, and tell their clients to leave."""
        with simulated() as old, simulated() as new:
            switch.port = old.ports[0]
            client = self.client(switch, rebootstrap=strategy == "rebootstrap")
            client.end(PARTITIONS)
            new.ends |= dict.fromkeys(PARTITIONS, 2000)
            switch.port = new.ports[0]
            old.metadata_error = CODES["REBOOTSTRAP_REQUIRED"]
            if strategy == "rebootstrap":
                client.listing(["t"])
                assert set(client.end(PARTITIONS).values()) == {2000}
            else:
                with contextlib.suppress(Exception):
                    client.try_listing(["t"], 1.0)
                assert set(client.end(PARTITIONS).values()) == {1000}

    def test_the_names_of_the_bootstrap_servers_are_resolved_again(self, monkeypatch):
        address, resolve = ["127.0.0.1"], socket.getaddrinfo

        def getaddrinfo(host, *arguments, **more):
            return resolve(address[0] if host == "kafka.test" else host, *arguments, **more)

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        with simulated() as old, simulated() as new:
            new.ends |= dict.fromkeys(PARTITIONS, 2000)
            with Switch(old.ports[0]) as first, Switch(new.ports[0], "127.0.0.2", first.own):
                client = Cluster(client_config(bootstrap=(("kafka.test", first.own),)))
                client.end(PARTITIONS)
                address[0] = "127.0.0.2"
                old.metadata_error = CODES["REBOOTSTRAP_REQUIRED"]
                client.listing(["t"])
                assert set(client.end(PARTITIONS).values()) == {2000}


@pytest.mark.extended
def test_a_group_and_a_stream_of_spark_follow_a_cluster_to_other_ports(tmp_path):
    def start():
        return EmbeddedKafka(data_dir=tmp_path).start()

    def port_of(kafka):
        return int(kafka.bootstrap_servers.rpartition(":")[2])

    def write(kafka, count):
        write_batches(kafka.client_options() | {"topic": "t"}, pa.table({"value": [b"v"] * count}))

    kafka = start()
    try:
        kafka.create_topic("t", 1)
        write(kafka, 10)
        with Switch(port_of(kafka)) as switch:
            options = {"bootstrap.servers": f"127.0.0.1:{switch.own}"}
            group = {"group.id": "g", "auto.offset.reset": "earliest", "auto.commit.interval.ms": 100}
            connector = ConsumerConnector(options | group)
            reading = Reading(connector, connector.create_message_streams({"t": 1})["t"])
            stream = Stream(options | {"subscribe": "t", "startingOffsets": "earliest"})
            assert stream.trigger() == {("t", 0): (0, 10)}
            eventually(lambda: reading.count() == 10, "the first records")
            kafka.stop()
            kafka = start()
            assert port_of(kafka) != switch.port
            switch.port = port_of(kafka)
            write(kafka, 5)
            eventually(lambda: reading.count() == 15, lambda: f"all records, not {reading.count()}: {reading.errors}")
            assert stream.trigger() == {("t", 0): (10, 15)}
            connector.shutdown()
            reading.join()
            now = Cluster(client_config(bootstrap=(("127.0.0.1", port_of(kafka)),)))
            assert now.committed("g", PARTITIONS[:1]) == {PARTITIONS[0]: 15}
            assert sorted(reading.records().elements()) == [("t", 0, offset) for offset in range(15)]
    finally:
        kafka.stop()
