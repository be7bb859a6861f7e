"""Fixture: kafka-python's own consumers leave sockets to the collector, which must not fail whichever test is next."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest

LEAKS = "unclosed <s"


@pytest.fixture
def kafka_python_leaks() -> Iterator[None]:
    """For tests in whose process kafka-python consumes; they ignore these warnings themselves, too."""
    yield
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", LEAKS, ResourceWarning)
        gc.collect()
