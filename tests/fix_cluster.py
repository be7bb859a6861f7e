"""Fixtures: the wire's own view of a cluster, and what it asked."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.options import parse_options
from penstock.wire.cluster import Cluster
from penstock.wire.connection import Connection


def cluster_of(kafka: Any, **more: str) -> Cluster:
    return Cluster(parse_options(kafka.client_options() | {"subscribe": "t"} | more).client)


@pytest.fixture
def cluster(kafka: Any) -> Cluster:
    return cluster_of(kafka)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the requests sent since, in order."""
    names: list[str] = []
    honest = Connection.send

    def send(self: Connection, request: Any, timeout: float) -> int:
        names.append(request.name)
        return honest(self, request, timeout)

    monkeypatch.setattr(Connection, "send", send)
    return names
