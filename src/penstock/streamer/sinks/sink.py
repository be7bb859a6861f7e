"""What a Streamer writes to.

A sink is opened once for each thread, and what it opens is that thread's own. There is no flush beside the write: rows
are in the sink when `write` returns, all of them, and none of them when it raises. The Streamer keeps what it has read
until then, so nothing is lost by a sink that fails, and only then it commits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from penstock.errors import OptionError

Rows: TypeAlias = pa.Table | list[Any]
"""Arrow, or what an extractor returned where no schema makes Arrow of it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a thread writes what it has: whichever comes first."""

    rows: int = 100_000
    bytes: int = 32 << 20
    """As Arrow in memory, with the records that they came from. A thread holds about this much."""
    seconds: float = 1.0


def check_limits(counts: Mapping[str, object], seconds: Mapping[str, object]) -> None:
    """Limits by the names that the user knows them by."""
    for name, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise OptionError(name, value, "must be a whole number from 1 on")
    for name, value in seconds.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise OptionError(name, value, "must be more than 0 seconds")


class Writer(Protocol):
    """One thread's way into a sink. Every method is called by that thread, but `close` may be called by another one
    when it has ended."""

    def write(self, rows: Rows) -> None:
        """Take these rows for good, or raise and take none.

        Raise RowsRefused if some of the rows can never be taken: the Streamer looks for them. Raise SinkError if no
        rows can: the Streamer fails. Whatever else is raised is tried again.
        """

    def close(self) -> None: ...


@runtime_checkable
class Sink(Protocol):
    """Where rows go. Shared by all threads of a Streamer, and may be given to several.

    It may have `limits`, which count where the Streamer was given none, and `needs_arrow`: then an extractor that makes
    rows one by one needs a schema.
    """

    def open(self, thread: str) -> Writer:
        """Called when the Streamer starts, once for each thread: the place to find out that nothing can work."""


class CallableSink:
    """Hands rows to a function: a `pyarrow.Table`, or a list of what the extractor returned.

    The function is called by all threads, also at the same time. What it returned from counts as done. A function given
    to the Streamer as its sink is wrapped in this.
    """

    needs_arrow = False

    def __init__(self, function: Callable[[Any], object]) -> None:
        self._function = function

    def __repr__(self) -> str:
        return f"CallableSink({getattr(self._function, '__qualname__', self._function)})"

    def open(self, thread: str) -> Writer:
        return _Calling(self._function)


class _Calling:
    def __init__(self, function: Callable[[Any], object]) -> None:
        self._function = function

    def write(self, rows: Rows) -> None:
        self._function(rows)

    def close(self) -> None:
        pass
