"""A process without file descriptors: what is open goes on, what would be opened fails with EMFILE."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager

STANDARD_STREAMS = 3


@contextmanager
def no_descriptors() -> Iterator[None]:
    """A limit that the three standard streams fill. Closing a descriptor makes room for none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (STANDARD_STREAMS, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
