"""Sink: the destination of a Streamer.

A sink is opened once per thread, and each thread has its own writer. There is no separate flush: when `write` returns,
all rows are in the sink; when it raises, none are. The Streamer keeps the rows until `write` returns and commits only
then, so a sink that fails loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from penstock.errors import OptionError

Rows: TypeAlias = pa.Table | list[Any]
"""Arrow, or without a schema the list of what the extractor returned."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a thread writes the rows that it holds: at the first limit that is reached."""

    rows: int = 100_000
    bytes: int = 32 << 20
    """Size in memory as Arrow, source records included. A thread holds about this much."""
    seconds: float = 1.0


def check_limits(counts: Mapping[str, object], seconds: Mapping[str, object]) -> None:
    """Check limits. The keys are the names under which the user gave them."""
    for name, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise OptionError(name, value, "must be a whole number of at least 1")
    for name, value in seconds.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise OptionError(name, value, "must be more than 0 seconds")


class Writer(Protocol):
    """Writes the rows of one thread. That thread calls every method; another thread may call `close` after it has
    ended."""

    def write(self, rows: Rows) -> None:
        """Store all of these rows, or raise and store none.

        Raise RowsRefused if the sink can never store some of the rows: the Streamer then finds them. Raise SinkError if
        it cannot store any: the Streamer fails. After every other error the Streamer retries.
        """

    def close(self) -> None: ...


@runtime_checkable
class Sink(Protocol):
    """The destination of rows. All threads of a Streamer share it, and several Streamers may.

    It may have `limits`, for limits that the Streamer was not given, and `needs_arrow`: then an extractor of single
    messages needs a schema.
    """

    def open(self, thread: str) -> Writer:
        """Called once per thread when the Streamer starts. Raise here if the sink cannot work."""


class CallableSink:
    """Calls a function with rows: a `pyarrow.Table`, or a list of what the extractor returned.

    All threads call the function, also at the same time. When it returns, its rows count as written. The Streamer wraps
    a function that is given as its sink in this class.
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
