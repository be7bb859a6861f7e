"""A ZooKeeper, and a Kafka that needs one: the brokers before KRaft."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from penstock.errors import EmbeddedBrokerError
from penstock.testing import Distribution, EmbeddedKafka
from penstock.testing.node import LOG4J, LOOPBACK, SUPERVISOR, Node, free_ports

KRAFT_SETTINGS = ("process.roles", "node.id", "controller.quorum.voters", "controller.listener.names")
START_SECONDS = 90.0


class ZooKeeper:
    """One ZooKeeper on loopback, in a temporary folder. It ends with this process, also if that is killed."""

    def __init__(self, distribution: Distribution) -> None:
        self._distribution = distribution
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-zookeeper-"))
        self._supervisor: subprocess.Popen[bytes] | None = None
        self.address = f"{LOOPBACK}:{free_ports(1)[0]}"

    def start(self, cluster_id: str) -> None:
        """Start it, and let it name the cluster: Kafka takes the name that it finds, or makes one up."""
        settings = self._folder / "zoo.cfg"
        (self._folder / "log4j2.xml").write_text(LOG4J, "ascii")
        port = self.address.partition(":")[2]
        settings.write_text(
            f"dataDir={self._folder / 'data'}\nclientPort={port}\nclientPortAddress={LOOPBACK}\nmaxClientCnxns=0\n"
            "admin.enableServer=false\ntickTime=2000\n",
            "ascii",
        )
        command: list[Any] = [
            *(sys.executable, "-I", "-S", SUPERVISOR),
            *(str(os.getpid()), "0", self._folder, self._folder / "console.log"),
            *(self._distribution.java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *self._logging("server"),
            *("-Dzookeeper.jmx.log4j.disable=true", "-cp", self._distribution.classpath()),
            *("org.apache.zookeeper.server.ZooKeeperServerMain", settings),
        ]
        self._supervisor = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )
        self._create("/cluster", "")
        self._create("/cluster/id", f'{{"version":"1","id":"{cluster_id}"}}')

    def stop(self) -> None:
        if self._supervisor is not None:
            assert self._supervisor.stdin is not None
            self._supervisor.stdin.close()  # the supervisor ends its child, and removes the folder
            self._supervisor.wait(START_SECONDS)
            self._supervisor = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _logging(self, name: str) -> tuple[str, ...]:
        settings = self._folder / "log4j2.xml"
        return f"-Dlog4j2.configurationFile={settings}", f"-Dpenstock.log={self._folder / name}.log"

    def _create(self, path: str, text: str) -> None:
        """Create a node with ZooKeeper's own tool, as soon as ZooKeeper answers."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            ran = self._distribution.run_tool(
                *("org.apache.zookeeper.ZooKeeperMain", "-server", self.address, "create", path, text),
                seconds=START_SECONDS,
                jvm_options=self._logging("tool"),
            )
            if "Created" in ran.stdout + ran.stderr or "Node already exists" in ran.stderr:
                return
            if time.monotonic() > deadline or self._supervisor is None or self._supervisor.poll() is not None:
                console = (self._folder / "console.log").read_text("utf-8", errors="replace")
                raise EmbeddedBrokerError(f"ZooKeeper does not start: {console[-500:]} {ran.stderr[-500:]}")


class ZooKeeperKafka(EmbeddedKafka):
    """One broker before KRaft, with its ZooKeeper. For tests that do not restart the broker."""

    _zookeeper: ZooKeeper | None = None

    def _make_nodes(self, kafka: Distribution) -> None:
        self._stop_zookeeper()
        self._zookeeper = ZooKeeper(kafka)
        self._zookeeper.start(self._cluster_id)
        super()._make_nodes(kafka)
        for node in self._nodes:
            shutil.rmtree(node.data_dir)  # formatted for KRaft

    def _properties(self, node: Node) -> dict[str, str]:
        assert self._zookeeper is not None
        properties = super()._properties(node)
        for name in KRAFT_SETTINGS:
            properties.pop(name)
        return properties | {
            "broker.id": str(node.id),
            "listeners": properties["advertised.listeners"],
            "zookeeper.connect": self._zookeeper.address,
        }

    def _stop_zookeeper(self) -> None:
        if self._zookeeper is not None:
            self._zookeeper.stop()
            self._zookeeper = None

    def _tear_down(self, *, graceful: bool) -> None:
        super()._tear_down(graceful=graceful)
        self._stop_zookeeper()
