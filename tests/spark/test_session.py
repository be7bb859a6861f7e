"""How Spark talks to its Python workers: over TCP with commands acknowledged at once, or over Unix sockets."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.spark import api
from penstock.spark.prompt_ack import UnpickledInTask

pytestmark = pytest.mark.spark

SECONDS = 240

CONFIGURED = """
import os, sys
import pyarrow as pa
from pyspark.sql import SparkSession
from penstock.spark import configure

def sockets(batches):
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"unix": [os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "")]})

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = configure(builder.config("spark.driver.host", "127.0.0.1")).getOrCreate()
print("set:", spark.conf.get("spark.python.unix.domain.socket.enabled"))
print("in workers:", spark.range(1, numPartitions=1).mapInArrow(sockets, "unix STRING").collect()[0]["unix"].lower())
spark.stop()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="TCP_QUICKACK is Linux's")
def test_a_task_acknowledges_its_command_over_tcp(spark: SparkSession):
    class Shipped(UnpickledInTask):  # in here, so that Spark pickles it by value: workers do not have this module
        def __setstate__(self, state):
            super().__setstate__(state)
            self.prompt = []
            for descriptor in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
                try:
                    connection = socket.socket(fileno=descriptor)
                except OSError:
                    continue  # not a socket
                if connection.family == socket.AF_INET:
                    self.prompt.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))
                connection.detach()

    shipped = Shipped()
    shipped.name = "with a state"

    def report(batches):
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"prompt": [str(shipped.prompt)]})

    for _ in range(2):  # a new worker, and one that is used again
        prompt = spark.range(1, numPartitions=1).mapInArrow(report, "prompt STRING").collect()[0]["prompt"]
        assert prompt.startswith("[1"), prompt
        assert "0" not in prompt


@pytest.mark.extended
@pytest.mark.skipif(not api.HAS_UNIX_SOCKETS, reason="Spark has no Unix sockets before 4.1")
def test_a_session_by_configure_talks_to_its_workers_over_unix_sockets():
    ran = subprocess.run(
        [sys.executable, "-c", CONFIGURED], env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert ran.stdout.splitlines()[-2:] == ["set: true", "in workers: true"], ran.stderr[-2000:]
