"""Acknowledges the command of a task at once, so that Spark sends the input without a wait of 40 ms.

Spark writes to a worker twice per task: the command, which holds the pickled reader or writer, and then the input. Its
socket has Nagle's algorithm on, so the short second write waits until the first one is acknowledged. The worker's
kernel delays that acknowledgement, because the connection looks interactive: request, answer, request. TCP_QUICKACK
sends a delayed acknowledgement immediately. It must be set between the two writes, which is when PySpark unpickles the
command. docs/internals.md has the trace.
"""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Any

from pyspark import TaskContext

OPEN_FILES = Path("/proc/self/fd")

_LOOPBACK = {"127.0.0.1", "::1"}


class UnpickledInTask:
    """A base for what Spark pickles into the command of a task: unpickling it acknowledges the command."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if TaskContext.get() is not None:
            acknowledge()


def acknowledge() -> None:
    """Acknowledge now what this process has received over TCP from processes of the same machine.

    PySpark does not hand its connection to a source, so this looks through the open files. The option changes no data
    and does not last: the next bytes that this process sends end its effect. Linux only; Unix sockets have no such
    delay.
    """
    option = getattr(socket, "TCP_QUICKACK", None)
    if option is None:
        return
    try:
        descriptors = [int(entry.name) for entry in OPEN_FILES.iterdir()]
    except OSError:
        return
    for descriptor in descriptors:
        try:
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                _acknowledge(descriptor, option)
        except OSError:
            pass  # closed meanwhile, or not connected


def _acknowledge(descriptor: int, option: int) -> None:
    connection = socket.socket(fileno=descriptor)
    try:
        is_tcp = connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM
        if is_tcp and connection.getpeername()[0] in _LOOPBACK:
            connection.setsockopt(socket.IPPROTO_TCP, option, 1)
    finally:
        connection.detach()  # the descriptor stays open: it is not ours
