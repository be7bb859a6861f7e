"""Fixture: a port at which nobody is."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from penstock.embedded.node import LOOPBACK


@pytest.fixture
def refused_port() -> Iterator[int]:
    """Connections to it are refused. It is bound and not listened at: one that was only found free would be anybody's
    by the time of the test."""
    with socket.socket() as held:
        held.bind((LOOPBACK, 0))
        yield held.getsockname()[1]
