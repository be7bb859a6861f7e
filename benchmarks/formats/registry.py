"""A schema registry for the figures that need one: Apicurio, which has Confluent's API."""

from __future__ import annotations

import contextlib
import time
import urllib.request
from pathlib import Path

from tests.support.apicurio import get_apicurio

from benchmarks.processes import Process, ReaderFailed
from penstock.testing.java import find_java
from penstock.testing.node import LOOPBACK, free_ports

_START_SECONDS = 90.0
"""It takes 3 s on two idle cores."""


class Registry(Process):
    """In memory, ends with this process. `url` is the URL for clients of Confluent's registry."""

    def __init__(self) -> None:
        [port] = free_ports(1)
        self.url = f"http://{LOOPBACK}:{port}/apis/ccompat/v7"
        command: list[str | Path] = [find_java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command += [f"-Dquarkus.http.host={LOOPBACK}", f"-Dquarkus.http.port={port}", "-jar", get_apicurio()]
        super().__init__("the schema registry", command)
        end = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._child.poll() is not None or time.monotonic() > end:
                self.kill()
                raise ReaderFailed(f"{self.name} ended, or did not answer within {_START_SECONDS:g} s")
            time.sleep(0.2)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/subjects", timeout=5) as answer:
            return bool(answer.status == 200)
        return False
