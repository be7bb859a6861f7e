"""Connections of urllib3 whose time-out is that of a whole answer. Needs urllib3: import it where that is needed.

By itself a time-out holds for each piece that comes in: a server that sends a byte of a header now and then holds its
client for as long as it likes.
"""

from __future__ import annotations

import io
import time
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from typing import TYPE_CHECKING, Any

import urllib3
from urllib3.connection import HTTPConnection as PlainConnection
from urllib3.connection import HTTPSConnection as TlsConnection

if TYPE_CHECKING:
    from socket import SocketIO, socket

    from _typeshed import WriteableBuffer


class AnswerTooSlow(TimeoutError):
    """The time is up, and a part of the answer had come."""


class _Incoming(io.RawIOBase):
    """What a socket receives until the time is up."""

    def __init__(self, connected: socket, end: float) -> None:
        self._socket = connected
        # Not the socket alone: this also keeps it open as long as somebody reads from it.
        self._pieces: SocketIO = connected.makefile("rb", buffering=0)
        self._end = end
        self._has_begun = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        left = self._end - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError("the time for the answer is up")
            self._socket.settimeout(left)
            count = self._pieces.readinto(buffer)
        except TimeoutError as error:
            if self._has_begun:
                raise AnswerTooSlow(str(error)) from error
            raise
        self._has_begun = True
        return count

    def close(self) -> None:
        self._pieces.close()
        super().close()


class _TimedResponse(HTTPResponse):
    def __init__(self, connected: socket, *args: Any, end: float, **named: Any) -> None:
        super().__init__(connected, *args, **named)
        self.fp.close()
        self.fp = io.BufferedReader(_Incoming(connected, end))


class _Timed(HTTPConnection):
    """Goes before a connection of urllib3's, which sets `timeout` to what is left when it connects or reads."""

    def connect(self) -> None:
        self._start()  # a proxy that is to make a tunnel answers too
        super().connect()

    def getresponse(self) -> Any:
        self._start()
        return super().getresponse()

    def _start(self) -> None:
        assert self.timeout is not None
        # It is only ever called.
        self.response_class = partial(_TimedResponse, end=time.monotonic() + self.timeout)  # type: ignore[assignment]


class _TimedPlainConnection(_Timed, PlainConnection):
    pass


class _TimedTlsConnection(_Timed, TlsConnection):
    pass


class _PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _TimedPlainConnection


class _TlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TimedTlsConnection


def use_deadlines(pools: urllib3.PoolManager) -> None:
    """Let all connections of these pools count as above. Before the first request."""
    pools.pool_classes_by_scheme = {"http": _PlainPool, "https": _TlsPool}
