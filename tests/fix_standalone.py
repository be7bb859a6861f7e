"""Fixture: a real Spark standalone cluster of one master and two workers, each a process, from the pip package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import spark_jvm
from chaos.processes import Driver, spark_class
from penstock.embedded.node import LOOPBACK

WORKERS = 2

# One core and one executor per worker, so that two tasks at once are two machines' tasks.
SETTINGS = {
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": spark_jvm.OPTIONS,
    "spark.cores.max": str(WORKERS),
    # Both executors are there before the first job, else the first to come may do all of it.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "150s",
}


@dataclass(frozen=True)
class StandaloneCluster:
    url: str
    workers: tuple[Path, ...]
    """The workers' own folders; an executor works in one below."""

    def driver(self, steps: Sequence[Mapping[str, Any]], folder: Path, name: str = "driver") -> Driver:
        return Driver(steps, folder, name=name, master=self.url, settings=SETTINGS)


@pytest.fixture(scope="module")  # one file uses it, and five idle JVMs are not for nothing
def standalone_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """`standalone_cluster.driver(steps, folder).answers()` runs a driver, a process too, on the cluster."""
    folder = tmp_path_factory.mktemp("standalone")
    host = ["--host", LOOPBACK, "--webui-port", "0"]
    with ExitStack() as processes:
        order = ["org.apache.spark.deploy.master.Master", *host, "--port", "0"]
        master = processes.enter_context(spark_class("master", order, folder))
        url = f"spark://{LOOPBACK}:{master.await_port('Starting Spark master at spark:')}"
        master.await_line("New state: ALIVE")
        workers = []
        for number in range(1, WORKERS + 1):
            place = folder / f"worker-{number}"
            size = ["--cores", "1", "--memory", "1g", "--work-dir", str(place)]
            worker = ["org.apache.spark.deploy.worker.Worker", *host, *size, url]
            workers.append(processes.enter_context(spark_class(f"worker-{number}", worker, folder)))
        for each in workers:
            each.await_line("Successfully registered with master")
        yield StandaloneCluster(url, tuple(folder / each.name for each in workers))
