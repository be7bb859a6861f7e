"""Fixture: a real schema registry, Apicurio's, by the API of Confluent's."""

from __future__ import annotations

import contextlib
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaos.processes import Program, until
from penstock.embedded.apicurio import get_apicurio
from penstock.embedded.java import find_java
from penstock.embedded.node import LOOPBACK, free_ports
from penstock.formats.registry import forget_schemas

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

START_SECONDS = 90.0  # 3 s on two idle cores
PORT_TRIES = 3


class ApicurioRegistry:
    """One registry, in memory. `url` is what clients of Confluent's registry take."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clients: list[SchemaRegistryClient] = []
        self._program: Program | None = None
        self.url = ""

    def start(self) -> None:
        runner = get_apicurio()
        for attempt in range(PORT_TRIES):
            [port] = free_ports(1)
            self.url = f"http://{LOOPBACK}:{port}/apis/ccompat/v7"
            # One compiler and one collector: it lives for seconds, beside a broker and a Spark.
            command: list[str | Path] = [find_java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
            command += [f"-Dquarkus.http.host={LOOPBACK}", f"-Dquarkus.http.port={port}", "-jar", runner]
            self._program = Program(f"apicurio-{attempt}", command, self._folder)
            if until(self._is_up_or_gone, START_SECONDS) and self._program.running:
                return
            program, self._program = self._program, None
            program.kill()
            if "in use" not in program.log():
                pytest.fail(f"Apicurio did not start: {program.log()[-3000:]}", pytrace=False)
        pytest.fail(f"Apicurio found no free port in {PORT_TRIES} tries", pytrace=False)

    def _is_up_or_gone(self) -> bool:
        assert self._program is not None
        if not self._program.running:
            return True
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/subjects", timeout=5) as answer:
            return bool(answer.status == 200)
        return False

    def client(self) -> SchemaRegistryClient:
        """A client of Confluent's, closed when the session ends."""
        from confluent_kafka.schema_registry import SchemaRegistryClient

        self._clients.append(SchemaRegistryClient({"url": self.url}))
        return self._clients[-1]

    def pause(self) -> None:
        """It accepts connections and answers nobody, until it is resumed."""
        assert self._program is not None
        os.kill(self._program.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self._program is not None
        os.kill(self._program.pid, signal.SIGCONT)

    def stop(self) -> None:
        for client in self._clients:
            client.close()
        if self._program is not None:
            self._program.kill()


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApicurioRegistry]:
    """One registry for all tests of a worker: use subjects with names of their own."""
    server = ApicurioRegistry(tmp_path_factory.mktemp("registry"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def fresh_schemas() -> Iterator[None]:
    """Nothing that another test asked a registry for is remembered, and nothing of this one's stays."""
    forget_schemas()
    yield
    forget_schemas()
