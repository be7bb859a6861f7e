"""Fixture: a Spark Connect server, a process of its own; clients of it are processes too and have no JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chaos.processes import Driver, spark_class
from penstock.embedded.node import LOOPBACK

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@dataclass(frozen=True)
class ConnectServer:
    url: str

    def client(self, steps: Sequence[Mapping[str, Any]], folder: Path, name: str = "client") -> Driver:
        return Driver(steps, folder, name=name, remote=self.url)


@pytest.fixture(scope="module")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """`connect_server.client(steps, folder).answers()` runs a client, which has Spark by gRPC alone."""
    from chaos.driver import SETTINGS  # here, because it imports PySpark

    folder = tmp_path_factory.mktemp("connect")
    settings = SETTINGS | {
        "spark.log.level": "INFO",  # it says so when it is ready
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": "0",
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    submit = [
        "org.apache.spark.deploy.SparkSubmit",
        "--master",
        "local[2]",
        *words,
        "--class",
        SERVER,
        "spark-internal",
    ]
    with spark_class("connect-server", submit, folder, memory="1g") as server:
        port = server.await_port("Spark Connect server started at")
        yield ConnectServer(f"sc://{LOOPBACK}:{port}")
