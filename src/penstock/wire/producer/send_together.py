"""Requests of many threads that one thread sends, when all their connections are ready."""

from __future__ import annotations

from threading import Barrier, BrokenBarrierError
from typing import Any

from penstock.errors import PenstockError
from penstock.wire.api.message import EncodedRequest
from penstock.wire.transport.connection import Connection


class NotSent(Exception):
    """No request was sent, because another thread has given up."""


class SendTogether:
    """Sends one request of each thread, all within microseconds. A process that is killed has sent all or none, unless
    it is hit in these microseconds."""

    def __init__(self, threads: int) -> None:
        self._barrier = Barrier(threads, self._send_all)
        self._waiting: dict[Connection, tuple[EncodedRequest, float]] = {}
        self._sent: dict[Connection, Any] = {}

    def call(self, connection: Connection, request: EncodedRequest, timeout: float) -> Any:
        """Wait for the other threads, send, and return the response. Later calls of a thread, which are retries, wait
        for nothing."""
        if self._sent:
            return connection.call(request, timeout)
        self._waiting[connection] = (request, timeout)
        try:
            self._barrier.wait(timeout)
        except BrokenBarrierError:
            raise NotSent from None
        pending = self._sent[connection]
        if isinstance(pending, PenstockError):
            raise pending
        return pending(timeout)

    def give_up(self) -> None:
        """Called by a thread that fails. If nothing is sent yet, nothing will be."""
        if not self._sent:
            self._barrier.abort()

    def _send_all(self) -> None:
        # Do not simplify: without this, the first request wakes a broker, which may take the core of this process. On a
        # busy machine the others followed up to 50 ms later.
        for connection in self._waiting:
            connection.hold_back(True)
        for connection, (request, timeout) in self._waiting.items():
            try:
                self._sent[connection] = self._send(connection, request, timeout)
            except PenstockError as error:
                self._sent[connection] = error
        for connection in self._waiting:
            connection.hold_back(False)

    def _send(self, connection: Connection, request: EncodedRequest, timeout: float) -> Any:
        return connection.ask(request, timeout)
